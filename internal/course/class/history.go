package class

import (
	"context"
	"fmt"
	"slices"
	"time"

	"assay/internal/course"
	"assay/internal/fault"
)

// Event is one thing that happened to a person's marks.
type Event struct {
	At         time.Time `json:"at"`
	Kind       string    `json:"kind"` // attempt, grade, extension, adjustment, revoked, published
	Assignment string    `json:"assignment"`
	// ID is what Revoke takes for an extension or an adjustment, and names an
	// attempt or a run otherwise.
	ID string `json:"id,omitempty"`
	// Text says it for people.
	Text   string `json:"text"`
	By     string `json:"by,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// History tells all that made a person's marks what they are, oldest first. who
// may be a pseudonym of the assignment. assignment "" is all of them; those
// whose names are hidden are left out, and asking for one of them by name is
// Denied.
func (b *Book) History(ctx context.Context, courseID, assignment, who string) (Person, []Event, error) {
	var person Person
	events := []Event{}
	err := b.store.Read(ctx, courseID, func(rec Records) error {
		s, err := rec.State(ctx, assignment)
		if err != nil {
			return err
		}
		list := s.Assignments
		if assignment != "" {
			a, err := s.assignment(assignment)
			if err != nil {
				return err
			}
			if person, err = s.find(a, who); err != nil {
				return err
			}
			if a.Hidden() {
				p := s.Course.Pseudonym(a.Name, person.ID)
				if who != p {
					return fault.Errorf(fault.Denied, "%s is marked without names", a.Name).
						WithHint("name the pseudonym, or publish the assignment first")
				}
				person = Person{ID: p, Name: p, Role: person.Role}
			}
			list = []Assignment{a}
		} else if person, err = Find(s.People, who); err != nil {
			return err
		}
		for _, a := range list {
			if a.Hidden() && assignment == "" {
				continue
			}
			found, err := s.history(ctx, rec, a, who)
			if err != nil {
				return err
			}
			events = append(events, found...)
		}
		slices.SortStableFunc(events, func(x, y Event) int { return x.At.Compare(y.At) })
		return nil
	})
	return person, events, err
}

func (s State) history(ctx context.Context, rec Records, a Assignment, who string) ([]Event, error) {
	p, err := s.find(a, who)
	if err != nil {
		return nil, err
	}
	zone, err := s.Course.location()
	if err != nil {
		return nil, err
	}
	in := s.groups(a.Name)
	group := in[p.ID]
	var events []Event
	add := func(kind, id, text string, n Note) {
		events = append(events, Event{n.At, kind, a.Name, id, text, n.By, n.Reason})
	}
	revoked := func(id, text string, n *Note) {
		if n != nil {
			add("revoked", id, text, *n)
		}
	}
	attempts := byUnit(in, s.attempts(a.Name))[unitOf(p.ID, group)]
	refused := refusals(a, attempts, zone)
	sched := s.schedule(a, p.ID, group, zone)
	mine := map[string]bool{}
	for i, at := range attempts {
		mine[at.ID] = true
		text := "handed in"
		if at.Person != p.ID {
			text = "handed in by the group"
		}
		late := sched.Lateness(at.Received)
		if late.Days > 0 {
			text += ", " + course.Days(late.Days) + " late"
		}
		switch {
		case refused[i] != course.Accepted:
			text += ", refused: " + a.Attempts.Text(refused[i])
		case late.Refused:
			text += ", refused: too late"
		}
		add("attempt", at.ID, text, Note{At: at.Received})
	}
	runs, err := rec.Runs(ctx, a.Name)
	if err != nil {
		return nil, err
	}
	for _, r := range runs {
		if !mine[r.Attempt] {
			continue
		}
		text := fmt.Sprintf("graded %s of %s by version %s", r.Score, r.Points, short(r.Version))
		if r.Failed {
			text = "could not be graded: our failure"
		}
		if r.Suspicious {
			text += ", suspicious"
		}
		add("grade", r.Attempt, text, r.Note)
	}
	for _, e := range s.Extensions {
		if e.Assignment != a.Name || (e.Person != p.ID && (e.Group == "" || e.Group != group)) {
			continue
		}
		text := "due " + e.Due.String()
		if e.Due.IsZero() {
			text = "due " + course.Days(e.Days) + " later"
		}
		if e.Group != "" {
			text += " for the group " + e.Group
		}
		add("extension", e.ID, text, e.Note)
		revoked(e.ID, "extension: "+text, e.Revoked)
	}
	for _, adj := range s.Adjustments {
		if adj.Assignment != a.Name || adj.Person != p.ID {
			continue
		}
		text := adj.Change() + " points"
		add("adjustment", adj.ID, text, adj.Note)
		revoked(adj.ID, "adjustment: "+text, adj.Revoked)
	}
	if !a.Published.IsZero() {
		add("published", "", a.title(), Note{At: a.Published})
	}
	return events, nil
}

// Change writes an adjustment as +2, -2 or =2.
func (a Adjustment) Change() string {
	switch {
	case a.Set:
		return "=" + a.Points.String()
	case a.Points.Sign() > 0:
		return "+" + a.Points.String()
	}
	return a.Points.String()
}
