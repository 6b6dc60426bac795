package class

import (
	"context"
	"crypto/rand"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"assay/internal/fault"
)

// RosterPlan is what importing a roster would change.
type RosterPlan struct {
	Format  string         `json:"format"`
	Added   []Person       `json:"added"`
	Changed []PersonChange `json:"changed"`
	// Removed leave the roster; their work stays and comes back with them.
	Removed   []Person `json:"removed"`
	Unchanged int      `json:"unchanged"`
	Notes     []string `json:"notes"`
}

// PersonChange is one person before and after an import.
type PersonChange struct {
	Before Person `json:"before"`
	After  Person `json:"after"`
	// Back says that the person had left the roster before.
	Back bool `json:"back,omitempty"`
}

// Empty says that the import changes nothing.
func (p RosterPlan) Empty() bool { return len(p.Added)+len(p.Changed)+len(p.Removed) == 0 }

// Fields name what changes, for people: "name: A → B".
func (c PersonChange) Fields() []string {
	var out []string
	if c.Back {
		out = append(out, "comes back")
	}
	for _, f := range []struct{ name, before, after string }{
		{"student id", c.Before.StudentID, c.After.StudentID},
		{"email", c.Before.Email, c.After.Email},
		{"login", c.Before.Login, c.After.Login},
		{"canvas id", c.Before.CanvasID, c.After.CanvasID},
		{"name", c.Before.Name, c.After.Name},
		{"section", c.Before.Section, c.After.Section},
		{"role", string(c.Before.Role), string(c.After.Role)},
	} {
		if f.before != f.after {
			out = append(out, fmt.Sprintf("%s: %s → %s", f.name, orNone(f.before), orNone(f.after)))
		}
	}
	return out
}

func orNone(text string) string {
	if text == "" {
		return "(none)"
	}
	return text
}

// planRoster compares a roster with the people of a course. Somebody is known
// again by the student ID, else by address, login or Canvas ID. What the file
// has no column for stays as it is. Who is not in the file leaves the roster,
// but staff do so only if the file says roles.
func planRoster(people []Person, r Roster) (RosterPlan, error) {
	plan := RosterPlan{Format: r.Format, Added: []Person{}, Changed: []PersonChange{}, Removed: []Person{}, Notes: append([]string{}, r.Notes...)}
	known := map[string]int{}
	for i, p := range people {
		for _, key := range identities(p) {
			if j, taken := known[key]; !taken || !people[j].Removed.IsZero() {
				known[key] = i
			}
		}
	}
	bad := troubles{name: "the roster"}
	lineOf := map[int]int{}
	var result []Person
	for _, l := range r.Lines {
		i, found := -1, false
		for _, key := range identities(l.Person) {
			if i, found = known[key]; found {
				break
			}
		}
		if !found {
			p := l.Person
			if p.Role == "" {
				p.Role = Student
			}
			plan.Added = append(plan.Added, p)
			result = append(result, p)
			continue
		}
		if first, twice := lineOf[i]; twice {
			bad.add(fmt.Sprintf("line %d: %s is on line %d already", l.Line, people[i].Label(), first))
			continue
		}
		lineOf[i] = l.Line
		before, after := people[i], updated(people[i], l.Person, r.has)
		result = append(result, after)
		if before == after {
			plan.Unchanged++
		} else {
			plan.Changed = append(plan.Changed, PersonChange{before, after, !before.Removed.IsZero()})
		}
	}
	for i, p := range people {
		if _, listed := lineOf[i]; listed || !p.Removed.IsZero() {
			continue
		}
		if p.Role == Staff && !r.has["role"] {
			result = append(result, p)
			plan.Unchanged++
			continue
		}
		plan.Removed = append(plan.Removed, p)
	}
	unique(result, &bad)
	if err := bad.fault(); err != nil {
		return RosterPlan{}, err
	}
	SortPeople(plan.Added)
	SortPeople(plan.Removed)
	slices.SortFunc(plan.Changed, func(a, b PersonChange) int { return strings.Compare(a.After.Label(), b.After.Label()) })
	return plan, nil
}

// updated is what a person becomes by a line. An empty cell takes nothing away
// that tells people apart.
func updated(p, line Person, has map[string]bool) Person {
	for _, f := range []struct{ to, from *string }{
		{&p.StudentID, &line.StudentID}, {&p.Email, &line.Email}, {&p.Login, &line.Login}, {&p.CanvasID, &line.CanvasID}, {&p.Name, &line.Name},
	} {
		if *f.from != "" {
			*f.to = *f.from
		}
	}
	if has["section"] {
		p.Section = line.Section
	}
	if line.Role != "" {
		p.Role = line.Role
	}
	p.Removed = time.Time{}
	return p
}

// unique finds people of the new roster whom nothing would tell apart.
func unique(people []Person, bad *troubles) {
	seen := map[string]Person{}
	for _, p := range people {
		for _, key := range identities(p) {
			if other, twice := seen[key]; twice {
				what, value, _ := strings.Cut(key, " ")
				bad.add(fmt.Sprintf("%s and %s would share the %s %q", other.Label(), p.Label(), strings.ReplaceAll(what, "_", " "), value))
			}
			seen[key] = p
		}
	}
}

// PlanRoster says what ImportRoster would do.
func (b *Book) PlanRoster(ctx context.Context, courseID string, r Roster) (RosterPlan, error) {
	var plan RosterPlan
	err := b.store.Read(ctx, courseID, func(rec Records) error {
		s, err := rec.State(ctx, "")
		if err == nil {
			plan, err = planRoster(s.People, r)
		}
		return err
	})
	return plan, err
}

// ImportRoster makes the roster of a course what the file says, as planned: all
// of it or nothing. If the course has changed since the plan was made, nothing
// is done: Conflict.
func (b *Book) ImportRoster(ctx context.Context, courseID string, r Roster, plan RosterPlan) error {
	return b.store.Write(ctx, courseID, func(rec Records) error {
		s, err := rec.State(ctx, "")
		if err != nil {
			return err
		}
		now, err := planRoster(s.People, r)
		if err != nil {
			return err
		}
		if !reflect.DeepEqual(now, plan) {
			return fault.Errorf(fault.Conflict, "the roster of %s was changed meanwhile", courseID).WithHint("look at the preview again")
		}
		for _, p := range plan.Added {
			p.ID = newID()
			if err := rec.PutPerson(ctx, p); err != nil {
				return err
			}
		}
		for _, c := range plan.Changed {
			if err := rec.PutPerson(ctx, c.After); err != nil {
				return err
			}
		}
		for _, p := range plan.Removed {
			p.Removed = instant()
			if err := rec.PutPerson(ctx, p); err != nil {
				return err
			}
		}
		return nil
	})
}

// newID is not to be guessed and easy to type.
func newID() string { return strings.ToLower(rand.Text()[:12]) }

// instant is now, as exact as stores keep it.
func instant() time.Time { return time.Now().UTC().Truncate(time.Microsecond) }
