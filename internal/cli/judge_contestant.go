package cli

import "assay/internal/judge"

// contestantJSON is a run as its contestant sees it: one entry of "assay judge
// --contestant --json". Times are in microseconds, sizes in bytes.
type contestantJSON struct {
	ID          string               `json:"id"`
	Submission  judge.SubmissionInfo `json:"submission"`
	Problem     string               `json:"problem"`
	Verdict     judge.Verdict        `json:"verdict"`
	InWords     string               `json:"in_words"`
	Reason      string               `json:"reason,omitempty"`
	FailedCase  int                  `json:"failed_case,omitempty"`
	Score       *judge.Score         `json:"score,omitempty"`
	TimeUS      int64                `json:"time_us"`
	MemoryBytes int64                `json:"memory_bytes"`
	Compiler    string               `json:"compiler_output,omitempty"`
	Cases       []contestantCase     `json:"cases"`
	Groups      []contestantGroup    `json:"groups,omitempty"`
}

type contestantCase struct {
	Number      int           `json:"number"`
	Sample      bool          `json:"sample,omitempty"`
	Verdict     judge.Verdict `json:"verdict"`
	Reason      string        `json:"reason,omitempty"`
	Message     string        `json:"message,omitempty"`
	Score       *judge.Score  `json:"score,omitempty"`
	TimeUS      int64         `json:"time_us"`
	MemoryBytes int64         `json:"memory_bytes"`
}

type contestantGroup struct {
	Name    string        `json:"name"`
	Verdict judge.Verdict `json:"verdict"`
	Score   *judge.Score  `json:"score,omitempty"`
	Max     *judge.Score  `json:"max,omitempty"`
}

// contestantOf writes out a run that Run.ForContestant gave.
func contestantOf(r judge.Run) contestantJSON {
	c := contestantJSON{
		ID: r.ID, Submission: r.Submission, Problem: r.Problem.ShortName, Verdict: r.Verdict, InWords: r.Verdict.Text(), Reason: r.Reason,
		FailedCase: r.FailedCase, Score: r.Score, TimeUS: r.TimeUS, MemoryBytes: r.MemoryBytes, Compiler: r.Compile.Output, Cases: []contestantCase{},
	}
	for _, k := range r.Cases {
		c.Cases = append(c.Cases, contestantCase{k.Number, k.Sample, k.Verdict, k.Reason, k.Message, k.Score, k.TimeUS, k.MemoryBytes})
	}
	for _, g := range r.Groups {
		c.Groups = append(c.Groups, contestantGroup{g.Name, g.Verdict, g.Score, g.Max})
	}
	return c
}

// showContestant prints what contestants may see. Labels are not theirs.
func (c judgeCmd) showContestant(env *Env, list []judged) error {
	if env.JSON {
		runs := make([]contestantJSON, len(list))
		for i, l := range list {
			runs[i] = contestantOf(l.run)
		}
		return env.PrintJSON(runs)
	}
	contestantTable(env, list)
	if c.Groups {
		groupTable(env, list)
	}
	return nil
}

// contestantTable shows runs as their contestants see them.
func contestantTable(env *Env, list []judged) {
	table := make([][]string, len(list))
	for i, l := range list {
		r := l.run
		table[i] = []string{
			oneLine(r.Submission.Name), string(r.Verdict), r.Verdict.Text(), caseCell(r.FailedCase), secondsCell(r.TimeUS), memoryCell(r.MemoryBytes),
			scoreCell(r.Score), oneLine(r.Reason),
		}
	}
	env.UI.Table([]Column{
		Left("submission"), Left("verdict"), Left("in words"), Right("case"), Right("time s"), Right("memory MiB"), Right("score"), Left("reason"),
	}, table)
	for _, l := range list {
		name := oneLine(l.run.Submission.Name)
		if l.run.Verdict == judge.CompileError && l.run.Compile.Output != "" {
			env.UI.Printf("\n%s: the compiler said:\n%s\n", name, visible(l.run.Compile.Output))
		}
		for _, c := range l.run.Cases {
			if c.Message != "" {
				env.UI.Printf("\n%s: case %d: %s\n", name, c.Number, visible(c.Message))
			}
		}
	}
}
