package grading

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	"assay/internal/course"
	"assay/internal/judge"
)

// Check is one thing that Verify looked at.
type Check struct {
	// Kind is tests, solution, repeat, starter, proof or hostile.
	Kind string `json:"kind"`
	Name string `json:"name"`
	Want string `json:"want"`
	Got  string `json:"got"`
	OK   bool   `json:"ok"`
	// Why says more of one that is not as wanted.
	Why string `json:"why,omitempty"`
}

// VerifyOptions change what Verify does.
type VerifyOptions struct {
	// Repeats is how often the solution is graded to find flaky tests; below 2
	// is 3.
	Repeats int
	// AtOnce is how many submissions are graded side by side.
	AtOnce int
	// Done hears of each check; calls come one at a time. Total is how many there
	// will be.
	Done func(c Check, done, total int)
}

// Verify checks a prepared assignment before it is published: the solution gets
// all points, the same each time; the starter code and the assignment's own
// proofs get what the teacher says; and Assay's hostile submissions for the
// language get no more than the starter code, or nothing where there is none.
func (s *Service) Verify(ctx context.Context, a *course.Assignment, o VerifyOptions) ([]Check, error) {
	if o.Repeats < 2 {
		o.Repeats = 3
	}
	trials := trialsOf(a, o.Repeats)
	grades := make([]course.Grade, len(trials))
	entries := make([]Entry, len(trials))
	for i, t := range trials {
		entries[i] = Entry{ID: t.id, Open: func() (course.Submission, error) {
			// The name is in the canonical bytes, so repetitions share one.
			return course.Submission{Files: t.files}, nil
		}}
	}
	var checks []Check
	note := func(c Check) {
		checks = append(checks, c)
		if o.Done != nil {
			o.Done(c, len(checks), len(trials)+1)
		}
	}
	// Side by side they end in any order; they are told of in theirs.
	ready := make([]bool, len(trials))
	told := 0
	var floor judge.Score
	err := s.Run(ctx, a, Class{Entries: entries, AtOnce: o.AtOnce, Done: func(out Outcome) error {
		grades[out.Index], ready[out.Index] = out.Grade, true
		for told < len(trials) && ready[told] {
			t := trials[told]
			if t.kind == "starter" {
				floor = grades[told].Score
			}
			note(t.check(a, grades[told], grades, floor))
			told++
		}
		return nil
	}})
	if err != nil {
		return nil, err
	}
	note(checkTests(a))
	return checks, nil
}

// trial is one submission that Verify grades.
type trial struct {
	id, kind string
	files    []course.File
	proof    course.Proof
}

func trialsOf(a *course.Assignment, repeats int) []trial {
	list := []trial{{id: "solution", kind: "solution", files: a.Solution}}
	for i := 2; i <= repeats; i++ {
		list = append(list, trial{id: fmt.Sprintf("solution, run %d", i), kind: "repeat", files: a.Solution})
	}
	if len(a.Starter) > 0 {
		list = append(list, trial{id: "starter", kind: "starter", files: a.Starter, proof: a.StarterProof})
	}
	for _, p := range a.Proofs {
		list = append(list, trial{id: p.Name, kind: "proof", files: p.Files, proof: p})
	}
	for _, h := range hostileFor(a) {
		list = append(list, trial{id: "hostile: " + h.name, kind: "hostile", files: h.files})
	}
	if len(a.Solution) == 0 {
		list = list[repeats:]
	}
	return list
}

