package classes

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"assay/internal/account"
	"assay/internal/course"
	"assay/internal/course/class"
	"assay/internal/course/gradepage"
	"assay/internal/course/similarity"
	"assay/internal/fault"
	"assay/internal/judge"
)

// Gradebook gives the marks of a course: all of them to who runs it, and to a
// student the own line, with the marks that the student may know by now.
func (s *Service) Gradebook(ctx context.Context, courseID string) (class.Gradebook, error) {
	at, err := s.enter(ctx, courseID, account.Read, account.GradebookThing)
	if err != nil {
		return class.Gradebook{}, err
	}
	book, err := s.book.Gradebook(ctx, courseID)
	if err != nil || at.leads() {
		return book, err
	}
	return s.ownLine(ctx, at, book)
}

// ownLine leaves one student's line of a gradebook, without what tells more than
// the reports of the attempts do.
func (s *Service) ownLine(ctx context.Context, at seat, book class.Gradebook) (class.Gradebook, error) {
	book.Rows = slices.DeleteFunc(book.Rows, func(r class.Row) bool { return r.Person.ID != at.person.ID })
	if len(book.Rows) == 0 {
		book.Rows = []class.Row{}
		return book, nil
	}
	row := &book.Rows[0]
	row.Total = judge.Score{}
	book.Points = judge.Score{}
	for i, m := range row.Marks {
		task := book.Assignments[i]
		if m.Hidden {
			continue
		}
		if task.Published.IsZero() {
			known, err := s.knowsScore(ctx, at, m)
			if err != nil {
				return book, err
			}
			if !known {
				row.Marks[i] = class.Mark{
					Group: m.Group, Attempt: m.Attempt, Received: m.Received, Due: m.Due, Late: m.Late, None: true, Hidden: true,
					Attempts: m.Attempts, Refused: m.Refused, Failed: m.Failed,
				}
				continue
			}
			// Adjustments are told when the marks are published.
			m.Score, m.Adjustment = m.Score.Sub(m.Adjustment), judge.Score{}
		}
		m.Suspicious = false
		row.Marks[i] = m
		row.Total = row.Total.Add(m.Score)
		book.Points = book.Points.Add(task.Points)
	}
	return book, nil
}

// knowsScore reports whether the student's report of an attempt has a score.
func (s *Service) knowsScore(ctx context.Context, at seat, m class.Mark) (bool, error) {
	if m.Attempt == "" {
		return false, nil
	}
	a, err := s.store.Attempt(ctx, m.Attempt)
	if fault.Is(err, fault.NotFound) {
		return false, nil // recorded by a command, not handed in here
	}
	if err != nil {
		return false, err
	}
	r, err := s.reader(ctx, at, a.Assignment)
	if err != nil {
		return false, err
	}
	seen, err := s.graded(ctx, r, a)
	return seen.Scored, err
}

// Marks are the marks of an assignment by pseudonym; for who runs the course.
func (s *Service) Marks(ctx context.Context, courseID, assignment string) (class.Assignment, []class.AnonymousMark, error) {
	if _, err := s.enter(ctx, courseID, account.ReadHidden, account.GradebookThing); err != nil {
		return class.Assignment{}, nil, err
	}
	return s.book.AnonymousMarks(ctx, courseID, assignment)
}

// Export is a form of the gradebook.
type Export string

// The forms. Canvas and MoodleSheet fill in somebody else's table.
const (
	CSV         Export = "csv"
	Moodle      Export = "moodle"
	Canvas      Export = "canvas"
	MoodleSheet Export = "moodle_worksheet"
)

// Export writes the gradebook as a table; for who runs the course. assignment, if
// not "", is the only one; a worksheet of Moodle needs it. fill is the table of
// Canvas or Moodle that is filled in.
func (s *Service) Export(ctx context.Context, courseID string, form Export, assignment string, fill []byte) ([]byte, class.Filling, error) {
	var filling class.Filling
	if _, err := s.enter(ctx, courseID, account.ReadHidden, account.GradebookThing); err != nil {
		return nil, filling, err
	}
	book, err := s.book.Gradebook(ctx, courseID)
	if err == nil && assignment != "" && form != MoodleSheet {
		book, err = book.Only(assignment)
	}
	if err != nil {
		return nil, filling, err
	}
	var out bytes.Buffer
	switch form {
	case CSV:
		err = book.WriteCSV(&out)
	case Moodle:
		err = book.WriteMoodle(&out)
	case Canvas:
		filling, err = book.FillCanvas(&out, "the export", fill, nil)
	case MoodleSheet:
		if assignment == "" {
			return nil, filling, fault.Errorf(fault.Invalid, "a worksheet is of one assignment").WithHint("name the assignment")
		}
		filling, err = book.FillMoodle(&out, "the worksheet", fill, assignment)
	default:
		err = fault.Errorf(fault.Unsupported, "there is no gradebook in the form %q", form)
	}
	return out.Bytes(), filling, err
}

