package class

import (
	"context"
	"crypto/rand"
	"slices"
	"time"

	"assay/internal/course"
	"assay/internal/fault"
	"assay/internal/judge"
)

// Book is the service of courses. It may be used from many goroutines; who may
// do what is for its callers to decide.
type Book struct{ store Store }

// NewBook keeps its courses in a store.
func NewBook(store Store) *Book { return &Book{store} }

// Courses are all, by ID.
func (b *Book) Courses(ctx context.Context) ([]Course, error) { return b.store.Courses(ctx) }

// NewCourse makes a course: Conflict if its ID is taken. Created and Key are
// set here.
func (b *Book) NewCourse(ctx context.Context, c Course) (Course, error) {
	c.Title = course.Clean(c.Title)
	if err := c.check(); err != nil {
		return Course{}, err
	}
	c.Created, c.Key = instant(), make([]byte, 32)
	rand.Read(c.Key) // never fails
	return c, b.store.CreateCourse(ctx, c)
}

// RemoveCourse takes away a course with all marks and their history.
func (b *Book) RemoveCourse(ctx context.Context, id string) error {
	return b.store.RemoveCourse(ctx, id)
}

// State is all of a course but its grades. It has what is hidden from staff:
// show only what Gradebook and History give.
func (b *Book) State(ctx context.Context, id string) (State, error) {
	return b.AssignmentState(ctx, id, "")
}

// AssignmentState is State with members, extensions, adjustments and attempts of
// one assignment only; "" is all.
func (b *Book) AssignmentState(ctx context.Context, id, assignment string) (s State, err error) {
	err = b.store.Read(ctx, id, func(rec Records) error {
		s, err = rec.State(ctx, assignment)
		return err
	})
	return s, err
}

// PutAssignment makes an assignment of a course, or replaces its title, points,
// rules and version. Marks follow at once; Created and Published stay.
func (b *Book) PutAssignment(ctx context.Context, courseID string, a Assignment) error {
	return b.store.Write(ctx, courseID, func(rec Records) error { return PutAssignment(ctx, rec, a) })
}

// PutAssignment is Book.PutAssignment within somebody's own Write.
func PutAssignment(ctx context.Context, rec Records, a Assignment) error {
	a.Title = course.Clean(a.Title)
	if err := a.check(); err != nil {
		return err
	}
	s, err := rec.State(ctx, a.Name)
	if err != nil {
		return err
	}
	a.Created, a.Published = instant(), time.Time{}
	if old, err := s.assignment(a.Name); err == nil {
		a.Created, a.Published = old.Created, old.Published
		a.Anonymous = a.Anonymous || old.Anonymous
	}
	return rec.PutAssignment(ctx, a)
}

// Publish shows names and marks of an assignment to staff, and its marks to
// students. Doing it twice changes nothing.
func (b *Book) Publish(ctx context.Context, courseID, assignment string) error {
	return b.write(ctx, courseID, assignment, func(rec Records, _ State, a Assignment) error {
		if a.Published.IsZero() {
			a.Published = instant()
		}
		return rec.PutAssignment(ctx, a)
	})
}

// Extend gives more time to a person, or to e.Group if that is set.
func (b *Book) Extend(ctx context.Context, courseID, who string, e Extension) (Extension, error) {
	var err error
	if e.Reason, err = fitReason(e.Reason); err != nil {
		return Extension{}, err
	}
	if e.Due.IsZero() == (e.Days == 0) || e.Days < 0 || e.Days > maxExtensionDays {
		return Extension{}, fault.Errorf(fault.Invalid, "an extension has either a new time or 1 to %d days", maxExtensionDays)
	}
	err = b.write(ctx, courseID, e.Assignment, func(rec Records, s State, a Assignment) error {
		if a.Due.IsZero() {
			return fault.Errorf(fault.Conflict, "%s has no due time that could be moved", a.Name)
		}
		if e.Group != "" {
			if _, err := s.findGroup(a.Name, e.Group); err != nil {
				return err
			}
		} else {
			p, err := Find(s.People, who)
			if err != nil {
				return err
			}
			e.Person = p.ID
		}
		e.ID, e.At = newID(), instant()
		return rec.PutExtension(ctx, e)
	})
	return e, err
}

