package classes

import (
	"context"
	"fmt"

	"assay/internal/account"
	"assay/internal/course/class"
)

// seat is who an actor is in a course.
type seat struct {
	actor  account.Actor
	course string
	// person is whom the actor is on the roster; zero is nobody.
	person class.Person
}

// seat finds out who asks. Who may see no course must not learn which there are.
func (s *Service) seat(ctx context.Context, course string) (seat, error) {
	actor := account.ActorOf(ctx)
	at := seat{actor: actor, course: course}
	if err := account.May(actor, account.List, account.Thing{Kind: account.CourseThing}); err != nil || actor.System {
		return at, err
	}
	email, err := s.accounts.Email(ctx, actor.User)
	if err != nil {
		return at, fmt.Errorf("address of user %s: %w", actor.Name, err)
	}
	at.person, err = s.store.OnRoster(ctx, course, actor.Name, email)
	return at, err
}

// thing is something of the course.
func (at seat) thing(kind account.Kind, id string) account.Thing {
	t := account.Thing{
		Kind: kind, ID: id, Member: at.person.ID != "", Leads: at.person.Role == class.Staff,
	}
	if kind == account.GradebookThing && t.Member {
		// One line of it is the actor's.
		t.Owner = at.actor.User
	}
	return t
}

func (at seat) may(do account.Action, kind account.Kind) error {
	return account.May(at.actor, do, at.thing(kind, at.course))
}

// leads reports whether the actor sees what is kept from students.
func (at seat) leads() bool {
	return account.May(at.actor, account.ReadHidden, at.thing(account.CourseThing, at.course)) == nil
}

// enter gives who asks, if they may do this to a thing of the course. What is
// there but none of the actor's business is NotFound, as what is not there is.
func (s *Service) enter(ctx context.Context, course string, do account.Action, kind account.Kind) (seat, error) {
	at, err := s.seat(ctx, course)
	if err != nil {
		return at, err
	}
	// Whoever may not see the course hears nothing of what is in it.
	if err := at.may(account.Read, account.CourseThing); err != nil {
		return at, err
	}
	return at, account.May(at.actor, do, at.thing(kind, at.course))
}
