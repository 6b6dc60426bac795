package classes

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"assay/internal/course"
	"assay/internal/course/class"
	"assay/internal/course/grading"
	"assay/internal/fault"
	"assay/internal/work"
)

// Templates makes sure that this host has what an assignment runs in.
type Templates interface {
	Ready(ctx context.Context, name string) error
}

// Worker grades the attempts and checks the versions of the queue on one node.
type Worker struct {
	s         *Service
	grader    Grader
	templates Templates
}

// NewWorker makes the worker of a node.
func (s *Service) NewWorker(g Grader, t Templates) *Worker { return &Worker{s, g, t} }

// Run carries out the grading or the check that a job is about and keeps what
// came of it: it is a work.Handler. An error is our failure; the job is then
// tried again, and costs nobody an attempt.
func (w *Worker) Run(ctx context.Context, j work.Job) error {
	if j.Kind == CheckJob {
		return w.check(ctx, j)
	}
	return w.grade(ctx, j)
}

// GiveUp ends a job that has been tried too often, and its thing with it. A
// grading is recorded as our failure, which costs no attempt and which a regrade
// mends; a version is broken.
func (w *Worker) GiveUp(ctx context.Context, j work.Job) error {
	if j.Kind == CheckJob {
		return w.giveUpCheck(ctx, j)
	}
	return w.giveUpGrade(ctx, j)
}

func done() work.End { return work.End{State: work.Done, At: now()} }

// grading is what a job is about; ok is false where nothing is left to do: it has
// ended, or its course was removed.
func (w *Worker) grading(ctx context.Context, j work.Job) (g Grading, a Attempt, ok bool, err error) {
	g, err = w.s.store.Grading(ctx, j.Ref)
	if fault.Is(err, fault.NotFound) || err == nil && (g.State == Done || g.State == Cancelled) {
		return g, a, false, w.s.store.EndJob(ctx, j, done())
	}
	if err == nil {
		a, err = w.s.store.Attempt(ctx, g.Attempt)
	}
	return g, a, err == nil, err
}

func (w *Worker) grade(ctx context.Context, j work.Job) error {
	g, a, ok, err := w.grading(ctx, j)
	if err != nil || !ok {
		return err
	}
	if err := w.s.store.BeginGrading(ctx, g.ID, j.Node, j.Tries+1); err != nil {
		return err
	}
	w.s.tell(a.ID)
	grade, err := w.graded(ctx, a, g)
	if err != nil {
		return err
	}
	if cause := ours(grade); cause != "" {
		// Another node may do better; GiveUp records it when none does.
		return fault.Errorf(fault.Unavailable, "grade attempt %s: %s", a.ID, cause)
	}
	g.Node, g.Tries = j.Node, j.Tries+1
	return w.s.finish(ctx, j, done(), a, g, grade)
}

// graded grades an attempt by the version that its grading names.
func (w *Worker) graded(ctx context.Context, a Attempt, g Grading) (course.Grade, error) {
	v, err := w.s.store.Version(ctx, g.Course, g.Assignment, g.Version)
	if err != nil {
		return course.Grade{}, err
	}
	sub, err := w.s.submission(ctx, a)
	if err != nil {
		return course.Grade{}, err
	}
	task, err := w.prepared(ctx, v)
	if err != nil {
		return course.Grade{}, err
	}
	return w.grader.Grade(ctx, task, sub, nil)
}

func (w *Worker) prepared(ctx context.Context, v Version) (*course.Assignment, error) {
	if err := w.ready(ctx, v); err != nil {
		return nil, err
	}
	return w.s.folders.prepared(ctx, w.grader, v.Assignment, v.Package)
}

func (w *Worker) ready(ctx context.Context, v Version) error {
	if v.Template == "" {
		return nil
	}
	if err := w.templates.Ready(ctx, v.Template); err != nil {
		return fmt.Errorf("template %s: %w", v.Template, err)
	}
	return nil
}

// ours says what we failed in; "" is nothing.
func ours(g course.Grade) string {
	if g.Cause == course.OurFailure {
		return clip("our failure: "+g.Log, maxReason)
	}
	for _, t := range g.Tests {
		if t.Cause == course.OurFailure {
			return clip("our failure in a test: "+t.Detail, maxReason)
		}
	}
	return ""
}

