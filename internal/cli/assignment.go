package cli

import (
	"context"
	"fmt"
	"runtime"
	"strings"

	"assay/internal/app"
	"assay/internal/course"
	"assay/internal/course/assignment"
	"assay/internal/course/grading"
)

type assignmentCmd struct {
	New     assignmentNewCmd     `cmd:"" help:"Make a new assignment that works."`
	Show    assignmentShowCmd    `cmd:"" help:"Show what an assignment asks for and how it is graded."`
	Verify  assignmentVerifyCmd  `cmd:"" help:"Check an assignment before it is published: solution, starter code, hostile submissions, repetitions."`
	Preview assignmentPreviewCmd `cmd:"" help:"Show what a submission is read as, before it is handed in."`
}

// gradeFlags are those of every command that grades.
type gradeFlags struct {
	Template string        `name:"template" short:"t" help:"Template to use in place of the assignment's."`
	Jobs     positiveCount `name:"jobs" short:"j" placeholder:"N" help:"Submissions graded at once (default: one for each core)."`
}

func (f gradeFlags) atOnce() int {
	if f.Jobs > 0 {
		return int(f.Jobs)
	}
	return runtime.NumCPU()
}

// withGrading opens the engine with the assignment's template, built and warm,
// prepares the assignment and calls do. Nothing may be printed before it.
func (f gradeFlags) withGrading(ctx context.Context, env *Env, a *course.Assignment, do func(*grading.Service) error) (err error) {
	if f.Template != "" {
		a.Template = f.Template
	}
	if err := enterRoot(ctx, env, a.Template); err != nil {
		return err
	}
	e, err := app.OpenEngine(ctx, app.Config{DataDir: env.DataDir, Driver: env.Driver, Accel: env.Accel})
	if err != nil {
		return err
	}
	defer func() { err = closeEngine(e, err) }()
	if _, err := prepareShown(ctx, env, e, a.Template); err != nil {
		return err
	}
	view := &buildView{ui: env.UI, title: "prepare " + a.Name}
	service, err := e.Grading(view)
	if err != nil {
		return err
	}
	// Building a template has a progress of its own, which takes this one's place.
	p := env.UI.Progress("prepare "+a.Name, 0)
	if err := service.Prepare(ctx, a); err != nil {
		return err
	}
	p.Finish("")
	view.finish("done")
	return do(service)
}

type assignmentNewCmd struct {
	Dir      string `arg:"" help:"Folder to make."`
	Mode     string `name:"mode" enum:"io,call,pytest,harness" default:"pytest" help:"How it is graded: io, call, pytest or harness."`
	Language string `name:"language" default:"python3" help:"Language, for the modes io and call."`
	Title    string `name:"title" help:"Title (default: the folder's name)."`
}

func (c assignmentNewCmd) Run(env *Env) error {
	files, err := assignment.New(c.Dir, assignment.Options{Mode: course.Mode(c.Mode), Language: c.Language, Title: c.Title})
	if err != nil {
		return err
	}
	if env.JSON {
		return env.PrintJSON(files)
	}
	for _, f := range files {
		env.UI.Printf("%s\n", f)
	}
	env.UI.Notef("check it with \"assay assignment verify %s\"", c.Dir)
	return nil
}

type assignmentShowCmd struct {
	Dir string `arg:"" help:"Folder of the assignment."`
}

// assignmentJSON is "assay assignment show --json".
type assignmentJSON struct {
	Name     string            `json:"name"`
	Title    string            `json:"title"`
	Version  string            `json:"version"`
	Mode     course.Mode       `json:"mode"`
	Language string            `json:"language,omitempty"`
	Template string            `json:"template"`
	Files    []expectedJSON    `json:"files"`
	Points   string            `json:"points,omitempty"`
	Tests    []assignmentTests `json:"tests"`
	Proofs   []string          `json:"proofs"`
	Due      string            `json:"due,omitempty"`
	Late     string            `json:"late,omitempty"`
	Attempts string            `json:"attempts,omitempty"`
}

type expectedJSON struct {
	Pattern  string `json:"pattern"`
	Optional bool   `json:"optional,omitempty"`
}

type assignmentTests struct {
	Name       string            `json:"name"`
	ID         string            `json:"id,omitempty"`
	Points     string            `json:"points"`
	Visibility course.Visibility `json:"visibility"`
}

