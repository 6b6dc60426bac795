package classes

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"assay/internal/account"
	"assay/internal/course"
	"assay/internal/course/class"
	"assay/internal/fault"
)

// Seen is an attempt as an actor sees it.
type Seen struct {
	Attempt
	// Who is the person, or the pseudonym while names are hidden.
	Who string
	// Run is the grading that counts, where one is recorded and the actor sees the
	// score; Scored says that.
	Run    class.Run
	Scored bool
	// Graded says that a grading is recorded, OurFailure that it failed on our
	// side and costs no attempt.
	Graded, OurFailure bool
	// Grade is what the actor may see of it: all of it for who runs the course,
	// else Student. Both are nil where many are listed.
	Grade   *course.Grade
	Student *course.StudentGrade
}

// reader is how one request looks at attempts of a course.
type reader struct {
	at     seat
	state  class.State
	groups map[string]string // of the actor, by assignment
	leads  bool
}

// reader reads what is needed for attempts at one assignment; "" is all.
func (s *Service) reader(ctx context.Context, at seat, assignment string) (reader, error) {
	state, err := s.book.AssignmentState(ctx, at.course, assignment)
	if err != nil {
		return reader{}, err
	}
	r := reader{at: at, state: state, groups: map[string]string{}, leads: at.leads()}
	for _, m := range state.Members {
		if m.Person == at.person.ID {
			r.groups[m.Assignment] = m.Group
		}
	}
	return r, nil
}

// owns reports whether an attempt is the actor's, or that of the actor's group.
func (r reader) owns(a Attempt) bool {
	if r.at.person.ID == "" {
		return false
	}
	return a.Person == r.at.person.ID || a.Group != "" && a.Group == r.groups[a.Assignment]
}

// thing is the attempt for account.May.
func (r reader) thing(a Attempt) account.Thing {
	t := r.at.thing(account.AttemptThing, a.ID)
	if r.owns(a) {
		t.Owner = r.at.actor.User
	}
	return t
}

// seen takes out what the actor does not see: names that are hidden, and what is
// for staff. It has no grade yet.
func (r reader) seen(a Attempt) Seen {
	out := Seen{Attempt: a, Graded: a.Grading.State == Done, OurFailure: a.Grading.Failed}
	p, _ := r.state.Person(a.Person)
	out.Who = p.Label()
	if task, err := r.state.Assignment(a.Assignment); err == nil && task.Hidden() && !r.owns(a) {
		out.Who = r.state.Course.Pseudonym(a.Assignment, a.Person)
		// What would tell who somebody is goes, too.
		out.Person, out.Group, out.User, out.Login = "", "", "", ""
		out.Idempotency, out.IdempotencyBody = "", ""
	}
	if !r.leads {
		out.Grading.Node, out.Grading.Reason = "", ""
	}
	return out
}

// attempt finds an attempt that the actor may see, with all that is behind it.
func (s *Service) attempt(ctx context.Context, courseID, id string, do account.Action) (reader, Attempt, error) {
	at, err := s.enter(ctx, courseID, account.List, account.AttemptThing)
	if err != nil {
		return reader{}, Attempt{}, err
	}
	a, err := s.store.Attempt(ctx, id)
	if err == nil && a.Course != courseID {
		err = fault.Errorf(fault.NotFound, "there is no attempt %s", id)
	}
	if err != nil {
		return reader{}, Attempt{}, err
	}
	r, err := s.reader(ctx, at, a.Assignment)
	if err != nil {
		return r, a, err
	}
	return r, a, account.May(at.actor, do, r.thing(a))
}

// Attempt gives an attempt with its grade, as far as the actor may see it.
func (s *Service) Attempt(ctx context.Context, courseID, id string) (Seen, error) {
	r, a, err := s.attempt(ctx, courseID, id, account.Read)
	if err != nil {
		return Seen{}, err
	}
	return s.graded(ctx, r, a)
}

// graded adds the grade that counts.
func (s *Service) graded(ctx context.Context, r reader, a Attempt) (Seen, error) {
	out := r.seen(a)
	run, data, err := s.store.Recorded(ctx, a.Course, a.ID)
	if fault.Is(err, fault.NotFound) {
		return out, nil
	}
	if err != nil {
		return out, err
	}
	var g course.Grade
	if err := json.Unmarshal(data, &g); err != nil {
		return out, fmt.Errorf("grade of attempt %s: %w", a.ID, err)
	}
	out.Graded, out.OurFailure = true, run.Failed
	if r.leads {
		out.Run, out.Scored, out.Grade = run, !run.Failed, &g
		return out, nil
	}
	student, err := s.student(ctx, a, g)
	if err != nil {
		return out, err
	}
	out.Student = &student
	if student.Score != nil {
		out.Run, out.Scored = run, !run.Failed
		out.Run.Suspicious, out.Run.By, out.Run.Reason = false, "", ""
	}
	return out, nil
}

