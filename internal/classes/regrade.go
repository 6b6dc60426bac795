package classes

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"assay/internal/account"
	"assay/internal/course"
	"assay/internal/course/class"
	"assay/internal/fault"
)

// RegradeState is how far a regrade set is.
type RegradeState string

// The states of a set. Ready is one that runs whose gradings have all ended.
const (
	RegradeRunning   RegradeState = "running"
	RegradeReady     RegradeState = "ready"
	RegradeApplied   RegradeState = "applied"
	RegradeCancelled RegradeState = "cancelled"
)

// Regrade is a set of attempts that are graded again. No mark changes before it
// is applied.
type Regrade struct {
	ID                 string
	Course, Assignment string
	// Version is what they are graded by.
	Version int
	Reason  string
	State   RegradeState
	By      string
	Created time.Time
	Ended   time.Time
	// Total, Done and Failed count gradings; Failed are those where we failed.
	Total, Done, Failed int
	// Plan is what applying changes, and PlanDigest names it; they are there while
	// the set is ready.
	Plan       *class.RegradePlan
	PlanDigest string
}

// Page is where the page after this set begins.
func (r Regrade) Page() string { return pageKey(r.Created, r.ID) }

// NewRegrade says what to grade again.
type NewRegrade struct {
	Course, Assignment string
	// Version is a number; 0 is the one that attempts are graded by now.
	Version int
	// Attempts, if not empty, takes only these.
	Attempts []string
	Reason   string
}

// maxRegrade bounds the attempts of one set.
const maxRegrade = 10_000

// NewRegrade makes a set. Its gradings wait behind what is handed in.
func (s *Service) NewRegrade(ctx context.Context, n NewRegrade) (Regrade, error) {
	at, err := s.enter(ctx, n.Course, account.Change, account.GradebookThing)
	if err != nil {
		return Regrade{}, err
	}
	reason := strings.TrimSpace(course.Clean(n.Reason))
	if reason == "" || len(reason) > maxReason {
		return Regrade{}, fault.Errorf(fault.Invalid, "a regrade needs a reason of at most %d bytes", maxReason).WithHint("say why, for those who ask later")
	}
	v, err := s.regradeVersion(ctx, n)
	if err != nil {
		return Regrade{}, err
	}
	list, err := s.chosen(ctx, n)
	if err != nil {
		return Regrade{}, err
	}
	r := Regrade{
		ID: newID(), Course: n.Course, Assignment: n.Assignment, Version: v.Number, Reason: reason, State: RegradeRunning, By: at.actor.Name,
		Created: now(), Total: len(list),
	}
	gradings := make([]Grading, len(list))
	for i, a := range list {
		gradings[i] = Grading{
			ID: newID(), Attempt: a.ID, Course: n.Course, Assignment: n.Assignment, Regrade: r.ID, Version: v.Number, State: Queued, Created: r.Created,
		}
	}
	if err := s.store.AddRegrade(ctx, r, gradings); err != nil {
		return Regrade{}, err
	}
	s.queue.Wake(GradeJob)
	return r, nil
}

// regradeVersion is the version that a set grades by: one that has been checked.
func (s *Service) regradeVersion(ctx context.Context, n NewRegrade) (Version, error) {
	number := n.Version
	if number == 0 {
		at, err := s.seat(ctx, n.Course)
		if err != nil {
			return Version{}, err
		}
		t, err := s.task(ctx, at, n.Assignment)
		if err != nil {
			return Version{}, err
		}
		if number = t.Current.Number; number == 0 {
			return Version{}, fault.Errorf(fault.Conflict, "%s was not opened yet", n.Assignment)
		}
	}
	v, err := s.store.Version(ctx, n.Course, n.Assignment, number)
	if err != nil {
		return v, err
	}
	if v.State != Passed && v.State != Failed {
		return v, fault.Errorf(fault.Conflict, "version %d of %s is %s", number, n.Assignment, v.State).WithHint("grade by a version that has been checked")
	}
	return v, nil
}