func (c assignmentShowCmd) Run(env *Env) error {
	a, err := assignment.Load(c.Dir)
	if err != nil {
		return err
	}
	out := assignmentJSON{
		Name: a.Name, Title: a.Title, Version: a.Version, Mode: a.Mode, Language: a.Language, Template: a.Template,
		Tests: []assignmentTests{}, Proofs: []string{},
	}
	for _, e := range a.Expected {
		out.Files = append(out.Files, expectedJSON(e))
	}
	for _, t := range a.Tests {
		row := assignmentTests{Name: t.Name, Points: t.Points.String(), Visibility: t.Visibility}
		if t.ID != t.Name {
			row.ID = t.ID
		}
		out.Tests = append(out.Tests, row)
	}
	if a.Mode == course.IO || a.Mode == course.Call {
		out.Points = a.Points.String()
	}
	for _, p := range a.Proofs {
		out.Proofs = append(out.Proofs, p.Name)
	}
	if env.JSON {
		return env.PrintJSON(out)
	}
	var names []string
	for _, e := range out.Files {
		name := e.Pattern
		if e.Optional {
			name += " (optional)"
		}
		names = append(names, name)
	}
	rows := [][]string{
		{"title", a.Title},
		{"version", a.Version},
		{"mode", string(a.Mode)},
		{"language", a.Language},
		{"template", a.Template},
		{"files", strings.Join(names, ", ")},
		{"points", out.Points},
		{"solution", havingFiles(a.Solution)},
		{"starter", havingFiles(a.Starter)},
		{"proofs", strings.Join(out.Proofs, ", ")},
	}
	for _, r := range rows {
		if r[1] != "" {
			env.UI.Printf("%-9s %s\n", r[0], r[1])
		}
	}
	if len(out.Tests) == 0 {
		env.UI.Notef("the tests are those that a run of the solution gives")
		return nil
	}
	env.UI.Printf("\n")
	var tests [][]string
	for _, t := range out.Tests {
		tests = append(tests, []string{t.Name, t.Points, string(t.Visibility)})
	}
	env.UI.Table([]Column{Left("test"), Right("points"), Left("visible")}, tests)
	return nil
}

func havingFiles(files []course.File) string {
	switch len(files) {
	case 0:
		return "none"
	case 1:
		return files[0].Name
	}
	return fmt.Sprintf("%d files", len(files))
}

type assignmentVerifyCmd struct {
	gradeFlags

	Dirs    []string      `arg:"" name:"dir" help:"Folders of assignments."`
	Repeats positiveCount `name:"repeats" default:"3" help:"How often the solution is graded, to find flaky tests."`
}

func (assignmentVerifyCmd) Help() string {
	return `The solution must get all points, and the same result each time. The starter code and the assignment's own proofs must get what assignment.yaml says. Submissions of Assay that try to get points without doing the work must get no more than the starter code.

The exit code is 1 if anything is not so.`
}

// verifiedJSON is one assignment of "assay assignment verify --json".
type verifiedJSON struct {
	Assignment string          `json:"assignment"`
	Version    string          `json:"version"`
	OK         bool            `json:"ok"`
	Checks     []grading.Check `json:"checks"`
}

func (c assignmentVerifyCmd) Run(ctx context.Context, env *Env) error {
	var list []verifiedJSON
	bad := 0
	for _, dir := range c.Dirs {
		a, err := assignment.Load(dir)
		if err != nil {
			return err
		}
		var checks []grading.Check
		err = c.withGrading(ctx, env, a, func(s *grading.Service) error {
			p := env.UI.Progress("verify "+a.Name, 0)
			failed := 0
			checks, err = s.Verify(ctx, a, grading.VerifyOptions{
				Repeats: int(c.Repeats), AtOnce: c.atOnce(),
				Done: func(check grading.Check, done, total int) {
					if !check.OK {
						failed++
					}
					p.Set(int64(done), int64(total))
					p.Detail(check.Name)
				},
			})
			if err != nil {
				return err
			}
			outcome := "all as wanted"
			if failed > 0 {
				outcome = fmt.Sprintf("%d of %d not as wanted", failed, len(checks))
			}
			p.Finish(outcome)
			bad += failed
			return nil
		})
		if err != nil {
			return err
		}
		v := verifiedJSON{Assignment: a.Name, Version: a.Version, OK: true, Checks: checks}
		for _, check := range checks {
			v.OK = v.OK && check.OK
		}
		list = append(list, v)
		if !env.JSON {
			showChecks(env, checks)
		}
	}
	if env.JSON {
		if err := env.PrintJSON(list); err != nil {
			return err
		}
	}
	if bad > 0 {
		return errNegative
	}
	return nil
}

func showChecks(env *Env, checks []grading.Check) {
	var rows [][]string
	for _, c := range checks {
		mark := env.UI.Good("ok")
		if !c.OK {
			mark = env.UI.Bad("WRONG")
		}
		rows = append(rows, []string{c.Name, c.Got, c.Want, mark})
	}
	env.UI.Table([]Column{Left("what"), Left("got"), Left("wanted"), Left("")}, rows)
	for _, c := range checks {
		if !c.OK && c.Why != "" {
			env.UI.Printf("\n%s:\n%s\n", c.Name, indent(c.Why))
		}
	}
}

func indent(text string) string { return "  " + strings.ReplaceAll(text, "\n", "\n  ") }