// ClassPage writes the page of an assignment for the staff of a course: the
// attempts that count, of those who have one. link gives the address of the page
// of an attempt.
func (s *Service) ClassPage(ctx context.Context, w io.Writer, courseID, assignment string, link func(attempt string) string) error {
	if _, err := s.enter(ctx, courseID, account.ReadHidden, account.GradebookThing); err != nil {
		return err
	}
	state, err := s.book.State(ctx, courseID)
	if err != nil {
		return err
	}
	task, err := state.Assignment(assignment)
	if err != nil {
		return err
	}
	marks, err := state.Marks(task)
	if err != nil {
		return err
	}
	release, err := s.book.Release(ctx, courseID, assignment, now())
	if err != nil {
		return err
	}
	links := map[string]string{}
	var grades []course.Grade
	for person, m := range marks {
		// The page is of one version: its columns are that version's tests.
		if m.Attempt == "" || m.Outdated {
			continue
		}
		_, data, err := s.store.Recorded(ctx, courseID, m.Attempt)
		if err != nil {
			return err
		}
		var g course.Grade
		if err := json.Unmarshal(data, &g); err != nil {
			return fmt.Errorf("grade of attempt %s: %w", m.Attempt, err)
		}
		p, _ := state.Person(person)
		g.Submission = p.Label()
		if task.Hidden() {
			g.Submission = state.Course.Pseudonym(assignment, person)
		}
		links[g.Submission] = link(m.Attempt)
		grades = append(grades, g)
	}
	slices.SortFunc(grades, func(x, y course.Grade) int { return bytes.Compare([]byte(x.Submission), []byte(y.Submission)) })
	return gradepage.Class(w, grades, release, func(g course.Grade) string { return links[g.Submission] })
}

// maxCompared bounds the attempts that are compared at once: all of them are in
// memory together.
const maxCompared = 2000

// Similarity finds attempts of an assignment that share code; for who runs the
// course. Of each person or group the newest attempt is compared. min is the
// similarity from which on a pair is told, 0 to 1.
func (s *Service) Similarity(ctx context.Context, courseID, assignment string, min float64) (similarity.Result, error) {
	at, err := s.enter(ctx, courseID, account.ReadHidden, account.GradebookThing)
	if err != nil {
		return similarity.Result{}, err
	}
	t, err := s.task(ctx, at, assignment)
	if err != nil {
		return similarity.Result{}, err
	}
	starter, err := s.Starter(ctx, courseID, assignment)
	if err != nil {
		return similarity.Result{}, err
	}
	newest, err := s.newest(ctx, courseID, assignment)
	if err != nil {
		return similarity.Result{}, err
	}
	r, err := s.reader(ctx, at, assignment)
	if err != nil {
		return similarity.Result{}, err
	}
	d, err := similarity.NewDetector(similarity.Options{Language: t.Current.Language, Starter: starter, Min: min})
	if err != nil {
		return similarity.Result{}, err
	}
	for _, a := range newest {
		sub, err := s.submission(ctx, a)
		if err != nil {
			return similarity.Result{}, err
		}
		sub.ID = r.seen(a).Who + " (" + a.ID + ")"
		d.Add(sub)
	}
	return d.Result(), nil
}

// newest is the newest attempt of each person or group.
func (s *Service) newest(ctx context.Context, courseID, assignment string) ([]Attempt, error) {
	seen := map[string]bool{}
	var list []Attempt
	q := AttemptQuery{Course: courseID, Assignment: assignment, Limit: 500}
	for {
		page, err := s.store.Attempts(ctx, q)
		if err != nil {
			return nil, err
		}
		for _, a := range page {
			who := "person " + a.Person
			if a.Group != "" {
				who = "group " + a.Group
			}
			if !seen[who] {
				seen[who] = true
				list = append(list, a)
			}
		}
		if len(list) > maxCompared {
			return nil, fault.Errorf(fault.Exhausted, "%s has more than %d people to compare", assignment, maxCompared).
				WithHint("fetch the files and run \"assay similarity\"")
		}
		if len(page) < q.Limit {
			return list, nil
		}
		q.After = page[len(page)-1].Page()
	}
}
