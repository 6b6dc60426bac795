// Package harness is the grading mode for autograders that exist already:
// Gradescope's zip, PrairieLearn's folder, Autolab's tar, or any command that
// leaves a report. They are run unchanged, beside the submission, in one
// machine; so what they say is a claim. Names and maxima of tests are pinned by
// runs of the solution (Grader.Pin), and a submission that earned something is
// run again as a decoy: see decoy. Start with Grader.
//
// A deviation never raises a mark. What can still be forged is said in
// docs/harness.md.
//
// The package must not know drivers, stores, how templates are built or who
// asks.
package harness

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"assay/internal/course"
	"assay/internal/fault"
	"assay/internal/guest"
	"assay/internal/judge"
)

// Templates makes what a harness wants installed into a template. It may be
// used from many goroutines.
type Templates interface {
	// Prepare gives the name of the template that has s; it is made once. The
	// name's last part begins with Prepared.
	Prepare(ctx context.Context, s Setup) (string, error)
}

// Prepared begins the names of templates made by Templates.
const Prepared = "harness-"

// Grader grades assignments of mode harness. It may be used from many
// goroutines at once.
type Grader struct {
	machines  judge.Machines
	templates Templates
}

// New makes a Grader.
func New(m judge.Machines, t Templates) *Grader { return &Grader{m, t} }

var _ course.Grader = (*Grader)(nil)

// Prepare makes the template that the harness needs, and puts its name into
// the assignment.
func (g *Grader) Prepare(ctx context.Context, a *course.Assignment) error {
	l, err := layoutOf(a)
	if err != nil || l.setup == nil || strings.HasPrefix(path.Base(a.Template), Prepared) {
		return err
	}
	name, err := g.templates.Prepare(ctx, *l.setup)
	if err != nil {
		return fmt.Errorf("set up the harness of assignment %s: %w", a.Name, err)
	}
	a.Template = name
	return nil
}

// Pin runs the harness on the solution and on its decoys, and gives the tests
// with what is known of each. The solution's marks are full marks for a test
// without a maximum. A solution that a harness cannot grade is Invalid.
func (g *Grader) Pin(ctx context.Context, a *course.Assignment) ([]course.Test, error) {
	l, err := layoutOf(a)
	if err != nil {
		return nil, err
	}
	files := handed(a, a.Solution)
	o, err := g.run(ctx, a, l, files, 0)
	if err != nil {
		return nil, err
	}
	r, err := o.read()
	if err != nil {
		return nil, fault.Errorf(fault.Invalid, "the harness gave no result for the solution (%s): %w\n%s", o.cause(), err, tail(o.log)).
			WithHint("see whether its setup.sh could install what it needs (\"assay template list\" names the log), or name a template that has it")
	}
	marks := r.marks(r.whole())
	if len(marks) == 0 {
		return nil, fault.Errorf(fault.Invalid, "the harness ran no tests on the solution\n%s", tail(o.log)).WithHint("see that it finds the files of the solution")
	}
	tests := make([]course.Test, 0, len(marks))
	for _, c := range marks {
		t := course.Test{ID: c.id, Name: c.name, Visibility: c.visibility, Pinned: &course.HarnessPin{}}
		if t.Visibility == "" {
			t.Visibility = r.visibility
		}
		switch {
		case c.max != nil:
			t.Points = *c.max
			t.Pinned.Above = c.score != nil && c.score.Cmp(*c.max) > 0
		case c.score != nil && c.score.Sign() > 0:
			t.Points = *c.score
		}
		t.Pinned.Max = t.Points
		tests = append(tests, t)
	}
	tests[0].Pinned.Touched = o.events.touched
	return tests, g.pinDecoys(ctx, a, l, files, tests, o)
}