// student is what a student may see of a grade now.
func (s *Service) student(ctx context.Context, a Attempt, g course.Grade) (course.StudentGrade, error) {
	release, err := s.book.Release(ctx, a.Course, a.Assignment, now())
	if err != nil {
		return course.StudentGrade{}, err
	}
	v, err := s.store.Version(ctx, a.Course, a.Assignment, a.Version)
	if err != nil {
		return course.StudentGrade{}, err
	}
	return g.ForStudent(release, v.Stdout), nil
}

// StudentGrade is what the student may see of an attempt's grade; for the page
// of it. Who runs the course sees the same page. Conflict while it is not graded.
func (s *Service) StudentGrade(ctx context.Context, courseID, id string) (course.StudentGrade, error) {
	r, a, err := s.attempt(ctx, courseID, id, account.Read)
	if err != nil {
		return course.StudentGrade{}, err
	}
	_, data, err := s.store.Recorded(ctx, a.Course, a.ID)
	if fault.Is(err, fault.NotFound) {
		return course.StudentGrade{}, fault.Errorf(fault.Conflict, "attempt %s is not graded yet: it is %s", id, a.Grading.State)
	}
	if err != nil {
		return course.StudentGrade{}, err
	}
	var g course.Grade
	if err := json.Unmarshal(data, &g); err != nil {
		return course.StudentGrade{}, fmt.Errorf("grade of attempt %s: %w", id, err)
	}
	g.Submission = r.seen(a).Who
	return s.student(ctx, a, g)
}

// Files are those that were handed in.
func (s *Service) Files(ctx context.Context, courseID, id string) ([]course.File, error) {
	_, a, err := s.attempt(ctx, courseID, id, account.Read)
	if err != nil {
		return nil, err
	}
	return s.files(ctx, a)
}

// AttemptsQuery is a page of the attempts of a course, newest first.
type AttemptsQuery struct {
	After string
	Limit int
	// Assignment and Who, if not empty, take only those; Who is for who runs the
	// course and is what class.Find takes.
	Assignment, Who string
}

// Attempts are those that the actor may see, newest first, without grades:
// students see their own and their groups'.
func (s *Service) Attempts(ctx context.Context, courseID string, q AttemptsQuery) ([]Seen, error) {
	at, err := s.enter(ctx, courseID, account.List, account.AttemptThing)
	if err != nil {
		return nil, err
	}
	r, err := s.reader(ctx, at, q.Assignment)
	if err != nil {
		return nil, err
	}
	find := AttemptQuery{After: q.After, Limit: q.Limit, Course: courseID, Assignment: q.Assignment}
	everything := account.May(at.actor, account.Read, at.thing(account.AttemptThing, "")) == nil
	switch {
	case !everything && at.person.ID == "":
		return nil, nil
	case !everything:
		find.Person, find.Groups = at.person.ID, r.groups
	case q.Who != "":
		if find, err = r.find(find, q.Who); err != nil {
			return nil, err
		}
	}
	list, err := s.store.Attempts(ctx, find)
	if err != nil {
		return nil, err
	}
	out := make([]Seen, 0, len(list))
	for _, a := range list {
		out = append(out, r.seen(a))
	}
	return out, nil
}

// find narrows a query to one person; while names are hidden only a pseudonym
// of that assignment does.
func (r reader) find(q AttemptQuery, who string) (AttemptQuery, error) {
	for _, a := range r.state.Assignments {
		if !a.Hidden() || q.Assignment != "" && q.Assignment != a.Name {
			continue
		}
		i := slices.IndexFunc(r.state.People, func(p class.Person) bool { return r.state.Course.Pseudonym(a.Name, p.ID) == who })
		if i >= 0 {
			q.Assignment, q.Person = a.Name, r.state.People[i].ID
			return q, nil
		}
	}
	p, err := class.Find(r.state.People, who)
	if err != nil {
		return q, err
	}
	if q.Assignment == "" && slices.ContainsFunc(r.state.Assignments, class.Assignment.Hidden) {
		return q, fault.Errorf(fault.Denied, "some assignments are marked without names").WithHint("name an assignment, too")
	}
	if a, err := r.state.Assignment(q.Assignment); err == nil && a.Hidden() {
		return q, fault.Errorf(fault.Denied, "%s is marked without names", a.Name).WithHint("name the pseudonym, or publish the assignment first")
	}
	q.Person, q.Groups = p.ID, map[string]string{}
	for _, m := range r.state.Members {
		if m.Person == p.ID {
			q.Groups[m.Assignment] = m.Group
		}
	}
	return q, nil
}

// mine are the actor's attempts at an assignment, and those of the actor's group.
func (s *Service) mine(ctx context.Context, at seat, assignment string) ([]Attempt, error) {
	if at.person.ID == "" {
		return nil, nil
	}
	r, err := s.reader(ctx, at, assignment)
	if err != nil {
		return nil, err
	}
	return s.store.Attempts(ctx, AttemptQuery{
		Course: at.course, Assignment: assignment, Person: at.person.ID, Groups: r.groups, Limit: maxMine,
	})
}

// maxMine bounds the attempts of one person that are looked at for what waits.
const maxMine = 500
