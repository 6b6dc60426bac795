package judge

import "fmt"

// ForContestant is what whoever sent the program may see of a run: verdict,
// the number of the case that decided, time and memory, scores, and what the
// compiler and a checker said to the team. Of a sample it is also the reason. Of
// anything else no reason is given: an exit code, or the name of a
// case, can tell what is in an input. A checker's message for the jury, standard
// error and the machine are left out everywhere.
func (r Run) ForContestant() Run {
	out := Run{
		ID: r.ID, Verdict: r.Verdict, FailedCase: r.FailedCase, Score: r.Score, TimeUS: r.TimeUS, MemoryBytes: r.MemoryBytes,
		Submission: r.Submission,
		Problem:    ProblemInfo{ShortName: r.Problem.ShortName, Name: r.Problem.Name, Version: r.Problem.Version, Cases: r.Problem.Cases},
		Limits:     r.Limits, Cases: []CaseResult{}, StartedAt: r.StartedAt, FinishedAt: r.FinishedAt,
		// The compiler saw the sources only.
		Compile: CompileResult{Output: r.Compile.Output, OutputTruncated: r.Compile.OutputTruncated},
	}
	if r.Verdict == CompileError {
		out.Reason = r.Reason
	}
	for _, c := range r.Cases {
		seen := CaseResult{
			Number: c.Number, Name: fmt.Sprintf("case %d", c.Number), Sample: c.Sample, Verdict: c.Verdict,
			TimeUS: c.TimeUS, TimeAtLeast: c.TimeAtLeast, MemoryBytes: c.MemoryBytes, Score: c.Score,
			// The checker wrote it for them.
			Message: c.Message,
		}
		if c.Sample {
			seen.Name = c.Name
			if c.Verdict != JudgeError {
				seen.Reason = c.Reason
			}
			if c.Number == r.FailedCase {
				out.Reason = seen.Reason
			}
		}
		out.Cases = append(out.Cases, seen)
	}
	for i, g := range r.Groups {
		seen := GroupResult{Verdict: g.Verdict, Score: g.Score, Max: g.Max}
		if i > 0 {
			seen.Name = fmt.Sprintf("group %d", i)
		}
		out.Groups = append(out.Groups, seen)
	}
	return out
}
