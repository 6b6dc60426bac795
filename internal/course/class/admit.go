package class

import (
	"slices"
	"strings"
	"time"

	"assay/internal/course"
	"assay/internal/fault"
)

// Admission is what the rules of an assignment make of something that is handed
// in.
type Admission struct {
	Assignment Assignment
	// Group is that of the person; "" is none.
	Group string
	// Due is when it is due for the person; zero is never.
	Due  time.Time
	Late course.Lateness
	// Refused is why the rule of attempts does not accept it. Late.Refused says
	// that it is too late.
	Refused course.Refusal
	// Used are the attempts that count so far, of the person or the group.
	Used int
}

// Text says in words for students why nothing is taken; "" if it is.
func (a Admission) Text() string {
	switch {
	case a.Late.Refused && a.Due.IsZero():
		return "it is closed"
	case a.Late.Refused:
		return "it is too late: due " + a.Due.Format("2006-01-02 15:04 MST") + ", " + a.Assignment.Late.String()
	}
	return a.Assignment.Attempts.Text(a.Refused)
}

// Admit says whether a person may hand in at an instant. waiting are attempts of
// the assignment that have been taken and are not recorded yet; they count. Only
// instants of handing in are looked at, so asking again later gives the same.
func (s State) Admit(assignment, person string, received time.Time, waiting []Attempt) (Admission, error) {
	a, err := s.assignment(assignment)
	if err != nil {
		return Admission{}, err
	}
	zone, err := s.Course.location()
	if err != nil {
		return Admission{}, err
	}
	i := slices.IndexFunc(s.People, func(p Person) bool { return p.ID == person && p.Removed.IsZero() })
	switch {
	case i < 0:
		return Admission{}, fault.Errorf(fault.NotFound, "nobody on the roster is %q", person)
	case s.People[i].Role != Student:
		return Admission{}, fault.Errorf(fault.Conflict, "%s is staff and does not hand in", s.People[i].Label())
	}
	in := s.groups(a.Name)
	sched := s.schedule(a, person, in[person], zone)
	out := Admission{Assignment: a, Group: in[person], Due: sched.Due.In(zone), Late: sched.Lateness(received)}
	mine := unitOf(person, in[person])
	attempts := s.attempts(a.Name)
	for _, at := range waiting {
		if !slices.ContainsFunc(attempts, func(o Attempt) bool { return o.ID == at.ID }) {
			attempts = append(attempts, at)
		}
	}
	list := byUnit(in, attempts)[mine]
	slices.SortStableFunc(list, func(x, y Attempt) int {
		if c := x.Received.Compare(y.Received); c != 0 {
			return c
		}
		return strings.Compare(x.ID, y.ID)
	})
	// What is handed in now comes after what was: two at one instant are apart.
	list = append(list, Attempt{Person: person, Received: received})
	refused := refusals(a, list, zone)
	out.Refused = refused[len(refused)-1]
	for i, r := range refused[:len(refused)-1] {
		if r == course.Accepted && !list[i].Run.Failed {
			out.Used++
		}
	}
	return out, nil
}

// Person gives somebody by ID, also one who has left the roster.
func (s State) Person(id string) (Person, bool) {
	i := slices.IndexFunc(s.People, func(p Person) bool { return p.ID == id })
	if i < 0 {
		return Person{}, false
	}
	return s.People[i], true
}

// Assignment gives an assignment of the course, or NotFound.
func (s State) Assignment(name string) (Assignment, error) { return s.assignment(name) }
