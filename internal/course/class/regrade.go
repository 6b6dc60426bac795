package class

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"

	"assay/internal/course"
	"assay/internal/fault"
	"assay/internal/judge"
)

// Regraded is an attempt with a new grade.
type Regraded struct {
	Attempt string
	Grade   course.Grade
}

// RegradePlan is what a regrade would change.
type RegradePlan struct {
	Assignment string `json:"assignment"`
	// Before and After are the versions.
	Before string `json:"version_before"`
	After  string `json:"version_after"`
	// Attempts have another outcome than before.
	Attempts []AttemptChange `json:"attempts"`
	// Marks are those that change, by name; while names are hidden by pseudonym.
	Marks []MarkChange `json:"marks"`
	// Same is how many attempts have the outcome that they had.
	Same int `json:"same"`
	// Failed are attempts that we could not grade: they keep what they have.
	Failed []string `json:"failed"`
}

// AttemptChange is an attempt before and after.
type AttemptChange struct {
	Attempt string      `json:"attempt"`
	Before  judge.Score `json:"before"`
	After   judge.Score `json:"after"`
	// Why names what differs: the version, the template, tests.
	Why []string `json:"why"`
}

// MarkChange is one person's mark before and after.
type MarkChange struct {
	Who    string      `json:"who"`
	Before judge.Score `json:"before"`
	After  judge.Score `json:"after"`
	// Attempt is the one that counts after.
	Attempt string `json:"attempt"`
}

// Attempts are the attempts of an assignment, by the time at which they were
// received: those whose files are graded again for a regrade.
func (b *Book) Attempts(ctx context.Context, courseID, assignment string) ([]Attempt, error) {
	s, err := b.State(ctx, courseID)
	if err != nil {
		return nil, err
	}
	if _, err := s.assignment(assignment); err != nil {
		return nil, err
	}
	return s.attempts(assignment), nil
}

// PlanRegrade says what ApplyRegrade would change. a is the assignment as it is
// from then on; its Anonymous, Published and Created are ignored.
func (b *Book) PlanRegrade(ctx context.Context, courseID string, a Assignment, list []Regraded) (RegradePlan, error) {
	var plan RegradePlan
	err := b.store.Read(ctx, courseID, func(rec Records) error {
		r, err := newRegrade(ctx, rec, a, list, Note{})
		if err == nil {
			plan = r.plan
		}
		return err
	})
	return plan, err
}

// ApplyRegrade gives attempts their new grades, as planned: all of it or
// nothing. If marks have changed since the plan was made, nothing is done:
// Conflict. Old grades stay in the history, and where we failed the old grade
// goes on to count.
func (b *Book) ApplyRegrade(ctx context.Context, courseID string, a Assignment, list []Regraded, plan RegradePlan, n Note) error {
	return b.store.Write(ctx, courseID, func(rec Records) error {
		return ApplyRegrade(ctx, rec, a, list, n, func(now RegradePlan) bool { return samePlan(now, plan) })
	})
}

// ApplyRegrade is Book.ApplyRegrade within somebody's own Write. seen says
// whether a plan is the one that was agreed to.
func ApplyRegrade(ctx context.Context, rec Records, a Assignment, list []Regraded, n Note, seen func(RegradePlan) bool) error {
	var err error
	if n.Reason, err = fitReason(n.Reason); err != nil {
		return err
	}
	n.At = instant()
	r, err := newRegrade(ctx, rec, a, list, n)
	if err != nil {
		return err
	}
	if !seen(r.plan) {
		return fault.Errorf(fault.Conflict, "marks of %s were changed meanwhile", a.Name).WithHint("look at the preview again")
	}
	if err := rec.PutAssignment(ctx, r.assignment); err != nil {
		return err
	}
	for _, g := range r.good {
		if err := rec.PutRun(ctx, g.attempt.Run, g.grade); err != nil {
			return err
		}
		if err := rec.PutAttempt(ctx, g.attempt); err != nil {
			return err
		}
	}
	return nil
}