// chosen are the attempts that a set is about: recorded ones.
func (s *Service) chosen(ctx context.Context, n NewRegrade) ([]Attempt, error) {
	wanted := map[string]bool{}
	for _, id := range n.Attempts {
		wanted[id] = true
	}
	var chosen []Attempt
	q := AttemptQuery{Course: n.Course, Assignment: n.Assignment, Limit: 500}
	for {
		page, err := s.store.Attempts(ctx, q)
		if err != nil {
			return nil, err
		}
		for _, a := range page {
			if a.Grading.State == Done && (len(n.Attempts) == 0 || wanted[a.ID]) {
				chosen = append(chosen, a)
				delete(wanted, a.ID)
			}
		}
		if len(page) < q.Limit || len(n.Attempts) > 0 && len(wanted) == 0 {
			break
		}
		q.After = page[len(page)-1].Page()
	}
	for id := range wanted {
		return nil, fault.Errorf(fault.NotFound, "%s has no graded attempt %s that is asked for", n.Assignment, id)
	}
	switch {
	case len(chosen) == 0:
		return nil, fault.Errorf(fault.Invalid, "no attempt of %s has been graded", n.Assignment)
	case len(chosen) > maxRegrade:
		return nil, fault.Errorf(fault.Invalid, "%d attempts, a set has at most %d", len(chosen), maxRegrade).WithHint("name them")
	}
	return chosen, nil
}

// Regrade gives a set, and what applying it would change once it is ready.
func (s *Service) Regrade(ctx context.Context, courseID, id string) (Regrade, error) {
	if _, err := s.enter(ctx, courseID, account.ReadHidden, account.GradebookThing); err != nil {
		return Regrade{}, err
	}
	return s.regrade(ctx, courseID, id)
}

func (s *Service) regrade(ctx context.Context, courseID, id string) (Regrade, error) {
	r, err := s.store.Regrade(ctx, id)
	if err == nil && r.Course != courseID {
		err = fault.Errorf(fault.NotFound, "there is no regrade %s", id)
	}
	if err != nil || r.State != RegradeReady {
		return r, err
	}
	done, err := s.store.RegradeGradings(ctx, id)
	if err != nil {
		return r, err
	}
	v, err := s.store.Version(ctx, courseID, r.Assignment, r.Version)
	if err != nil {
		return r, err
	}
	list, err := regraded(done)
	if err != nil {
		return r, err
	}
	plan, err := s.book.PlanRegrade(ctx, courseID, v.Class, list)
	if err != nil {
		return r, err
	}
	r.Plan = &plan
	r.PlanDigest, err = digestOf(plan)
	return r, err
}

// regraded are the grades of a set.
func regraded(done []Grading) ([]class.Regraded, error) {
	list := make([]class.Regraded, len(done))
	for i, g := range done {
		list[i].Attempt = g.Attempt
		if err := json.Unmarshal(g.Grade, &list[i].Grade); err != nil {
			return nil, fmt.Errorf("grade of grading %s: %w", g.ID, err)
		}
	}
	return list, nil
}

// Regrades are the sets of a course, newest first, without plans.
func (s *Service) Regrades(ctx context.Context, courseID, after string, limit int) ([]Regrade, error) {
	if _, err := s.enter(ctx, courseID, account.ReadHidden, account.GradebookThing); err != nil {
		return nil, err
	}
	return s.store.Regrades(ctx, courseID, after, limit)
}

// ApplyRegrade lets the new grades count: all of it or nothing. digest is the
// PlanDigest that was shown; "" agrees to whatever the plan is by now. Where we
// failed the old grade stays. Old grades stay in the history.
func (s *Service) ApplyRegrade(ctx context.Context, courseID, id, digest string) (Regrade, error) {
	at, err := s.enter(ctx, courseID, account.Change, account.GradebookThing)
	if err != nil {
		return Regrade{}, err
	}
	r, err := s.regrade(ctx, courseID, id)
	if err != nil {
		return r, err
	}
	v, err := s.store.Version(ctx, courseID, r.Assignment, r.Version)
	if err != nil {
		return r, err
	}
	err = s.store.EndRegrade(ctx, id, RegradeApplied, func(rec class.Records, done []Grading) error {
		list, err := regraded(done)
		if err != nil {
			return err
		}
		return class.ApplyRegrade(ctx, rec, v.Class, list, class.Note{By: at.actor.Name, Reason: r.Reason}, func(now class.RegradePlan) bool {
			is, err := digestOf(now)
			return err == nil && (digest == "" || is == digest)
		})
	})
	if err != nil {
		return r, err
	}
	return s.regrade(ctx, courseID, id)
}

// CancelRegrade gives a set up.
func (s *Service) CancelRegrade(ctx context.Context, courseID, id string) (Regrade, error) {
	if _, err := s.enter(ctx, courseID, account.Change, account.GradebookThing); err != nil {
		return Regrade{}, err
	}
	if r, err := s.regrade(ctx, courseID, id); err != nil {
		return r, err
	}
	if err := s.store.EndRegrade(ctx, id, RegradeCancelled, nil); err != nil {
		return Regrade{}, err
	}
	return s.regrade(ctx, courseID, id)
}