// pinDecoys learns which tests each decoy of the solution fails.
func (g *Grader) pinDecoys(ctx context.Context, a *course.Assignment, l layout, files []course.File, tests []course.Test, honest observed) error {
	failed := map[decoy]map[string]bool{}
	for _, d := range decoysOf(files) {
		out, err := g.decoy(ctx, a, l, files, files, d, honest, tests)
		if err != nil {
			return err
		}
		failed[d] = map[string]bool{}
		for _, f := range out {
			failed[d][f.Test] = !earns(f)
		}
		for _, t := range tests {
			// Only what the harness said counts: a test without an outcome may have
			// one for another submission.
			if failed[d][t.ID] {
				t.Pinned.Decoys = append(t.Pinned.Decoys, string(d))
			}
		}
	}
	for _, t := range tests {
		if failed[decoyMute][t.ID] && hasJava(files) {
			// It reads what is printed: where a method gives back what another
			// prints is up to who writes it.
			t.Pinned.Decoys = []string{string(decoyMute)}
		}
	}
	return nil
}

func hasJava(files []course.File) bool {
	return slices.ContainsFunc(files, func(f course.File) bool { return path.Ext(f.Name) == ".java" })
}

// decoy runs one decoy and gives the findings for the tests, none where there
// is no result.
func (g *Grader) decoy(ctx context.Context, a *course.Assignment, l layout, files, solution []course.File, d decoy, honest observed, tests []course.Test) ([]course.Finding, error) {
	fake, changed := disguise(files, solution, d)
	if !changed {
		return nil, nil
	}
	o, err := g.run(ctx, a, l, fake, 3*honest.usage.Wall+10*time.Second)
	if err != nil {
		return nil, err
	}
	r, err := o.read()
	if err != nil {
		return nil, nil //nolint:nilerr // a decoy that breaks the harness tells nothing
	}
	findings, _ := weigh(tests, r)
	return findings, nil
}

// Grade implements course.Grader. The assignment's tests must be pinned.
func (g *Grader) Grade(ctx context.Context, a *course.Assignment, s course.Submission, _ func(string)) (course.Report, error) {
	l, err := layoutOf(a)
	if err != nil {
		return course.Report{}, err
	}
	if len(a.Tests) == 0 || a.Tests[0].Pinned == nil {
		return course.Report{}, fault.Errorf(fault.Invalid, "the tests of assignment %s are not pinned", a.Name).
			WithHint("verify the assignment first: \"assay assignment verify\"")
	}
	files := handed(a, s.Files)
	o, err := g.run(ctx, a, l, files, 0)
	if err != nil {
		return course.Report{}, err
	}
	report := course.Report{Log: o.log, Machines: []judge.MachineInfo{o.machine}, Phases: o.phases}
	deviations, untrusted := o.deviations(a.Tests[0].Pinned.Touched)
	r, err := o.read()
	if err != nil {
		report.Cause = o.cause()
		report.Log = strings.TrimSpace(report.Log + "\n" + err.Error())
		if errors.Is(err, errTwoResults) {
			deviations = append(deviations, course.Suspicion{Kind: "forged_result", Text: "The output has more than one line with scores: one of them is not the harness's."})
		} else if len(o.raw) > 0 && l.result != "" || o.broken != "" || report.Cause == course.InvalidResult {
			deviations = append(deviations, course.Suspicion{Kind: "invalid_result", Text: "The result cannot be read: " + err.Error() + "."})
		}
		report.Suspicions = deviations
		return report, nil
	}
	report.Log = strings.TrimSpace(report.Log + "\n" + r.text)
	report.Findings, report.Suspicions = weigh(a.Tests, r)
	report.Suspicions = append(report.Suspicions, deviations...)
	if len(report.Findings) < len(a.Tests) {
		if report.Cause = o.cause(); report.Cause == course.InvalidResult {
			report.Cause = course.NoResult
		}
	}
	if untrusted {
		spoil(report.Findings)
	}
	return report, g.crossCheck(ctx, a, l, files, o, &report)
}

