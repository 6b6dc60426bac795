package course

import (
	"fmt"
	"time"

	"assay/internal/judge"
)

// Release says what has been opened to students so far.
type Release struct {
	// AfterDue: the last due date is over, late days included.
	AfterDue bool
	// Published: the teacher has published the marks.
	Published bool
}

// Shows reports whether something of this visibility may be seen now.
func (r Release) Shows(v Visibility) bool {
	switch v {
	case Visible:
		return true
	case AfterDue:
		return r.AfterDue || r.Published
	case AfterPublished:
		return r.Published
	}
	return false
}

// StudentGrade is what the student may see of a grade. What it leaves out was
// never in it: no name, input, output or count of a hidden test.
type StudentGrade struct {
	Submission string `json:"submission"`
	Digest     string `json:"submission_digest"`
	Assignment string `json:"assignment"`
	Title      string `json:"title"`
	Version    string `json:"assignment_version"`
	// Score and Points are nil while tests remain hidden: a total would say what
	// they gave.
	Score  *judge.Score `json:"score,omitempty"`
	Points *judge.Score `json:"points,omitempty"`
	// HiddenRemain says that tests which the student cannot see count, too.
	HiddenRemain bool          `json:"hidden_tests_remain"`
	Tests        []StudentTest `json:"tests"`
	// Message says what happened to the whole run, in words for the student.
	Message  string     `json:"message,omitempty"`
	Build    string     `json:"build,omitempty"`
	Notes    []string   `json:"notes,omitempty"`
	Received *time.Time `json:"received,omitempty"`
	Finished time.Time  `json:"finished"`
}

// StudentTest is one test that the student may see.
type StudentTest struct {
	Name    string      `json:"name"`
	Passed  bool        `json:"passed"`
	Score   judge.Score `json:"score"`
	Points  judge.Score `json:"points"`
	Bonus   bool        `json:"bonus,omitempty"`
	Message string      `json:"message,omitempty"`
	Detail  string      `json:"detail,omitempty"`
	Stdout  string      `json:"stdout,omitempty"`
	TimeUS  int64       `json:"time_us"`
	Memory  int64       `json:"memory_bytes"`
}

// ForStudent gives what the student may see. stdout is the visibility of what
// tests printed; a hidden test's output is never shown whatever it says.
func (g Grade) ForStudent(r Release, stdout Visibility) StudentGrade {
	out := StudentGrade{
		Submission: g.Submission, Digest: g.Digest, Assignment: g.Assignment, Title: g.Title, Version: g.Version,
		Message: g.Cause.Text(), Build: g.Build, Notes: g.Notes, Received: g.Received, Finished: g.Run.Finished, Tests: []StudentTest{},
	}
	for i, t := range g.Tests {
		if !r.Shows(t.Visibility) {
			out.HiddenRemain = true
			continue
		}
		seen := StudentTest{
			Name: t.Name, Passed: t.Status == Passed, Score: t.Score, Points: t.Points, Bonus: t.Bonus, Message: t.Message,
		}
		if i < len(g.Run.Tests) {
			seen.TimeUS, seen.Memory = g.Run.Tests[i].TimeUS, g.Run.Tests[i].MemoryBytes
		}
		if why := t.why(); why != "" {
			seen.Message = join(why, seen.Message)
		}
		if t.Details {
			seen.Detail = t.Detail
		}
		if r.Shows(stdout) {
			seen.Stdout = t.Stdout
		}
		out.Tests = append(out.Tests, seen)
	}
	if !out.HiddenRemain {
		out.Score, out.Points = &g.Score, &g.Points
	}
	return out
}

// why says in words for the student what kept a test from passing, where the
// test itself did not decide.
func (t TestResult) why() string {
	switch {
	case t.Cause != NoCause:
		return t.Cause.Text()
	case t.Status == Skipped:
		return "The test was skipped. A skipped test earns nothing."
	case t.Status == Missing:
		return "The test gave no result."
	}
	return ""
}

func join(a, b string) string {
	if b == "" {
		return a
	}
	return a + "\n" + b
}

var causeTexts = map[Cause]string{
	TimeLimit:     "Your program took longer than the time limit and was ended.",
	MemoryLimit:   "Your program needed more memory than the limit and was ended. Very deep recursion can do this, too.",
	OutputLimit:   "Your program wrote more than the output limit and was ended.",
	ProcessLimit:  "Your program started more processes or threads than the limit and was ended.",
	DiskLimit:     "Your program wrote more to the disk than the limit and was ended.",
	EndedTest:     "Your program ended the process in the middle of the test.",
	Crashed:       "Your program crashed (it was ended by a signal).",
	NotCompiled:   "Your program does not compile.",
	NotImported:   "Your program cannot be loaded.",
	MissingFile:   "A file that the assignment expects was not handed in.",
	RefusedFiles:  "What was handed in cannot be taken.",
	NoResult:      "The test gave no result.",
	InvalidResult: "The test gave a result that is not valid.",
	OurFailure:    "A failure on our side: this attempt does not count, and it will be graded again.",
}

// Text says what happened in a sentence for students; empty for NoCause.
func (c Cause) Text() string {
	if c == NoCause {
		return ""
	}
	if text, ok := causeTexts[c]; ok {
		return text
	}
	return fmt.Sprintf("The program ended for the reason %q.", string(c))
}
