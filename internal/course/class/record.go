package class

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"assay/internal/course"
	"assay/internal/fault"
)

// HandIn is a submission and its grade.
type HandIn struct {
	// ID is what the attempt is called, where that was decided when it was handed
	// in (Admit); "" makes one. Who is then a person's ID, who may have left the
	// roster since, and Group the one of that time.
	ID         string
	Assignment string
	// Who handed it in: what Find takes. Group, if set, did it together, and Who
	// may then be "".
	Who, Group string
	// Received is when; zero is unknown and counts as in time.
	Received time.Time
	// Grade has the digest of the submission and the version that graded it.
	Grade course.Grade
	// By is who had it graded.
	By string
}

// Recorded is what became of a HandIn.
type Recorded struct {
	Attempt string `json:"attempt"`
	// Known says that the attempt was recorded before; New that its grade now is
	// this one.
	Known bool `json:"known,omitempty"`
	New   bool `json:"new"`
	// Refused is why the rule of attempts does not accept it; its grade is kept
	// all the same.
	Refused course.Refusal `json:"refused,omitempty"`
}

// Record keeps a graded submission of an assignment that PutAssignment has made.
// The same submission of the same person at the same time is one attempt,
// however often it is recorded. A grade of ours that failed is replaced by the
// next one, and replaces none; any other grade that differs is a Conflict, for
// a regrade to settle.
func (b *Book) Record(ctx context.Context, courseID string, h HandIn) (out Recorded, err error) {
	err = b.store.Write(ctx, courseID, func(rec Records) error {
		out, err = Record(ctx, rec, h)
		return err
	})
	return out, err
}

// Record is Book.Record within somebody's own Write.
func Record(ctx context.Context, rec Records, h HandIn) (Recorded, error) {
	var out Recorded
	err := within(ctx, rec, h.Assignment, func(s State, a Assignment) error {
		at, err := s.attemptOf(a, h)
		if err != nil {
			return err
		}
		run, grade, err := newRun(h.Grade, Note{By: h.By, At: instant()})
		if err != nil {
			return err
		}
		for _, old := range s.Attempts {
			if h.ID == "" && old.Person == at.Person && old.Digest == at.Digest && old.Received.Equal(at.Received) && (old.Person != "" || old.Group == at.Group) {
				out.Known, at = true, old
			}
			if h.ID != "" && old.ID == h.ID {
				out.Known, at = true, old
			}
		}
		switch {
		case !out.Known:
			at.ID, out.New = cmp.Or(h.ID, newID()), true
		case at.Run.Failed && !run.Failed:
			out.New = true
		case run.Failed || sameOutcome(at.Run, run):
		default:
			return fault.Errorf(fault.Conflict, "attempt %s of %s was graded before: %s of %s by version %s, now %s of %s by version %s",
				at.ID, a.Name, at.Run.Score, at.Run.Points, short(at.Run.Version), run.Score, run.Points, short(run.Version)).
				WithHint("a grade that was recorded only changes by a regrade, which shows the difference first")
		}
		out.Attempt = at.ID
		if out.New {
			run.Attempt = at.ID
			at.Run = run
			if err := rec.PutRun(ctx, run, grade); err != nil {
				return err
			}
			if err := rec.PutAttempt(ctx, at); err != nil {
				return err
			}
		}
		others := slices.DeleteFunc(s.Attempts, func(o Attempt) bool { return o.ID == at.ID })
		out.Refused, err = s.refusal(a, at.ID, append(others, at))
		return err
	})
	return out, err
}

// attemptOf says who handed in.
func (s State) attemptOf(a Assignment, h HandIn) (Attempt, error) {
	at := Attempt{
		Assignment: a.Name, Group: h.Group, Digest: h.Grade.Digest,
		Received: h.Received.UTC().Truncate(time.Microsecond),
	}
	if h.ID != "" {
		at.Person = h.Who
		return at, nil
	}
	if h.Who != "" {
		p, err := Find(s.People, h.Who)
		switch {
		case err != nil:
			return at, err
		case p.Role != Student:
			return at, fault.Errorf(fault.Conflict, "%s is staff and does not hand in", p.Label())
		}
		at.Person = p.ID
		if at.Group == "" {
			at.Group = s.groups(a.Name)[p.ID]
		}
	}
	if h.Group != "" {
		if _, err := s.findGroup(a.Name, h.Group); err != nil {
			return at, err
		}
	}
	if at.Person == "" && at.Group == "" {
		return at, fault.Errorf(fault.Invalid, "nobody has handed in")
	}
	return at, nil
}

// newRun is the run of a grade, and the grade as it is kept.
func newRun(g course.Grade, n Note) (Run, []byte, error) {
	grade, err := json.Marshal(g)
	if err != nil {
		return Run{}, nil, fmt.Errorf("write grade of %s: %w", g.Submission, err)
	}
	return Run{
		ID: newID(), Version: g.Version, Score: g.Score, Points: g.Points,
		Failed: failed(g), Suspicious: len(g.Suspicious) > 0, Note: n,
	}, grade, nil
}

// failed says that we failed in the whole grading or in one test.
func failed(g course.Grade) bool {
	if g.Cause == course.OurFailure {
		return true
	}
	for _, t := range g.Tests {
		if t.Cause == course.OurFailure {
			return true
		}
	}
	return false
}

func sameOutcome(a, b Run) bool {
	return a.Version == b.Version && a.Score.Cmp(b.Score) == 0 && a.Points.Cmp(b.Points) == 0 && a.Failed == b.Failed
}

// refusal is what the rule of attempts says of one of the attempts.
func (s State) refusal(a Assignment, id string, attempts []Attempt) (course.Refusal, error) {
	zone, err := s.Course.location()
	if err != nil {
		return "", err
	}
	slices.SortFunc(attempts, func(x, y Attempt) int {
		return cmp.Or(x.Received.Compare(y.Received), strings.Compare(x.ID, y.ID))
	})
	for _, list := range byUnit(s.groups(a.Name), attempts) {
		if i := slices.IndexFunc(list, func(at Attempt) bool { return at.ID == id }); i >= 0 {
			return refusals(a, list, zone)[i], nil
		}
	}
	return course.Accepted, nil
}

// short is the beginning of a digest, for people.
func short(version string) string {
	if len(version) > 19 {
		return version[:19] + "…"
	}
	return orNone(version)
}
