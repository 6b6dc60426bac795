package grading

import (
	"context"
	"fmt"
	"time"

	"assay/internal/course"
	"assay/internal/course/handin"
	"assay/internal/fault"
	"assay/internal/judge"
)

// maxTries is how often our own failure makes us begin a grading anew, the first
// try included.
const maxTries = 3

// Service grades. It keeps nothing between gradings and may be used from many
// goroutines at once.
type Service struct {
	graders map[course.Mode]course.Grader
	pins    Pins
	host    judge.HostInfo
}

// New makes a Service. host goes into every grade.
func New(graders map[course.Mode]course.Grader, pins Pins, host judge.HostInfo) *Service {
	return &Service{graders: graders, pins: pins, host: host}
}

func (s *Service) grader(a *course.Assignment) (course.Grader, error) {
	g, ok := s.graders[a.Mode]
	if !ok {
		return nil, fault.Errorf(fault.Unsupported, "assignment %s: mode %q is not available here", a.Name, a.Mode).WithHint("use io, call, pytest or harness")
	}
	return g, nil
}

// Prepare makes an assignment ready to grade with: it has the mode build what it
// needs, and fills Assignment.Tests where they are pinned by the solution. The
// assignment must not be used elsewhere meanwhile.
func (s *Service) Prepare(ctx context.Context, a *course.Assignment) error {
	g, err := s.grader(a)
	if err != nil {
		return err
	}
	if p, ok := g.(Preparer); ok {
		if err := p.Prepare(ctx, a); err != nil {
			return fmt.Errorf("prepare assignment %s: %w", a.Name, err)
		}
	}
	if a.Mode != course.Pytest && a.Mode != course.Harness {
		return nil
	}
	tests, err := s.pins.Get(a.Version)
	if err != nil {
		return fmt.Errorf("look up the tests of assignment %s: %w", a.Name, err)
	}
	if tests == nil {
		if tests, err = s.pin(ctx, g, a); err != nil {
			return err
		}
		if err := s.pins.Put(a.Version, tests); err != nil {
			return fmt.Errorf("keep the tests of assignment %s: %w", a.Name, err)
		}
	}
	return a.Pin(tests)
}

// pin runs the solution to learn which tests there are.
func (s *Service) pin(ctx context.Context, g course.Grader, a *course.Assignment) ([]course.Test, error) {
	if len(a.Solution) == 0 {
		return nil, fault.Errorf(fault.Invalid, "assignment %s has no solution: its tests cannot be pinned", a.Name).
			WithHint("put a solution that passes all tests into the folder solution")
	}
	if p, ok := g.(Pinner); ok {
		tests, err := p.Pin(ctx, a)
		if err != nil {
			return nil, fmt.Errorf("pin the tests of assignment %s: %w", a.Name, err)
		}
		return tests, nil
	}
	r, err := g.Grade(ctx, a, course.Submission{ID: "solution", Files: a.Solution}, nil)
	if err != nil {
		return nil, fmt.Errorf("run the solution of assignment %s: %w", a.Name, err)
	}
	if len(r.Findings) == 0 {
		return nil, fault.Errorf(fault.Invalid, "the solution of assignment %s ran no tests: %s", a.Name, whatHappened(r)).
			WithHint("the solution must pass every test; see that the tests find its module")
	}
	var tests []course.Test
	for _, f := range r.Findings {
		if f.Status != course.Passed {
			return nil, fault.Errorf(fault.Invalid, "assignment %s: the solution does not pass the test %s (%s): %s", a.Name, f.Test, f.Status, firstLines(f.Detail, 6)).
				WithHint("mend the test or the solution: which tests there are is taken from a run in which all pass")
		}
		tests = append(tests, course.Test{ID: f.Test, Name: f.Test})
	}
	return tests, nil
}

func whatHappened(r course.Report) string {
	text := r.Cause.Text()
	for _, more := range []string{r.Build, r.Log} {
		if more != "" {
			text += "\n" + firstLines(more, 12)
		}
	}
	return text
}

// Grade grades one submission with a prepared assignment. Whatever the
// submission does is in the grade. So is our own failure, after maxTries: its
// Cause is OurFailure, and it never costs an attempt. An error means that nobody
// can be graded: the assignment makes no sense here, or ctx ended.
func (s *Service) Grade(ctx context.Context, a *course.Assignment, sub course.Submission, observe func(test string)) (course.Grade, error) {
	grader, err := s.grader(a)
	if err != nil {
		return course.Grade{}, err
	}
	began := time.Now().UTC()
	var r course.Report
	tries := 1
	if missing := handin.Compare(sub.Files, a.Expected).MissingText(); missing != "" {
		r = course.Report{Cause: course.MissingFile, Build: missing}
	} else {
		for ; ; tries++ {
			r, err = grader.Grade(ctx, a, sub, observe)
			if err == nil {
				r = s.confirmTime(ctx, grader, a, sub, r)
				break
			}
			if ctx.Err() != nil {
				return course.Grade{}, fmt.Errorf("grade %s: %w", sub.ID, context.Cause(ctx))
			}
			switch fault.KindOf(err) {
			case fault.Invalid, fault.NotFound, fault.Unsupported, fault.Denied:
				return course.Grade{}, fmt.Errorf("grade %s: %w", sub.ID, err)
			}
			if tries == maxTries {
				r = course.Report{Cause: course.OurFailure, Log: err.Error()}
				break
			}
		}
	}
	g := course.Decide(a, sub, r)
	g.Run.Began, g.Run.Finished, g.Run.Tries = began, time.Now().UTC(), tries
	if s.host.Fingerprint != "" {
		g.Run.Host = &s.host
	}
	return g, nil
}

// confirmTime grades once more what ran out of time: of all limits it is the only
// one that a busy host can reach in a program's stead. The run that lost less to
// time stands. Mode io has this from the judge, case by case.
func (s *Service) confirmTime(ctx context.Context, g course.Grader, a *course.Assignment, sub course.Submission, r course.Report) course.Report {
	if a.Mode == course.IO || outOfTime(r) == 0 {
		return r
	}
	again, err := g.Grade(ctx, a, sub, nil)
	if err == nil && outOfTime(again) < outOfTime(r) {
		return again
	}
	return r // With our failure in the second run the first one still stands.
}

// outOfTime counts what ended for its time, the whole run as much as all tests.
func outOfTime(r course.Report) int {
	n := 0
	for _, f := range r.Findings {
		if f.Cause == course.TimeLimit {
			n++
		}
	}
	if r.Cause == course.TimeLimit {
		n += maxPinned
	}
	return n
}

// maxPinned is above the number of tests of any assignment.
const maxPinned = 1 << 20

// Refused is the grade of a submission whose files could not be read: an archive
// that is hostile or broken. reason must name the file.
func Refused(a *course.Assignment, id string, reason error) course.Grade {
	text := reason.Error()
	if hint := fault.HintOf(reason); hint != "" {
		text += "\nWhat to do: " + hint
	}
	g := course.Decide(a, course.Submission{ID: id}, course.Report{Cause: course.RefusedFiles, Build: text})
	g.Run.Began = time.Now().UTC()
	g.Run.Finished, g.Run.Tries = g.Run.Began, 1
	return g
}

// isRefusal tells a hand-in that cannot be taken from a failure of ours.
func isRefusal(err error) bool {
	return fault.Is(err, fault.Invalid) || fault.Is(err, fault.Exhausted) || fault.Is(err, fault.Denied) ||
		fault.Is(err, fault.Unsupported)
}
