package grading

import (
	"context"
	"fmt"
	"sync"
	"time"

	"assay/internal/course"
	"assay/internal/fault"
)

// Entry is one submission of a class, not read yet.
type Entry struct {
	// ID names it; no two entries of a class share one.
	ID       string
	Received time.Time
	// Open reads it. A fault of kind Invalid, Exhausted, Denied or Unsupported is
	// the hand-in's: it is graded as refused. Any other is ours.
	Open func() (course.Submission, error)
}

// Outcome is what became of one entry.
type Outcome struct {
	Index int
	Grade course.Grade
	// Kept says that the grade was there already, from an earlier run.
	Kept bool
}

// Class is how a class is graded.
type Class struct {
	Entries []Entry
	// AtOnce is how many are graded side by side; below 1 is 1.
	AtOnce int
	// Results keeps grades; an entry that has one of the same bytes by the same
	// version is not graded again, unless it was our failure. Nil keeps nothing.
	Results Results
	// Again grades also what has a grade.
	Again bool
	// Began and Done hear of entries as they begin and end; calls come one at a
	// time. An error of Done ends the run.
	Began func(i int)
	Done  func(Outcome) error
}

// Run grades a class with a prepared assignment. Entries are begun in their
// order, and each waits for nobody but those before it. A run that was killed
// goes on where it stopped when it is started again. The first error ends it;
// what is under way then is given up.
func (s *Service) Run(ctx context.Context, a *course.Assignment, c Class) error {
	seen := make(map[string]bool, len(c.Entries))
	for _, e := range c.Entries {
		if e.ID == "" || seen[e.ID] {
			return fault.Errorf(fault.Invalid, "two submissions are called %q", e.ID).
				WithHint("give each submission a name of its own")
		}
		seen[e.ID] = true
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var (
		mu    sync.Mutex // guards next and the calls of Began and Done
		next  int
		group sync.WaitGroup
	)
	take := func() (int, bool) {
		mu.Lock()
		defer mu.Unlock()
		if next == len(c.Entries) || ctx.Err() != nil {
			return 0, false
		}
		i := next
		next++
		if c.Began != nil {
			c.Began(i)
		}
		return i, true
	}
	for range min(max(1, c.AtOnce), len(c.Entries)) {
		group.Go(func() {
			for {
				i, ok := take()
				if !ok {
					return
				}
				o, err := s.runOne(ctx, a, c, i)
				mu.Lock()
				if err == nil && c.Done != nil {
					err = c.Done(o)
				}
				mu.Unlock()
				if err != nil {
					cancel(err)
					return
				}
			}
		})
	}
	group.Wait()
	return context.Cause(ctx)
}

func (s *Service) runOne(ctx context.Context, a *course.Assignment, c Class, i int) (Outcome, error) {
	e := c.Entries[i]
	sub, err := e.Open()
	var g course.Grade
	switch {
	case err != nil && isRefusal(err):
		g, sub = Refused(a, e.ID, err), course.Submission{ID: e.ID}
	case err != nil:
		return Outcome{}, fmt.Errorf("read the submission %s: %w", e.ID, err)
	default:
		sub.ID = e.ID
		if sub.Received.IsZero() {
			sub.Received = e.Received
		}
		if c.Results != nil && !c.Again {
			kept, err := c.Results.Get(e.ID)
			if err != nil {
				return Outcome{}, fmt.Errorf("look up the grade of %s: %w", e.ID, err)
			}
			if kept != nil && kept.Version == a.Version && kept.Digest == sub.Digest() && kept.Cause != course.OurFailure {
				return Outcome{Index: i, Grade: *kept, Kept: true}, nil
			}
		}
		if g, err = s.Grade(ctx, a, sub, nil); err != nil {
			return Outcome{}, err
		}
	}
	if c.Results != nil {
		if err := c.Results.Put(g, sub); err != nil {
			return Outcome{}, fmt.Errorf("keep the grade of %s: %w", e.ID, err)
		}
	}
	return Outcome{Index: i, Grade: g}, nil
}