// samePlan compares plans; scores are compared as they are written.
func samePlan(a, b RegradePlan) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && reflect.DeepEqual(x, y)
}

// regrade is a plan with what it needs to be applied.
type regrade struct {
	plan       RegradePlan
	assignment Assignment
	good       []regradedAttempt
}

type regradedAttempt struct {
	attempt Attempt
	grade   []byte
}

func newRegrade(ctx context.Context, rec Records, a Assignment, list []Regraded, n Note) (regrade, error) {
	r := regrade{plan: RegradePlan{Assignment: a.Name, After: a.Version, Attempts: []AttemptChange{}, Marks: []MarkChange{}, Failed: []string{}}}
	s, err := rec.State(ctx, a.Name)
	if err != nil {
		return r, err
	}
	old, err := s.assignment(a.Name)
	if err != nil {
		return r, err
	}
	if err := a.check(); err != nil {
		return r, err
	}
	a.Anonymous, a.Published, a.Created = old.Anonymous, old.Published, old.Created
	r.plan.Before, r.assignment = old.Version, a
	before, err := s.Marks(old)
	if err != nil {
		return r, err
	}
	after := s
	after.Attempts = slices.Clone(s.Attempts)
	seen := map[string]bool{}
	for _, g := range list {
		i := slices.IndexFunc(s.Attempts, func(at Attempt) bool { return at.ID == g.Attempt })
		if i < 0 || seen[g.Attempt] {
			return r, fault.Errorf(fault.Invalid, "%s has no attempt %q, or it was graded twice", a.Name, g.Attempt)
		}
		seen[g.Attempt] = true
		at := s.Attempts[i]
		if g.Grade.Digest != at.Digest {
			return r, fault.Errorf(fault.Conflict, "attempt %s has the digest %s, but %s was graded", at.ID, short(at.Digest), short(g.Grade.Digest))
		}
		run, grade, err := newRun(g.Grade, n)
		if err != nil {
			return r, err
		}
		if run.Failed {
			r.plan.Failed = append(r.plan.Failed, at.ID)
			continue
		}
		d, err := differenceTo(ctx, rec, at.Run, g.Grade)
		if err != nil {
			return r, err
		}
		if d.Changed {
			r.plan.Attempts = append(r.plan.Attempts, AttemptChange{at.ID, at.Run.Score, run.Score, d.Why})
		} else {
			r.plan.Same++
		}
		run.Attempt = at.ID
		at.Run = run
		after.Attempts[i] = at
		r.good = append(r.good, regradedAttempt{at, grade})
	}
	now, err := after.Marks(a)
	if err != nil {
		return r, err
	}
	for _, p := range students(s.People) {
		if x, y := before[p.ID], now[p.ID]; x.Score.Cmp(y.Score) != 0 || x.None != y.None {
			who := p.Label()
			if a.Hidden() {
				who = s.Course.Pseudonym(a.Name, p.ID)
			}
			r.plan.Marks = append(r.plan.Marks, MarkChange{who, x.Score, y.Score, y.Attempt})
		}
	}
	if a.Hidden() {
		// The order of names would tell who is who.
		slices.SortFunc(r.plan.Marks, func(x, y MarkChange) int { return strings.Compare(x.Who, y.Who) })
	}
	return r, nil
}

// differenceTo compares a new grade with that of the run that counted.
func differenceTo(ctx context.Context, rec Records, old Run, now course.Grade) (course.Difference, error) {
	data, err := rec.Grade(ctx, old.ID)
	if err != nil {
		return course.Difference{}, err
	}
	var before course.Grade
	if err := json.Unmarshal(data, &before); err != nil {
		return course.Difference{}, errors.Join(fault.Errorf(fault.Internal, "grade of run %s cannot be read", old.ID), err)
	}
	return course.Compare(before, now), nil
}
