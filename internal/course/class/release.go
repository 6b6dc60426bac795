package class

import (
	"context"
	"time"

	"assay/internal/course"
)

// Release says what students may see of an assignment at an instant. It is after
// due once nobody can hand in any more, extensions and late days included; where
// late work is accepted for ever that is never, and publishing opens it.
func (b *Book) Release(ctx context.Context, courseID, assignment string, now time.Time) (course.Release, error) {
	s, err := b.AssignmentState(ctx, courseID, assignment)
	if err != nil {
		return course.Release{}, err
	}
	a, err := s.assignment(assignment)
	if err != nil {
		return course.Release{}, err
	}
	zone, err := s.Course.location()
	if err != nil {
		return course.Release{}, err
	}
	r := course.Release{Published: !a.Published.IsZero() && !now.Before(a.Published)}
	in := s.groups(a.Name)
	over := func(sched course.Schedule) bool {
		end := sched.LastDue()
		return !end.IsZero() && now.After(end)
	}
	r.AfterDue = over(s.schedule(a, "", "", zone))
	for _, p := range students(s.People) {
		r.AfterDue = r.AfterDue && over(s.schedule(a, p.ID, in[p.ID], zone))
	}
	return r, nil
}
