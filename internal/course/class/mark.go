package class

import (
	"cmp"
	"time"

	"assay/internal/course"
	"assay/internal/judge"
)

// Mark is what one person has for one assignment, and how that comes about:
// Score is Earned - Penalty, changed by adjustments, and never below zero.
type Mark struct {
	Group string `json:"group,omitempty"`
	// Attempt is the ID of the attempt that counts; "" is none.
	Attempt  string    `json:"attempt,omitempty"`
	Version  string    `json:"version,omitempty"`
	Received time.Time `json:"received,omitzero"`
	// Due is when it was due for this person; zero is never.
	Due     time.Time       `json:"due,omitzero"`
	Late    course.Lateness `json:"late"`
	Earned  judge.Score     `json:"earned"`
	Penalty judge.Score     `json:"penalty"`
	// Adjustment is what adjustments have changed.
	Adjustment judge.Score `json:"adjustment"`
	Score      judge.Score `json:"score"`
	// None says that there is neither an attempt that counts nor an adjustment.
	None bool `json:"none,omitempty"`
	// Attempts were accepted, Refused were too late, too many or too soon, Failed
	// are those that we could not grade.
	Attempts int `json:"attempts"`
	Refused  int `json:"refused,omitempty"`
	Failed   int `json:"failed,omitempty"`
	// Suspicious says that a person should look at the attempt that counts.
	Suspicious bool `json:"suspicious,omitempty"`
	// Outdated says that the attempt was graded by another version.
	Outdated bool `json:"outdated,omitempty"`
	// Hidden says that nothing is told before the assignment is published.
	Hidden bool `json:"hidden,omitempty"`
}

// Marks gives the marks of all students in an assignment, by person. They follow
// from what was recorded and nothing else:
//
// An attempt counts for all who are in the group that handed it in, or in the
// group of the person who did. The rule of attempts holds for the group as for
// one person. Late is each person by his or her own due time. What is refused
// or could not be graded does not count; of the rest the one that the rule of
// attempts names counts, and for the best one after the penalty.
func (s State) Marks(a Assignment) (map[string]Mark, error) {
	zone, err := s.Course.location()
	if err != nil {
		return nil, err
	}
	in := s.groups(a.Name)
	units := byUnit(in, s.attempts(a.Name))
	refused := map[string][]course.Refusal{}
	for u, list := range units {
		refused[u] = refusals(a, list, zone)
	}
	adjusted := map[string][]Adjustment{}
	for _, adj := range s.Adjustments {
		if adj.Assignment == a.Name && adj.Revoked == nil {
			adjusted[adj.Person] = append(adjusted[adj.Person], adj)
		}
	}
	marks := map[string]Mark{}
	for _, p := range students(s.People) {
		u := unitOf(p.ID, in[p.ID])
		sched := s.schedule(a, p.ID, in[p.ID], zone)
		m := Mark{Group: in[p.ID], Due: sched.Due.In(zone), None: true}
		m.choose(a, sched, units[u], refused[u])
		m.adjust(adjusted[p.ID])
		marks[p.ID] = m
	}
	return marks, nil
}

// unitOf names those who hand in together, or one person alone.
func unitOf(person, group string) string {
	if group != "" {
		return "group " + group
	}
	return "person " + person
}

// attempts are those of one assignment.
func (s State) attempts(assignment string) []Attempt {
	var list []Attempt
	for _, at := range s.Attempts {
		if at.Assignment == assignment {
			list = append(list, at)
		}
	}
	return list
}

// byUnit sorts attempts of one assignment by those for whom they count.
func byUnit(in map[string]string, attempts []Attempt) map[string][]Attempt {
	units := map[string][]Attempt{}
	for _, at := range attempts {
		u := unitOf(at.Person, cmp.Or(at.Group, in[at.Person]))
		units[u] = append(units[u], at)
	}
	return units
}

// refusals are what the rule of attempts says of the attempts of one unit.
func refusals(a Assignment, list []Attempt, zone *time.Location) []course.Refusal {
	tries := make([]course.Try, len(list))
	for i, at := range list {
		tries[i] = course.Try{Received: at.Received, Unused: at.Run.Failed}
	}
	return a.Attempts.Check(tries, zone)
}

// schedule is when an assignment is due for a person: of the extensions of the
// person and of the group the last one given that holds, whichever is later.
func (s State) schedule(a Assignment, person, group string, zone *time.Location) course.Schedule {
	base := course.Schedule{Due: a.Due, Rule: a.Late, Zone: zone}
	var own, shared course.Schedule
	for _, e := range s.Extensions {
		if e.Assignment != a.Name || e.Revoked != nil {
			continue
		}
		due := e.Due
		if due.IsZero() {
			due = a.Due.AddDays(e.Days)
		}
		switch {
		case e.Person == person:
			own = base.Extend(due)
		case e.Group != "" && e.Group == group:
			shared = base.Extend(due)
		}
	}
	best := base
	for _, sched := range []course.Schedule{own, shared} {
		if sched.Zone != nil && sched.Due.In(zone).After(best.Due.In(zone)) {
			best = sched
		}
	}
	return best
}

// choose fills in the attempt that counts.
func (m *Mark) choose(a Assignment, sched course.Schedule, attempts []Attempt, refused []course.Refusal) {
	var counting []Mark
	var scores []judge.Score
	for i, at := range attempts {
		late := sched.Lateness(at.Received)
		switch {
		case refused[i] != course.Accepted || late.Refused:
			m.Refused++
			continue
		case at.Run.Failed:
			m.Failed++
			continue
		}
		m.Attempts++
		c := Mark{
			Attempt: at.ID, Version: at.Run.Version, Received: at.Received, Late: late, Earned: at.Run.Score,
			Penalty: sched.Rule.Penalty(late, at.Run.Score, at.Run.Points), Suspicious: at.Run.Suspicious,
			Outdated: at.Run.Version != a.Version,
		}
		counting = append(counting, c)
		scores = append(scores, c.Earned.Sub(c.Penalty))
	}
	i := a.Attempts.Counts.Choose(scores)
	if i < 0 {
		return
	}
	c := counting[i]
	c.Group, c.Due, c.Attempts, c.Refused, c.Failed = m.Group, m.Due, m.Attempts, m.Refused, m.Failed
	c.Score = scores[i]
	*m = c
}

// adjust applies adjustments in the order in which they were made.
func (m *Mark) adjust(list []Adjustment) {
	before := m.Score
	for _, adj := range list {
		m.None = false
		if adj.Set {
			m.Score = adj.Points
		} else {
			m.Score = m.Score.Add(adj.Points)
		}
	}
	if m.Score.Sign() < 0 {
		m.Score = judge.Score{}
	}
	m.Adjustment = m.Score.Sub(before)
}
