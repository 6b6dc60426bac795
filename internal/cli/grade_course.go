package cli

import (
	"context"
	"fmt"
	"os"

	"assay/internal/app"
	"assay/internal/course"
	"assay/internal/course/class"
	"assay/internal/course/handin"
	"assay/internal/fault"
)

// gradedClass is whom a run of "assay grade" is for: a course, a roster's file,
// or nobody in particular.
type gradedClass struct {
	people []class.Person
	// book keeps grades; nil is none.
	book   *app.Courses
	course string
	// unknown are submissions of people who are not on the roster.
	unknown []string
}

// readPeople reads a roster's file.
func readPeople(env *Env, name string) ([]class.Person, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, fault.Errorf(fault.Invalid, "read the roster: %w", err).WithHint("--roster takes a CSV file; docs/courses.md says which columns")
	}
	roster, err := class.ReadRoster(name, data)
	if err != nil {
		return nil, err
	}
	for _, n := range roster.Notes {
		env.UI.Warnf("%s", oneLine(n))
	}
	var people []class.Person
	for _, l := range roster.Lines {
		people = append(people, l.Person)
	}
	return people, nil
}

// openBook opens the course and tells it of the assignment, whose tests are
// known.
func (g *gradedClass) openBook(ctx context.Context, env *Env, name string, a *course.Assignment) error {
	book, err := app.OpenCourses(ctx, env.DataDir)
	if err != nil {
		return err
	}
	g.book, g.course = book, name
	if err := book.PutAssignment(ctx, name, class.AssignmentOf(a)); err != nil {
		return err
	}
	s, err := book.State(ctx, name)
	if err != nil {
		return err
	}
	for _, p := range s.People {
		if p.Removed.IsZero() && p.Role == class.Student {
			g.people = append(g.people, p)
		}
	}
	return nil
}

func (g *gradedClass) close() error {
	if g.book == nil {
		return nil
	}
	return g.book.Close()
}

// handers are those on the roster who handed an entry in.
func (g *gradedClass) handers(e handin.Entry) []class.Person {
	names := []string{e.ID}
	for _, p := range e.People {
		names = append(names, p.StudentID, p.Email, p.Name)
	}
	var list []class.Person
	seen := map[string]bool{}
	for _, n := range names {
		if p, err := class.Find(g.people, n); err == nil && !seen[p.Label()] {
			seen[p.Label()] = true
			list = append(list, p)
		}
	}
	return list
}

// record keeps a grade in the course. A submission of nobody on the roster is
// told of at the end.
func (g *gradedClass) record(ctx context.Context, a *course.Assignment, e handin.Entry, grade course.Grade) error {
	if g.book == nil {
		return nil
	}
	who := g.handers(e)
	if len(who) == 0 {
		g.unknown = append(g.unknown, e.ID)
		return nil
	}
	h := class.HandIn{Assignment: a.Name, Who: who[0].ID, Grade: grade, By: actor()}
	if grade.Received != nil {
		h.Received = *grade.Received
	}
	if _, err := g.book.Record(ctx, g.course, h); err != nil {
		return fmt.Errorf("record the grade of %s in course %s: %w", e.ID, g.course, err)
	}
	return nil
}

// absent gives a row for everybody on the roster who handed in nothing.
func (g *gradedClass) absent(entries []handin.Entry, a *course.Assignment) []gradeRow {
	present := map[string]bool{}
	for _, e := range entries {
		for _, p := range g.handers(e) {
			present[p.Label()] = true
		}
	}
	var rows []gradeRow
	for _, p := range g.people {
		if !present[p.Label()] && p.Role != class.Staff {
			rows = append(rows, gradeRow{
				Submission: p.Label(), Score: "", Points: a.Points.String(), Outcome: nothingHandedIn, Tests: len(a.Tests),
			})
		}
	}
	return rows
}

// regradeInBook shows what a course's marks would become, and with apply makes
// them so. next are by the digest of the submission.
func regradeInBook(ctx context.Context, env *Env, name string, a *course.Assignment, next []course.Grade, apply bool, reason string) (class.RegradePlan, error) {
	var plan class.RegradePlan
	err := withCourses(ctx, env, func(book *app.Courses) error {
		attempts, err := book.Attempts(ctx, name, a.Name)
		if err != nil {
			return err
		}
		grades := map[string]course.Grade{}
		for _, g := range next {
			grades[g.Digest] = g
		}
		var list []class.Regraded
		for _, at := range attempts {
			if g, ok := grades[at.Digest]; ok {
				list = append(list, class.Regraded{Attempt: at.ID, Grade: g})
			}
		}
		of := class.AssignmentOf(a)
		if plan, err = book.PlanRegrade(ctx, name, of, list); err != nil || !apply {
			return err
		}
		return book.ApplyRegrade(ctx, name, of, list, plan, class.Note{By: actor(), Reason: reason})
	})
	return plan, err
}
