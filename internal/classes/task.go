package classes

import (
	"context"
	"slices"
	"time"

	"assay/internal/account"
	"assay/internal/course"
	"assay/internal/course/class"
	"assay/internal/fault"
)

// Task is an assignment of a course as an actor sees it.
type Task struct {
	Course, Name string
	// Open says that people may hand in.
	Open bool
	// Current is the version that attempts are graded by; its Number is 0 while
	// none was opened. Students see what About has of it and no more.
	Current Version
	// Newest is the number of the newest version; for who runs the course.
	Newest  int
	Created time.Time
	// Class is what the course knows of it; zero before it was opened.
	Class class.Assignment
	// Due is when it is due for the actor, or for everybody; zero is never.
	Due time.Time
	// Used and Left are the actor's attempts; Left is -1 for any number. Why says
	// in words why nothing would be taken now.
	Used, Left int
	Why        string
}

// Tasks are the assignments of a course that the actor may see, by name. Those
// that were never opened are for who runs the course.
func (s *Service) Tasks(ctx context.Context, courseID string) ([]Task, error) {
	at, err := s.enter(ctx, courseID, account.Read, account.AssignmentThing)
	if err != nil {
		return nil, err
	}
	return s.tasks(ctx, at)
}

func (s *Service) tasks(ctx context.Context, at seat) ([]Task, error) {
	all, err := s.store.Tasks(ctx, at.course)
	if err != nil {
		return nil, err
	}
	state, err := s.book.State(ctx, at.course)
	if err != nil {
		return nil, err
	}
	leads := at.leads()
	var list []Task
	for _, t := range all {
		if t.Current.Number == 0 && !leads {
			continue
		}
		if t.Class, err = state.Assignment(t.Name); err != nil && !fault.Is(err, fault.NotFound) {
			return nil, err
		}
		if !leads {
			v := t.Current
			t.Current = Version{Course: v.Course, Assignment: v.Assignment, Number: v.Number, Digest: v.Digest, About: v.About, Opened: v.Opened}
			// How many tests there are would tell of hidden ones.
			t.Current.Tests, t.Newest = 0, 0
		}
		list = append(list, t)
	}
	for i := range list {
		if err := s.schedule(ctx, at, state, &list[i]); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// schedule fills in what holds for the actor.
func (s *Service) schedule(ctx context.Context, at seat, state class.State, t *Task) error {
	t.Left = -1
	if t.Class.Name == "" {
		return nil
	}
	if at.person.Role != class.Student {
		zone, err := time.LoadLocation(state.Course.Zone)
		if err != nil {
			return fault.Errorf(fault.Internal, "course %s: %w", at.course, err)
		}
		t.Due = t.Class.Due.In(zone)
		return nil
	}
	waiting, err := s.waiting(ctx, at, t.Name)
	if err != nil {
		return err
	}
	in, err := state.Admit(t.Name, at.person.ID, now(), waiting)
	if err != nil {
		return err
	}
	t.Due, t.Used, t.Why = in.Due, in.Used, in.Text()
	if !t.Open {
		t.Why = "it is not open"
	}
	if most := t.Class.Attempts.Max; most > 0 {
		t.Left = max(0, most-in.Used)
	}
	return nil
}

// waiting are the actor's attempts that are not recorded yet.
func (s *Service) waiting(ctx context.Context, at seat, assignment string) ([]class.Attempt, error) {
	list, err := s.mine(ctx, at, assignment)
	if err != nil {
		return nil, err
	}
	var waiting []class.Attempt
	for _, a := range list {
		if a.Grading.State == Queued || a.Grading.State == Running {
			waiting = append(waiting, a.waiting())
		}
	}
	return waiting, nil
}

// Task gives one assignment.
func (s *Service) Task(ctx context.Context, courseID, name string) (Task, error) {
	at, err := s.enter(ctx, courseID, account.Read, account.AssignmentThing)
	if err != nil {
		return Task{}, err
	}
	return s.task(ctx, at, name)
}

func (s *Service) task(ctx context.Context, at seat, name string) (Task, error) {
	list, err := s.tasks(ctx, at)
	if err != nil {
		return Task{}, err
	}
	i := slices.IndexFunc(list, func(t Task) bool { return t.Name == name })
	if i < 0 {
		return Task{}, noAssignment(at.course, name)
	}
	return list[i], nil
}

func noAssignment(courseID, name string) error {
	return fault.Errorf(fault.NotFound, "course %s has no assignment %s", courseID, name)
}

// Starter are the files that the teacher hands out with an assignment, in the
// current version.
func (s *Service) Starter(ctx context.Context, courseID, name string) ([]course.File, error) {
	t, err := s.Task(ctx, courseID, name)
	if err != nil {
		return nil, err
	}
	if t.Current.Number == 0 {
		return nil, fault.Errorf(fault.Conflict, "%s was not opened yet", name)
	}
	v, err := s.store.Version(ctx, courseID, name, t.Current.Number)
	if err != nil {
		return nil, err
	}
	a, err := s.folders.load(ctx, name, v.Package)
	if err != nil {
		return nil, err
	}
	return a.Starter, nil
}
