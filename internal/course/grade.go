package course

import (
	"time"

	"assay/internal/judge"
)

// Grade is the result of one grading of a submission. It is for staff; what a
// student may see is ForStudent's.
type Grade struct {
	Submission string `json:"submission"`
	// Digest is the submission's, Assignment and Version say what graded it.
	Digest     string       `json:"submission_digest"`
	Assignment string       `json:"assignment"`
	Title      string       `json:"title"`
	Version    string       `json:"assignment_version"`
	Mode       Mode         `json:"mode"`
	Score      judge.Score  `json:"score"`
	Points     judge.Score  `json:"points"`
	Cause      Cause        `json:"cause,omitempty"`
	Suspicious []Suspicion  `json:"suspicious,omitempty"`
	Tests      []TestResult `json:"tests"`
	Build      string       `json:"build,omitempty"`
	Log        string       `json:"log,omitempty"`
	Notes      []string     `json:"notes,omitempty"`
	// Seed and Clock are what the tests were given.
	Seed  int64      `json:"seed"`
	Clock *time.Time `json:"clock,omitempty"`

	Received *time.Time `json:"received,omitempty"`
	// Run is what differs from one grading to the next of the same bytes.
	Run RunFacts `json:"run"`
}

// RunFacts are when and where a grading was done.
type RunFacts struct {
	Began    time.Time           `json:"began"`
	Finished time.Time           `json:"finished"`
	Phases   []Phase             `json:"phases,omitempty"`
	Machines []judge.MachineInfo `json:"machines,omitempty"`
	Host     *judge.HostInfo     `json:"host,omitempty"`
	// Tries counts how often our own failure made us begin anew, first included.
	Tries int `json:"tries"`
	// Tests are times and memory of each test, in the order of Grade.Tests.
	Tests []TestUsage `json:"tests,omitempty"`
}

// TestUsage is what one test took.
type TestUsage struct {
	TimeUS      int64 `json:"time_us"`
	MemoryBytes int64 `json:"memory_bytes"`
}

// TestResult is one test in a grade.
type TestResult struct {
	Name       string      `json:"name"`
	Status     Status      `json:"status"`
	Score      judge.Score `json:"score"`
	Points     judge.Score `json:"points"`
	Bonus      bool        `json:"bonus,omitempty"`
	Cause      Cause       `json:"cause,omitempty"`
	Visibility Visibility  `json:"visibility"`
	// Message is the teacher's; it is there when the test did not pass.
	Message string `json:"message,omitempty"`
	// Detail is for staff.
	Detail string `json:"detail,omitempty"`
	// Details says that the student may see Detail, too.
	Details   bool   `json:"details,omitempty"`
	Stdout    string `json:"stdout,omitempty"`
	Stderr    string `json:"stderr,omitempty"`
	Truncated bool   `json:"truncated,omitempty"`
}

// Decide makes a grade of a report. Points, names and the set of tests are the
// assignment's: a report can only say of a test that is there whether it
// passed. A test without a finding is Missing and earns nothing; two findings
// for one test earn nothing and are suspicious.
func Decide(a *Assignment, s Submission, r Report) Grade {
	g := Grade{
		Submission: s.ID, Digest: s.Digest(), Assignment: a.Name, Title: a.Title, Version: a.Version, Mode: a.Mode,
		Points: a.Points, Cause: r.Cause, Suspicious: r.Suspicions, Build: r.Build, Log: r.Log, Notes: s.Notes,
		Seed: a.Seed, Tests: make([]TestResult, 0, len(a.Tests)),
	}
	if !a.Clock.IsZero() {
		g.Clock = &a.Clock
	}
	if !s.Received.IsZero() {
		g.Received = &s.Received
	}
	found := make(map[string]Finding, len(r.Findings))
	twice := map[string]bool{}
	known := make(map[string]bool, len(a.Tests))
	for _, t := range a.Tests {
		known[t.ID] = true
	}
	for _, f := range r.Findings {
		if _, again := found[f.Test]; again {
			twice[f.Test] = true
		}
		if !known[f.Test] {
			g.Suspicious = append(g.Suspicious, Suspicion{"extra_test", "the result has a test that the assignment does not have: " + quoted(f.Test)})
			continue
		}
		found[f.Test] = f
	}
	for _, t := range a.Tests {
		f, ok := found[t.ID]
		switch {
		case !ok:
			f = Finding{Test: t.ID, Status: Missing, Cause: r.Cause}
			if f.Cause == NoCause {
				f.Cause = NoResult
			}
		case twice[t.ID]:
			f.Status, f.Cause = Errored, InvalidResult
			g.Suspicious = append(g.Suspicious, Suspicion{"invalid_result", "the result has two outcomes for the test " + quoted(t.Name)})
		}
		res := TestResult{
			Name: t.Name, Status: f.Status, Points: t.Points, Bonus: t.Bonus, Cause: f.Cause, Visibility: t.Visibility, Details: t.Details,
			Detail: Clean(f.Detail), Stdout: Clean(f.Stdout), Stderr: Clean(f.Stderr), Truncated: f.Truncated,
			Score: earned(t, f),
		}
		if f.Status != Passed {
			res.Message = t.Message
		}
		g.Score = g.Score.Add(res.Score)
		g.Tests = append(g.Tests, res)
		g.Run.Tests = append(g.Run.Tests, TestUsage{f.Usage.Counted.Microseconds(), f.Usage.MemoryPeak})
	}
	g.Build, g.Log = Clean(r.Build), Clean(r.Log)
	g.Run.Machines, g.Run.Phases = r.Machines, r.Phases
	return g
}

// earned is never below zero nor above the test's points.
func earned(t Test, f Finding) judge.Score {
	switch f.Status {
	case Passed:
		return t.Points
	case Partial:
		if f.Share.Sign() > 0 && f.Share.Cmp(judge.IntScore(1)) <= 0 {
			return t.Points.Mul(f.Share)
		}
	}
	return judge.Score{}
}
