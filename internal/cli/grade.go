package cli

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"assay/internal/course"
	"assay/internal/course/assignment"
	"assay/internal/course/class"
	"assay/internal/course/gradepage"
	"assay/internal/course/grading"
	"assay/internal/course/handin"
	"assay/internal/course/testreport"
	"assay/internal/fault"
)

type gradeCmd struct {
	gradeFlags

	Assignment  string   `arg:"" help:"Folder of the assignment."`
	Submissions []string `arg:"" name:"submission" help:"Submissions: files, folders, archives, or a folder that holds one for each student."`
	Roster      string   `name:"roster" placeholder:"CSV" help:"The class, to list who handed in nothing."`
	Course      string   `name:"course" placeholder:"COURSE" help:"Record the grades in a course (see assay course), and list who handed in nothing."`
	Out         string   `name:"out" short:"o" placeholder:"DIR" help:"Write grades, reports and grades.csv into a folder. A run that was stopped goes on there."`
	Again       bool     `name:"again" help:"Grade also what the folder has a grade of already."`
	Release     string   `name:"release" enum:"now,due,published" default:"now" help:"What students may see in their reports: now, once it is due, or once marks are published."`
}

func (gradeCmd) Help() string {
	return `Each submission is graded in fresh machines of its own. Points come from the assignment, never from what a machine says; the tests never lie where the student's code runs (in mode harness, which is somebody else's autograder, deviations are flagged instead).

With --out, a run that was stopped in any way goes on where it was: what has a grade of the same files by the same version of the assignment is not graded again. The folder then holds grades.csv, class.html, and for each student a page, a JSON file of what the student may see, and a CTRF report for staff.

The exit code is 0 if every submission has a grade, whatever the grades are.`
}

// gradeRow is one line of "assay grade".
type gradeRow struct {
	Submission string       `json:"submission"`
	Score      string       `json:"score"`
	Points     string       `json:"points"`
	Outcome    string       `json:"outcome"`
	Passed     int          `json:"passed"`
	Tests      int          `json:"tests"`
	Cause      course.Cause `json:"cause,omitempty"`
	// Causes are those of tests, each once.
	Causes     []course.Cause     `json:"test_causes,omitempty"`
	Suspicious []course.Suspicion `json:"suspicious,omitempty"`
	Digest     string             `json:"submission_digest,omitempty"`
	Kept       bool               `json:"kept,omitempty"`
}

const nothingHandedIn = "nothing handed in"

func (c gradeCmd) Run(ctx context.Context, env *Env) (err error) {
	a, err := assignment.Load(c.Assignment)
	if err != nil {
		return err
	}
	if c.Roster != "" && c.Course != "" {
		return fault.Errorf(fault.Invalid, "--roster and --course exclude each other: a course has a roster").WithHint("leave --roster out")
	}
	var whom gradedClass
	defer func() { err = errors.Join(err, whom.close()) }()
	if c.Roster != "" {
		if whom.people, err = readPeople(env, c.Roster); err != nil {
			return err
		}
	}
	found, err := handin.ReadClass(c.Submissions, handin.Options{Expected: a.Expected})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, found.Close()) }()
	entries := inOrder(found.Entries, a)
	if len(entries) == 0 {
		return fault.Errorf(fault.Invalid, "there are no submissions in %s", strings.Join(c.Submissions, ", ")).
			WithHint("name files, folders or archives, or a folder that holds one for each student")
	}
	var folder *grading.Folder
	if c.Out != "" {
		if folder, err = grading.OpenFolder(c.Out); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, folder.Close()) }()
	}
	grades, kept := make([]course.Grade, len(entries)), make([]bool, len(entries))
	err = c.withGrading(ctx, env, a, func(s *grading.Service) error {
		for _, n := range found.Notes {
			env.UI.Notef("%s", n)
		}
		if c.Course != "" {
			if err := whom.openBook(ctx, env, c.Course, a); err != nil {
				return err
			}
		}
		b := newGradeBoard(env, "grade "+a.Name, entries)
		run := grading.Class{
			Entries: entries, AtOnce: c.atOnce(), Again: c.Again, Began: b.began,
			Done: func(o grading.Outcome) error {
				grades[o.Index], kept[o.Index] = o.Grade, o.Kept
				b.done(o)
				if err := whom.record(ctx, a, found.Entries[o.Index], o.Grade); err != nil {
					return err
				}
				if folder == nil || o.Kept {
					return nil
				}
				return writeStudent(folder, a, o.Grade, c.release())
			},
		}
		if folder != nil {
			run.Results = folder
		}
		if err := s.Run(ctx, a, run); err != nil {
			return err
		}
		b.finish()
		return nil
	})
	if err != nil {
		return err
	}
	byName := gradeRows(grades, kept)
	slices.SortFunc(byName, func(x, y gradeRow) int { return strings.Compare(x.Submission, y.Submission) })
	slices.SortFunc(grades, func(x, y course.Grade) int { return strings.Compare(x.Submission, y.Submission) })
	rows := append(byName, whom.absent(found.Entries, a)...)
	for _, id := range whom.unknown {
		env.UI.Warnf("%s is not on the roster of %s: the grade is not recorded there", id, c.Course)
	}
	if folder != nil {
		if err := writeClass(folder, grades, rows, c.release()); err != nil {
			return err
		}
	}
	return c.show(env, rows)
}

// inOrder sorts submissions into the order in which they are graded: first come,
// first served.
func inOrder(found []handin.Entry, a *course.Assignment) []grading.Entry {
	waiting, byID := make([]course.Waiting, len(found)), make(map[string]handin.Entry, len(found))
	for i, e := range found {
		waiting[i] = course.Waiting{ID: e.ID, Student: e.ID, Assignment: a.Name, Received: e.Received}
		byID[e.ID] = e
	}
	order, _ := course.Order(waiting, nil) // There is one of each.
	entries := make([]grading.Entry, len(order))
	for i, w := range order {
		e := byID[w.ID]
		found[i] = e
		entries[i] = grading.Entry{ID: e.ID, Received: e.Received, Open: e.Open}
	}
	return entries
}

