package classes

import (
	"context"
	"slices"
	"time"

	"assay/internal/account"
	"assay/internal/course/class"
	"assay/internal/fault"
)

// Course is a course as an actor sees it.
type Course struct {
	class.Course
	// Archived is when it was closed; zero is open. Nobody hands in to a closed
	// one; all that was handed in stays.
	Archived time.Time
	// Leads says that the actor runs it.
	Leads bool
}

// CourseQuery is a page of courses, by ID.
type CourseQuery struct {
	After string
	Limit int
	// Archived are seen too.
	Archived bool
}

// NewCourse makes a course: Conflict if its ID is taken, Invalid for an ID, a
// title or a zone that is none.
func (s *Service) NewCourse(ctx context.Context, c class.Course) (Course, error) {
	if err := account.May(account.ActorOf(ctx), account.Create, account.Thing{Kind: account.CourseThing}); err != nil {
		return Course{}, err
	}
	made, err := s.book.NewCourse(ctx, c)
	return Course{Course: made, Leads: true}, err
}

// Courses are those that the actor may see, by ID.
func (s *Service) Courses(ctx context.Context, q CourseQuery) ([]Course, error) {
	actor := account.ActorOf(ctx)
	if err := account.May(actor, account.List, account.Thing{Kind: account.CourseThing}); err != nil {
		return nil, err
	}
	all, err := s.store.Courses(ctx)
	if err != nil {
		return nil, err
	}
	archived, err := s.store.Archived(ctx)
	if err != nil {
		return nil, err
	}
	everything := account.May(actor, account.ReadHidden, account.Thing{Kind: account.CourseThing}) == nil
	var mine []string
	if !everything {
		email, err := s.accounts.Email(ctx, actor.User)
		if err != nil {
			return nil, err
		}
		if mine, err = s.store.OnRosters(ctx, actor.Name, email); err != nil {
			return nil, err
		}
	}
	var list []Course
	for _, c := range all {
		at := archived[c.ID]
		if c.ID <= q.After || !at.IsZero() && !q.Archived || !everything && !slices.Contains(mine, c.ID) {
			continue
		}
		if len(list) == q.Limit {
			break
		}
		leads := everything
		if !everything {
			seat, err := s.seat(ctx, c.ID)
			if err != nil {
				return nil, err
			}
			leads = seat.leads()
		}
		list = append(list, Course{Course: c, Archived: at, Leads: leads})
	}
	return list, nil
}

// Course gives one course.
func (s *Service) Course(ctx context.Context, id string) (Course, error) {
	at, err := s.enter(ctx, id, account.Read, account.CourseThing)
	if err != nil {
		return Course{}, err
	}
	return s.course(ctx, at)
}

func (s *Service) course(ctx context.Context, at seat) (Course, error) {
	all, err := s.store.Courses(ctx)
	if err != nil {
		return Course{}, err
	}
	i := slices.IndexFunc(all, func(c class.Course) bool { return c.ID == at.course })
	if i < 0 {
		return Course{}, noCourse(at.course)
	}
	archived, err := s.store.Archived(ctx)
	return Course{Course: all[i], Archived: archived[at.course], Leads: at.leads()}, err
}

func noCourse(id string) error { return fault.Errorf(fault.NotFound, "there is no course %s", id) }

// ArchiveCourse closes a course or opens it again.
func (s *Service) ArchiveCourse(ctx context.Context, id string, archive bool) (Course, error) {
	at, err := s.enter(ctx, id, account.Change, account.CourseThing)
	if err != nil {
		return Course{}, err
	}
	var when time.Time
	if archive {
		when = now()
	}
	if err := s.store.Archive(ctx, id, when); err != nil {
		return Course{}, err
	}
	return s.course(ctx, at)
}

// RemoveCourse takes a course away with all that is in it. It must have been
// closed before: Conflict otherwise.
func (s *Service) RemoveCourse(ctx context.Context, id string) error {
	at, err := s.enter(ctx, id, account.Delete, account.CourseThing)
	if err != nil {
		return err
	}
	c, err := s.course(ctx, at)
	if err != nil {
		return err
	}
	if c.Archived.IsZero() {
		return fault.Errorf(fault.Conflict, "course %s is open", id).WithHint("archive it first; removing takes all attempts and marks away")
	}
	return s.book.RemoveCourse(ctx, id)
}
