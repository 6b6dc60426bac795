package classes

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"assay/internal/account"
	"assay/internal/course/class"
	"assay/internal/fault"
)

// Roster is the people of a course, also those who have left it; for who runs
// the course.
func (s *Service) Roster(ctx context.Context, course string) ([]class.Person, error) {
	if _, err := s.enter(ctx, course, account.ReadHidden, account.CourseThing); err != nil {
		return nil, err
	}
	state, err := s.book.State(ctx, course)
	class.SortPeople(state.People)
	return state.People, err
}

// PlanRoster says what importing a roster's CSV would change, and the digest of
// that which ImportRoster wants to see. name is for messages.
func (s *Service) PlanRoster(ctx context.Context, course, name string, data []byte) (class.RosterPlan, string, error) {
	if _, err := s.enter(ctx, course, account.Change, account.CourseThing); err != nil {
		return class.RosterPlan{}, "", err
	}
	roster, err := class.ReadRoster(name, data)
	if err != nil {
		return class.RosterPlan{}, "", err
	}
	plan, err := s.book.PlanRoster(ctx, course, roster)
	if err != nil {
		return class.RosterPlan{}, "", err
	}
	digest, err := digestOf(plan)
	return plan, digest, err
}

// ImportRoster does what PlanRoster has shown: Conflict if that would be
// something else by now. All of it is done or nothing.
func (s *Service) ImportRoster(ctx context.Context, course, name string, data []byte, digest string) (class.RosterPlan, error) {
	plan, is, err := s.PlanRoster(ctx, course, name, data)
	if err != nil {
		return plan, err
	}
	if is != digest {
		return plan, fault.Errorf(fault.Conflict, "the roster of %s, or the file, has changed since the preview", course).WithHint("look at the preview again")
	}
	roster, err := class.ReadRoster(name, data)
	if err != nil {
		return plan, err
	}
	return plan, s.book.ImportRoster(ctx, course, roster, plan)
}

// digestOf names what was shown, so that nothing else is done.
func digestOf(plan any) (string, error) {
	data, err := json.Marshal(plan)
	if err != nil {
		return "", fmt.Errorf("write plan: %w", err)
	}
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:]), nil
}

// Groups are the groups of an assignment, by name.
func (s *Service) Groups(ctx context.Context, course, assignment string) ([]class.Group, error) {
	if _, err := s.enter(ctx, course, account.ReadHidden, account.AssignmentThing); err != nil {
		return nil, err
	}
	return s.book.Groups(ctx, course, assignment)
}

// SetGroups puts people into groups of an assignment: all or none.
func (s *Service) SetGroups(ctx context.Context, course, assignment string, lines []class.GroupLine) ([]class.Group, error) {
	if _, err := s.enter(ctx, course, account.Change, account.AssignmentThing); err != nil {
		return nil, err
	}
	if err := s.book.SetGroups(ctx, course, assignment, lines); err != nil {
		return nil, err
	}
	return s.book.Groups(ctx, course, assignment)
}

// LeaveGroup takes people out of the groups of an assignment.
func (s *Service) LeaveGroup(ctx context.Context, course, assignment string, who []string) ([]class.Group, error) {
	if _, err := s.enter(ctx, course, account.Change, account.AssignmentThing); err != nil {
		return nil, err
	}
	if err := s.book.LeaveGroup(ctx, course, assignment, who); err != nil {
		return nil, err
	}
	return s.book.Groups(ctx, course, assignment)
}

// Extend gives more time to a person, or to e.Group if that is set. Who did it
// is the actor.
func (s *Service) Extend(ctx context.Context, course, who string, e class.Extension) (class.Extension, error) {
	at, err := s.enter(ctx, course, account.Change, account.AssignmentThing)
	if err != nil {
		return class.Extension{}, err
	}
	e.By = at.actor.Name
	return s.book.Extend(ctx, course, who, e)
}

// Adjust changes a mark by hand. Who did it is the actor.
func (s *Service) Adjust(ctx context.Context, course, who string, a class.Adjustment) (class.Adjustment, error) {
	at, err := s.enter(ctx, course, account.Change, account.GradebookThing)
	if err != nil {
		return class.Adjustment{}, err
	}
	a.By = at.actor.Name
	return s.book.Adjust(ctx, course, who, a)
}

// Revoke takes an extension or an adjustment back. It stays in the history.
func (s *Service) Revoke(ctx context.Context, course, id, reason string) error {
	at, err := s.enter(ctx, course, account.Change, account.GradebookThing)
	if err != nil {
		return err
	}
	return s.book.Revoke(ctx, course, id, class.Note{By: at.actor.Name, Reason: reason})
}

// Publish shows the marks of an assignment to students, and names to staff.
func (s *Service) Publish(ctx context.Context, course, assignment string) (Task, error) {
	at, err := s.enter(ctx, course, account.Change, account.GradebookThing)
	if err != nil {
		return Task{}, err
	}
	if err := s.book.Publish(ctx, course, assignment); err != nil {
		return Task{}, err
	}
	return s.task(ctx, at, assignment)
}

// History tells all that made a person's marks what they are, oldest first; for
// who runs the course.
func (s *Service) History(ctx context.Context, course, assignment, who string) (class.Person, []class.Event, error) {
	if _, err := s.enter(ctx, course, account.ReadHidden, account.GradebookThing); err != nil {
		return class.Person{}, nil, err
	}
	return s.book.History(ctx, course, assignment, who)
}