// finish records a grade, or keeps it for its regrade set, and says so.
func (s *Service) finish(ctx context.Context, j work.Job, end work.End, a Attempt, g Grading, grade course.Grade) error {
	g.State, g.Ended = Done, end.At
	g.CPU, g.MemoryTime = used(grade)
	var record func(class.Records) error
	if g.Regrade != "" {
		data, err := json.Marshal(grade)
		if err != nil {
			return fmt.Errorf("write grade of attempt %s: %w", a.ID, err)
		}
		g.Grade = data
	} else {
		record = func(rec class.Records) error {
			_, err := class.Record(ctx, rec, class.HandIn{
				ID: a.ID, Assignment: a.Assignment, Who: a.Person, Group: a.Group, Received: a.Received, Grade: grade, By: "assay",
			})
			return err
		}
	}
	if err := s.store.FinishGrading(ctx, j, end, g, record); err != nil {
		return err
	}
	s.tell(a.ID)
	return nil
}

// used is what a grading took: CPU time of its tests, and its machines' memory
// times how long it ran, in bytes times seconds.
func used(g course.Grade) (cpu time.Duration, memoryTime float64) {
	for _, t := range g.Run.Tests {
		cpu += time.Duration(t.TimeUS) * time.Microsecond
	}
	seconds := g.Run.Finished.Sub(g.Run.Began).Seconds()
	for _, m := range g.Run.Machines {
		memoryTime += float64(m.Shape.Memory) * seconds
	}
	return cpu, memoryTime
}

func (w *Worker) giveUpGrade(ctx context.Context, j work.Job) error {
	g, a, ok, err := w.grading(ctx, j)
	if err != nil || !ok {
		return err
	}
	v, err := w.s.store.Version(ctx, g.Course, g.Assignment, g.Version)
	if err != nil {
		return err
	}
	g.Failed, g.Reason = true, clip(course.Clean(j.Reason), maxReason)
	end := work.End{State: work.Failed, Reason: g.Reason, At: now()}
	grade := course.Grade{
		Submission: a.ID, Digest: a.Digest, Assignment: a.Assignment, Title: v.Class.Title, Version: v.Digest, Mode: v.Mode, Points: v.Class.Points,
		Cause: course.OurFailure, Log: g.Reason, Tests: []course.TestResult{}, Received: &a.Received,
		Run: course.RunFacts{Began: end.At, Finished: end.At, Tries: g.Tries},
	}
	return w.s.finish(ctx, j, end, a, g, grade)
}

// version is what a job checks; ok is false where nothing is left to do.
func (w *Worker) version(ctx context.Context, j work.Job) (v Version, ok bool, err error) {
	v, err = w.s.store.VersionByID(ctx, j.Ref)
	if fault.Is(err, fault.NotFound) || err == nil && v.State != Checking {
		return v, false, w.s.store.EndJob(ctx, j, done())
	}
	return v, err == nil, err
}

func (w *Worker) giveUpCheck(ctx context.Context, j work.Job) error {
	v, ok, err := w.version(ctx, j)
	if err != nil || !ok {
		return err
	}
	v.State, v.Why = Broken, clip("our failure: "+course.Clean(j.Reason), maxReason)
	return w.s.store.FinishVersion(ctx, j, work.End{State: work.Failed, Reason: v.Why, At: now()}, v)
}

func (w *Worker) check(ctx context.Context, j work.Job) error {
	v, ok, err := w.version(ctx, j)
	if err != nil || !ok {
		return err
	}
	task, checks, err := w.checked(ctx, v)
	switch {
	case err == nil:
		v.State, v.Checks = Passed, checks
		for _, c := range checks {
			if !c.OK {
				v.State = Failed
			}
		}
		v.Class, v.Tests = class.AssignmentOf(task), len(task.Tests)
	case theirs(err):
		v.State, v.Why = Broken, clip(err.Error(), maxWhy)
		if hint := fault.HintOf(err); hint != "" {
			v.Why += "\n" + hint
		}
	default:
		return err
	}
	return w.s.store.FinishVersion(ctx, j, done(), v)
}

// maxWhy bounds what is kept of why a version is broken.
const maxWhy = 4000

func (w *Worker) checked(ctx context.Context, v Version) (*course.Assignment, []grading.Check, error) {
	task, err := w.prepared(ctx, v)
	if err != nil {
		return nil, nil, err
	}
	checks, err := w.grader.Verify(ctx, task, grading.VerifyOptions{})
	return task, checks, err
}

// theirs tells what is wrong with an assignment from a failure of ours.
func theirs(err error) bool {
	switch fault.KindOf(err) {
	case fault.Invalid, fault.NotFound, fault.Unsupported:
		return true
	}
	return false
}

var _ Grader = (*grading.Service)(nil)