func (t trial) check(a *course.Assignment, g course.Grade, all []course.Grade, floor judge.Score) Check {
	c := Check{Kind: t.kind, Name: t.id, Got: scoreText(g)}
	switch t.kind {
	case "solution":
		full := judge.Score{}
		for _, test := range a.Tests {
			full = full.Add(test.Points)
		}
		c.Want = "all points, every test passed"
		c.OK = g.Score.Cmp(full) == 0 && len(g.Suspicious) == 0 && allPassed(g)
	case "repeat":
		c.Want = "the same as the first"
		first := all[0]
		g.Submission = first.Submission
		x, errX := Canonical(first)
		y, errY := Canonical(g)
		c.OK = errX == nil && errY == nil && bytes.Equal(x, y)
		if !c.OK {
			c.Why = "flaky: the texts of the tests differ"
			if d := course.Compare(first, g); d.Changed {
				c.Why = "flaky: " + strings.Join(d.Why, "; ")
			}
		}
		return c
	case "starter":
		c.OK = g.Score.Cmp(a.Points) < 0
		c.Want = "less than all points"
		if t.proof.Name != "" {
			c.Want = wanted(t.proof, a)
			c.OK = meets(t.proof, g, a)
		}
	case "proof":
		c.Want, c.OK = wanted(t.proof, a), meets(t.proof, g, a)
	case "hostile":
		c.Want = "at most " + floor.String()
		c.OK = g.Score.Cmp(floor) <= 0
	}
	if g.Cause == course.OurFailure {
		c.OK = false
	}
	if !c.OK {
		c.Why = whyNot(g)
	}
	return c
}

func allPassed(g course.Grade) bool {
	for _, t := range g.Tests {
		if t.Status != course.Passed {
			return false
		}
	}
	return len(g.Tests) > 0
}

func wanted(p course.Proof, a *course.Assignment) string {
	text := p.Score.String() + " of " + a.Points.String()
	if p.Full {
		text = "all points"
	}
	if p.Suspicious {
		text += ", suspicious"
	}
	if p.Cause != course.NoCause {
		text += ", cause " + string(p.Cause)
	}
	return text
}

func meets(p course.Proof, g course.Grade, a *course.Assignment) bool {
	want := p.Score
	if p.Full {
		want = a.Points
	}
	return g.Score.Cmp(want) == 0 && (p.Suspicious == (len(g.Suspicious) > 0)) && (p.Cause == course.NoCause || hasCause(g, p.Cause))
}

func hasCause(g course.Grade, c course.Cause) bool {
	if g.Cause == c {
		return true
	}
	for _, t := range g.Tests {
		if t.Cause == c {
			return true
		}
	}
	return false
}

func scoreText(g course.Grade) string {
	text := g.Score.String() + " of " + g.Points.String()
	if len(g.Suspicious) > 0 {
		text += ", suspicious"
	}
	seen := map[course.Cause]bool{course.NoCause: true}
	for _, c := range append([]course.Cause{g.Cause}, causes(g)...) {
		if !seen[c] {
			seen[c] = true
			text += ", " + string(c)
		}
	}
	return text
}

func causes(g course.Grade) []course.Cause {
	var list []course.Cause
	for _, t := range g.Tests {
		list = append(list, t.Cause)
	}
	return list
}

// whyNot names what is behind a grade that was not expected.
func whyNot(g course.Grade) string {
	var why []string
	if g.Cause != course.NoCause {
		why = append(why, string(g.Cause)+": "+firstLines(g.Build+"\n"+g.Log, 8))
	}
	for _, s := range g.Suspicious {
		why = append(why, s.Text)
	}
	for _, t := range g.Tests {
		if t.Status != course.Passed && len(why) < 6 {
			why = append(why, fmt.Sprintf("test %q: %s: %s", t.Name, t.Text(), firstLines(t.Detail, 4)))
		}
	}
	return strings.Join(why, "\n")
}

// checkTests looks at the tests themselves.
func checkTests(a *course.Assignment) Check {
	c := Check{Kind: "tests", Name: "tests and points", Want: "tests that are worth something", OK: a.Points.Sign() > 0}
	hidden := 0
	for _, t := range a.Tests {
		if t.Visibility != course.Visible {
			hidden++
		}
	}
	c.Got = fmt.Sprintf("%d tests, %d hidden, %s points", len(a.Tests), hidden, a.Points)
	return c
}