// deviations are what in a run an honest submission would not have done.
// untrusted says that one of them points at a result that is not the harness's
// own, or at answers that were read from the tests: then nothing is earned.
func (o observed) deviations(allowed []string) (found []course.Suspicion, untrusted bool) {
	add := func(kind, format string, args ...any) {
		found = append(found, course.Suspicion{Kind: kind, Text: fmt.Sprintf(format, args...)})
	}
	for _, t := range o.events.beyond(allowed) {
		untrusted = true
		switch word, file, _ := strings.Cut(t, " "); word {
		case "write":
			add("forged_result", "The submission's code changed %s.", course.Clean(file))
		case "read":
			add("read_tests", "The submission's code read %s.", course.Clean(file))
		default:
			add("read_tests", "The submission's code looked into the harness that called it.")
		}
	}
	e := o.events
	switch {
	case o.exit.Cause == guest.Exited && e.exit < 0:
		untrusted = true
		add("early_exit", "The submission ended the shell that the harness ran in.")
	case e.ended < e.started && e.exit >= 0:
		// A harness may well stop one of several processes of its own.
		untrusted = untrusted || e.started == 1
		add("early_exit", "A process of the harness was ended before its own end.")
	}
	if e.left > 0 {
		add("left_processes", "The submission left processes behind, which were ended.")
	}
	if (o.exit.Cause == guest.WallLimit || o.exit.Cause == guest.CPULimit) && len(o.raw) > 0 {
		add("left_processes", "The harness had a result and did not end: it was ended at the limit of time.")
	}
	if e.hung > 0 {
		add("left_processes", "The submission started threads that did not end; they were ended two seconds after the harness.")
	}
	return found, untrusted
}

// crossCheck runs decoys of the submission until each test that earned
// something was checked by one, where it can be. A test that a decoy passes and
// the solution's decoy does not gives the submission away: it earns nothing.
func (g *Grader) crossCheck(ctx context.Context, a *course.Assignment, l layout, files []course.File, honest observed, report *course.Report) error {
	open := map[string][]string{}
	for _, t := range a.Tests {
		if t.Pinned != nil && len(t.Pinned.Decoys) > 0 {
			open[t.ID] = t.Pinned.Decoys
		}
	}
	for _, f := range report.Findings {
		if !earns(f) {
			delete(open, f.Test)
		}
	}
	for _, d := range []decoy{decoyTrue, decoyFalse, decoyMute} {
		var due []string
		for id, by := range open {
			if slices.Contains(by, string(d)) {
				due = append(due, id)
			}
		}
		if len(due) == 0 {
			continue
		}
		findings, err := g.decoy(ctx, a, l, files, handed(a, a.Solution), d, honest, a.Tests)
		if err != nil {
			return err
		}
		var passed []string
		for _, f := range findings {
			if earns(f) && slices.Contains(due, f.Test) {
				passed = append(passed, f.Test)
			}
		}
		if len(passed) > 0 {
			slices.Sort(passed)
			report.Suspicions = append(report.Suspicions, course.Suspicion{
				Kind: "forged_result",
				Text: "Tests pass although every answer of the submission was replaced by nonsense: " + list(passed) + ".",
			})
			spoil(report.Findings)
			return nil
		}
		for _, id := range due {
			delete(open, id)
		}
	}
	return nil
}

// handed are the files that are put in: those that the assignment expects,
// where it says so, under the name that the format wants.
func handed(a *course.Assignment, files []course.File) []course.File {
	out := slices.Clone(files)
	if len(a.Expected) > 0 {
		out = slices.DeleteFunc(out, func(f course.File) bool {
			return !slices.ContainsFunc(a.Expected, func(e course.ExpectedFile) bool {
				ok, err := path.Match(e.Pattern, f.Name)
				return err == nil && ok
			})
		})
	}
	if a.Harness.Format == Autolab && a.Harness.BaseName != "" && len(out) == 1 {
		out[0].Name = a.Harness.BaseName
	}
	return out
}

// read parses the result.
func (o observed) read() (result, error) {
	if o.broken != "" {
		return result{}, errors.New(o.broken)
	}
	if len(bytes.TrimSpace(o.raw)) == 0 {
		return result{}, errors.New("there is no result")
	}
	return o.layout.read(o.raw)
}

// tail is the end of a log.
func tail(log string) string {
	log = strings.TrimSpace(course.Clean(log))
	if n := 2000; len(log) > n {
		return "…" + strings.ToValidUTF8(log[len(log)-n:], "")
	}
	return log
}