func (c gradeCmd) release() course.Release {
	return course.Release{AfterDue: c.Release != "now", Published: c.Release == "published"}
}

func gradeRows(grades []course.Grade, kept []bool) []gradeRow {
	rows := make([]gradeRow, 0, len(grades))
	for i, g := range grades {
		r := gradeRow{
			Submission: g.Submission, Score: g.Score.String(), Points: g.Points.String(), Outcome: gradepage.Outcome(g),
			Tests: len(g.Tests), Cause: g.Cause, Suspicious: g.Suspicious, Digest: g.Digest, Kept: kept[i],
		}
		for _, t := range g.Tests {
			if t.Status == course.Passed {
				r.Passed++
			}
			if t.Cause != course.NoCause && t.Cause != g.Cause && !slices.Contains(r.Causes, t.Cause) {
				r.Causes = append(r.Causes, t.Cause)
			}
		}
		rows = append(rows, r)
	}
	return rows
}

// causes are those of the run and of its tests, for people.
func (r gradeRow) causes() string {
	var list []string
	for _, c := range append([]course.Cause{r.Cause}, r.Causes...) {
		if c != course.NoCause {
			list = append(list, string(c))
		}
	}
	return strings.Join(list, ", ")
}

// show prints the rows; the exit code is negative if we failed for one.
func (c gradeCmd) show(env *Env, rows []gradeRow) error {
	ours := 0
	var cells [][]string
	for _, r := range rows {
		remarks := r.causes()
		if r.Cause == course.OurFailure {
			ours++
		}
		for _, s := range r.Suspicious {
			remarks = strings.TrimPrefix(remarks+"; suspicious: "+s.Text, "; ")
		}
		cells = append(cells, []string{r.Submission, r.Score, r.Points, fmt.Sprintf("%d/%d", r.Passed, r.Tests), paintOutcome(env, r.Outcome), remarks})
	}
	if env.JSON {
		if err := env.PrintJSON(rows); err != nil {
			return err
		}
	} else {
		env.UI.Table([]Column{Left("submission"), Right("score"), Right("of"), Right("passed"), Left("outcome"), Left("remarks")}, cells)
		if c.Out != "" {
			env.UI.Notef("reports: %s", filepath.Join(c.Out, "class.html"))
		}
	}
	if ours > 0 {
		env.UI.Warnf("%d submissions could not be graded because of failures of ours; run the same command again", ours)
		return errNegative
	}
	return nil
}

func paintOutcome(env *Env, outcome string) string {
	switch outcome {
	case gradepage.AllPoints:
		return env.UI.Good(outcome)
	case gradepage.NoPoints, nothingHandedIn:
		return env.UI.Bad(outcome)
	}
	return env.UI.Warn(outcome)
}

// writeStudent writes what belongs to one student.
func writeStudent(f *grading.Folder, a *course.Assignment, g course.Grade, release course.Release) error {
	seen := g.ForStudent(release, a.StdoutVisibility)
	var page, ctrf bytes.Buffer
	if err := gradepage.Student(&page, seen); err != nil {
		return fmt.Errorf("write the page of %s: %w", g.Submission, err)
	}
	data, err := json.MarshalIndent(seen, "", "  ")
	if err != nil {
		return err
	}
	if err := testreport.WriteCTRF(&ctrf, g); err != nil {
		return fmt.Errorf("write the CTRF report of %s: %w", g.Submission, err)
	}
	name := grading.FileName(g.Submission)
	return errors.Join(
		f.Write(filepath.Join("students", name+".html"), page.Bytes()),
		f.Write(filepath.Join("students", name+".json"), append(data, '\n')),
		f.Write(filepath.Join("ctrf", name+".json"), ctrf.Bytes()),
	)
}

// writeClass writes what is of the whole class.
func writeClass(f *grading.Folder, grades []course.Grade, rows []gradeRow, release course.Release) error {
	var page bytes.Buffer
	err := gradepage.Class(&page, grades, release, func(g course.Grade) string {
		return "students/" + strings.ReplaceAll(grading.FileName(g.Submission), "%", "%25") + ".html"
	})
	if err != nil {
		return fmt.Errorf("write the page of the class: %w", err)
	}
	table, err := gradesCSV(rows)
	if err != nil {
		return err
	}
	return errors.Join(f.Write("class.html", page.Bytes()), f.Write("grades.csv", table))
}

// gradesCSV is a table for spreadsheets. A cell that one would take for a formula
// begins with an apostrophe.
func gradesCSV(rows []gradeRow) ([]byte, error) {
	var out bytes.Buffer
	w := csv.NewWriter(&out)
	if err := w.Write([]string{"submission", "score", "points", "passed", "tests", "outcome", "cause", "suspicious", "submission_digest"}); err != nil {
		return nil, err
	}
	for _, r := range rows {
		var suspicions []string
		for _, s := range r.Suspicious {
			suspicions = append(suspicions, s.Text)
		}
		score := r.Score
		if r.Cause == course.OurFailure {
			score = ""
		}
		err := w.Write([]string{
			class.Neutral(r.Submission), score, r.Points, strconv.Itoa(r.Passed), strconv.Itoa(r.Tests), r.Outcome, r.causes(),
			class.Neutral(strings.Join(suspicions, "; ")), r.Digest,
		})
		if err != nil {
			return nil, err
		}
	}
	w.Flush()
	return out.Bytes(), w.Error()
}
