package call

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"assay/internal/course"
	"assay/internal/fault"
	"assay/internal/judge"
)

// Grader grades assignments of mode call. It may be used from many goroutines.
type Grader struct {
	machines  judge.Machines
	languages *judge.Languages
}

// New makes a Grader that takes its machines from machines.
func New(machines judge.Machines, languages *judge.Languages) *Grader {
	return &Grader{machines, languages}
}

var _ course.Grader = (*Grader)(nil)

// Grade implements course.Grader. A language that has no caller is Unsupported,
// and so is a clock of the assignment's own in any language but Python.
func (g *Grader) Grade(ctx context.Context, a *course.Assignment, s course.Submission, observe func(string)) (course.Report, error) {
	x, err := g.newSession(a, s)
	if err != nil {
		return course.Report{}, err
	}
	defer x.close()
	module, why := x.module()
	if why != "" {
		return course.Report{Cause: course.MissingFile, Build: why}, nil
	}
	x.entry = module
	if err := x.start(ctx); err != nil {
		return course.Report{}, err
	}
	x.phase("prepare")
	end, err := x.runner.prepare(ctx)
	if err != nil {
		return course.Report{}, fmt.Errorf("grade %s: %w", s.ID, err)
	}
	x.suspect(end)
	if end.Cause != course.NoCause {
		x.report.Cause, x.report.Build = end.Cause, end.How
		return x.report, nil
	}
	x.phase("run")
	findings := make([]course.Finding, len(a.Tests))
	for _, i := range inOrder(a.Tests) {
		if observe != nil {
			observe(a.Tests[i].Name)
		}
		o, err := x.runner.run(ctx, i)
		if err != nil {
			return course.Report{}, fmt.Errorf("grade %s, test %q: %w", s.ID, a.Tests[i].Name, err)
		}
		x.suspect(o)
		findings[i] = decide(a.Tests[i], o, x.dialect)
	}
	x.report.Findings = findings
	x.phase("")
	return x.report, nil
}

// inOrder gives the tests in the order in which they are run: what students may
// see first is run first. Then a program that kept the arguments of a hidden test
// finds no later test whose output its author can read.
func inOrder(tests []course.Test) []int {
	rank := map[course.Visibility]int{course.Visible: 0, course.AfterDue: 1, course.AfterPublished: 2, course.Hidden: 3}
	order := make([]int, len(tests))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return rank[tests[i].Visibility] - rank[tests[j].Visibility] })
	return order
}

// session is the grading of one submission.
type session struct {
	grader     *Grader
	assignment *course.Assignment
	lang       judge.Language
	dialect    dialect
	files      []course.File
	// entry is the file that is loaded.
	entry   string
	machine judge.Machine
	runner  runner
	report  course.Report
}

// runner runs tests in the session's machine.
type runner interface {
	// prepare compiles or loads the submission. The outcome has a cause where the
	// submission is to blame, and how it ended for the student to read. An error
	// is ours.
	prepare(ctx context.Context) (outcome, error)
	// run runs test i. An error is ours.
	run(ctx context.Context, i int) (outcome, error)
	// tools are files of ours that lie in toolDir.
	tools() []course.File
	// warmth is the state that the machine is to begin in; nil is the template's.
	// The tools are there then.
	warmth() *judge.Warm
	close()
}

func (g *Grader) newSession(a *course.Assignment, s course.Submission) (*session, error) {
	lang, err := g.languages.ByID(a.Language)
	if err != nil {
		return nil, err
	}
	d, ok := dialectOf(lang)
	if !ok {
		return nil, fault.Errorf(fault.Unsupported, "mode call does not know %s", lang.Name).
			WithHint("use python3, javascript, java or cpp, or mode io")
	}
	if !a.Clock.IsZero() && a.Language != "python3" {
		return nil, fault.Errorf(fault.Unsupported, "mode call has no clock of its own in %s", lang.Name).
			WithHint("leave clock out, or give the time as an argument")
	}
	x := &session{grader: g, assignment: a, lang: lang, dialect: d, files: slices.Clone(s.Files)}
	for _, f := range a.Files {
		for _, pattern := range a.Call.Files {
			if ok, _ := path.Match(pattern, f.Name); ok { // a bad pattern matches nothing
				x.files = slices.DeleteFunc(x.files, func(old course.File) bool { return old.Name == f.Name })
				x.files = append(x.files, f)
				break
			}
		}
	}
	slices.SortFunc(x.files, func(a, b course.File) int { return strings.Compare(a.Name, b.Name) })
	x.runner = d.runner(x)
	return x, nil
}

// module is the file that is loaded, or why there is none.
func (x *session) module() (name, why string) {
	if name = x.assignment.Call.Module; name != "" {
		if !slices.ContainsFunc(x.files, func(f course.File) bool { return f.Name == name }) {
			return "", "not handed in: " + name
		}
		return name, ""
	}
	var all []string
	for _, f := range x.files {
		if x.dialect.source(f.Name) {
			all = append(all, f.Name)
		}
	}
	if len(all) == 0 {
		return "", "no source file was handed in"
	}
	if len(all) == 1 || x.dialect.together {
		return all[0], ""
	}
	for _, e := range x.assignment.Expected {
		if slices.Contains(all, e.Pattern) {
			return e.Pattern, ""
		}
	}
	return "", fmt.Sprintf("%d source files were handed in, and one was expected: %s", len(all), strings.Join(all, ", "))
}

// suspect tells, once, of a program that meddled with the caller.
func (x *session) suspect(o outcome) {
	if o.Cause == course.InvalidResult && len(x.report.Suspicions) == 0 {
		x.report.Suspicions = append(x.report.Suspicions, course.Suspicion{
			Kind: "forged_result", Text: "the program wrote to where the caller of its functions writes",
		})
	}
}

// phase begins a step of the grading; "" ends the last.
func (x *session) phase(name string) {
	now := time.Now().UTC()
	if n := len(x.report.Phases); n > 0 {
		p := &x.report.Phases[n-1]
		p.Took = now.Sub(p.Began)
	}
	if name != "" {
		x.report.Phases = append(x.report.Phases, course.Phase{Name: name, Began: now})
	}
}