const maxExtensionDays = 366

// Adjust changes the mark of one person by hand. who may be a pseudonym. What
// is given back names the person by the pseudonym while names are hidden.
func (b *Book) Adjust(ctx context.Context, courseID, who string, adj Adjustment) (Adjustment, error) {
	var err error
	if adj.Reason, err = fitReason(adj.Reason); err != nil {
		return Adjustment{}, err
	}
	switch {
	case adj.Set && adj.Points.Sign() < 0:
		return Adjustment{}, fault.Errorf(fault.Invalid, "a mark cannot be set to %s", adj.Points)
	case !adj.Set && adj.Points.Sign() == 0:
		return Adjustment{}, fault.Errorf(fault.Invalid, "an adjustment by no points changes nothing")
	case adj.Points.Cmp(judge.IntScore(maxPoints)) > 0 || adj.Points.Cmp(judge.IntScore(-maxPoints)) < 0:
		return Adjustment{}, fault.Errorf(fault.Invalid, "%s points are too many", adj.Points)
	}
	err = b.write(ctx, courseID, adj.Assignment, func(rec Records, s State, a Assignment) error {
		p, err := s.find(a, who)
		if err != nil {
			return err
		}
		if p.Role != Student {
			return fault.Errorf(fault.Conflict, "%s is staff and has no mark", p.Label())
		}
		adj.Person, adj.ID, adj.At = p.ID, newID(), instant()
		err = rec.PutAdjustment(ctx, adj)
		if a.Hidden() {
			adj.Person = s.Course.Pseudonym(a.Name, p.ID)
		}
		return err
	})
	return adj, err
}

const maxPoints = 1_000_000

// Revoke takes back an extension or an adjustment. It stays in the history.
func (b *Book) Revoke(ctx context.Context, courseID, id string, n Note) error {
	var err error
	if n.Reason, err = fitReason(n.Reason); err != nil {
		return err
	}
	n.At = instant()
	return b.store.Write(ctx, courseID, func(rec Records) error {
		s, err := rec.State(ctx, "")
		if err != nil {
			return err
		}
		again := fault.Errorf(fault.Conflict, "%s was revoked before", id)
		for _, e := range s.Extensions {
			if e.ID == id {
				if e.Revoked != nil {
					return again
				}
				e.Revoked = &n
				return rec.PutExtension(ctx, e)
			}
		}
		for _, a := range s.Adjustments {
			if a.ID == id {
				if a.Revoked != nil {
					return again
				}
				a.Revoked = &n
				return rec.PutAdjustment(ctx, a)
			}
		}
		return fault.Errorf(fault.NotFound, "course %s has no extension or adjustment %q", courseID, id).
			WithHint("see the IDs with \"assay course history\"")
	})
}

// write runs fn with the state of one assignment.
func (b *Book) write(ctx context.Context, courseID, assignment string, fn func(Records, State, Assignment) error) error {
	return b.store.Write(ctx, courseID, func(rec Records) error {
		return within(ctx, rec, assignment, func(s State, a Assignment) error { return fn(rec, s, a) })
	})
}

// within runs fn with the state of one assignment.
func within(ctx context.Context, rec Records, assignment string, fn func(State, Assignment) error) error {
	s, err := rec.State(ctx, assignment)
	if err != nil {
		return err
	}
	a, err := s.assignment(assignment)
	if err != nil {
		return err
	}
	return fn(s, a)
}

func (s State) assignment(name string) (Assignment, error) {
	i := slices.IndexFunc(s.Assignments, func(a Assignment) bool { return a.Name == name })
	if i < 0 {
		return Assignment{}, noAssignment(s.Course.ID, name)
	}
	return s.Assignments[i], nil
}

func noAssignment(courseID, name string) error {
	return fault.Errorf(fault.NotFound, "course %s has no assignment %q", courseID, name).
		WithHint("see \"assay course show %s\"", courseID)
}

// find gives a person by what Find takes or by the pseudonym of the assignment.
func (s State) find(a Assignment, who string) (Person, error) {
	for _, p := range s.People {
		if s.Course.Pseudonym(a.Name, p.ID) == who {
			return p, nil
		}
	}
	return Find(s.People, who)
}
