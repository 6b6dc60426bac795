package cli

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"assay/internal/app"
	"assay/internal/fault"
	"assay/internal/judge"
	"assay/internal/judge/problempkg"
)

type judgeCmd struct {
	Package  string           `arg:"" help:"Problem package: a folder or a zip."`
	Files    []string         `arg:"" optional:"" name:"file" help:"Submissions: files, or folders of files. None: all labelled ones of the package."`
	Template string           `name:"template" short:"t" help:"Template to use in place of the language's own."`
	All      bool             `name:"all" help:"Go on after a case that failed."`
	Time     positiveDuration `name:"time-limit" placeholder:"2s" help:"Time limit for a package that gives none."`
	Record   bool             `name:"records" help:"With --json: the whole record of each run, not only its row."`
}

func (judgeCmd) Help() string {
	return `Each submission is compiled and run in a machine of its own. What decides, the expected outputs and the checker, stays on this host.

A submission that says what it must do (the folder it lies in, or @EXPECTED_RESULTS@ in the source) is compared with that; the exit code is 1 if one did something else.`
}

func (c judgeCmd) Run(ctx context.Context, env *Env) (err error) {
	pkg, err := problempkg.Options{TimeLimit: time.Duration(c.Time)}.Load(c.Package)
	if err != nil {
		return err
	}
	defer func() {
		if closeErr := pkg.Close(); err == nil {
			err = closeErr
		}
	}()
	warnings := pkg.Warnings
	subs := pkg.Submissions
	if len(c.Files) > 0 {
		subs = nil
		for _, f := range c.Files {
			if l, ok := pkg.Find(f); ok {
				subs = append(subs, l)
				continue
			}
			l, w, err := problempkg.ReadSubmission(f)
			if err != nil {
				return err
			}
			subs, warnings = append(subs, l), append(warnings, w...)
		}
	}
	if len(subs) == 0 {
		return fault.Errorf(fault.Invalid, "package %s has no submissions to judge", c.Package).WithHint("name the files to judge")
	}
	for _, w := range warnings {
		env.UI.Warnf("%s", w)
	}
	runs, err := c.judge(ctx, env, pkg, subs)
	if err != nil {
		return err
	}
	return c.show(env, subs, runs)
}

// templates are those that the submissions' languages need.
func (c judgeCmd) templates(subs []problempkg.Labelled) ([]string, error) {
	if c.Template != "" {
		return []string{c.Template}, nil
	}
	languages, err := judge.DefaultLanguages()
	if err != nil {
		return nil, err
	}
	var list []string
	for _, s := range subs {
		lang, err := languages.Detect(s.Submission.Files)
		if err == nil && !slices.Contains(list, lang.Template) {
			list = append(list, lang.Template)
		}
	}
	return list, nil
}

// skipped is the run of a submission of the package that cannot be judged here:
// a package may have more languages than this judge.
func skipped(s judge.Submission, why error) judge.Run {
	return judge.Run{Verdict: judge.Skipped, Reason: why.Error(), Submission: judge.SubmissionInfo{Name: s.Name, Digest: s.Digest()}}
}

// judge runs the submissions one after another, with live progress.
func (c judgeCmd) judge(ctx context.Context, env *Env, pkg *problempkg.Package, subs []problempkg.Labelled) (runs []judge.Run, err error) {
	names, err := c.templates(subs)
	if err != nil {
		return nil, err
	}
	if err := enterRoot(ctx, env, names...); err != nil {
		return nil, err
	}
	e, err := app.OpenEngine(ctx, app.Config{DataDir: env.DataDir})
	if err != nil {
		return nil, err
	}
	defer func() { err = closeEngine(e, err) }()
	for _, name := range names {
		if _, err := prepareShown(ctx, env, e, name); err != nil {
			return nil, err
		}
	}
	j, err := e.Judge(judge.Options{AllCases: c.All, Template: c.Template})
	if err != nil {
		return nil, err
	}
	p := env.UI.Progress("judge "+pkg.Problem.ShortName, int64(len(subs)))
	for i, s := range subs {
		show := func(ev judge.Event) {
			switch ev.Step {
			case judge.StepCase:
				p.Detail(fmt.Sprintf("case %d/%d", ev.Case, ev.Cases))
			case judge.StepCompiling, judge.StepRetrying:
				p.Detail(string(ev.Step))
			}
		}
		p.Stage(s.Submission.Name)
		run, err := j.Run(ctx, pkg.Problem, s.Submission, show)
		if len(c.Files) == 0 && (fault.Is(err, fault.Invalid) || fault.Is(err, fault.Unsupported)) {
			runs = append(runs, skipped(s.Submission, err))
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("judge %s: %w", s.Submission.Name, err)
		}
		if s.Expectation.NeedsAllCases() && !s.Expectation.Met(run) && !c.All {
			// A label such as "TLE somewhere" may be met by a later case.
			if run, err = j.With(judge.Options{AllCases: true, Template: c.Template}).Run(ctx, pkg.Problem, s.Submission, show); err != nil {
				return nil, fmt.Errorf("judge %s: %w", s.Submission.Name, err)
			}
		}
		runs = append(runs, run)
		p.Set(int64(i+1), int64(len(subs)))
	}
	p.Finish(fmt.Sprintf("%d judged", len(runs)))
	return runs, nil
}

// show prints the outcome; it gives errNegative when a label was not met.
func (c judgeCmd) show(env *Env, subs []problempkg.Labelled, runs []judge.Run) error {
	rows := make([]judge.Comparison, len(runs))
	missed := 0
	for i, r := range runs {
		rows[i] = subs[i].Expectation.Compare(r)
		if !rows[i].Met && r.Verdict != judge.Skipped {
			missed++
		}
	}
	switch {
	case env.JSON && c.Record:
		if err := env.PrintJSON(runs); err != nil {
			return err
		}
	case env.JSON:
		if err := env.PrintJSON(rows); err != nil {
			return err
		}
	default:
		c.table(env, rows, missed)
	}
	if missed > 0 {
		return errNegative
	}
	return nil
}

func (c judgeCmd) table(env *Env, rows []judge.Comparison, missed int) {
	table := make([][]string, len(rows))
	for i, r := range rows {
		mark := env.UI.Good("ok")
		switch {
		case r.Verdict == judge.Skipped:
			mark = env.UI.Warn("skipped")
		case !r.Met:
			mark = env.UI.Bad("MISMATCH")
		case r.Expected == "anything":
			mark = "-"
		}
		where := ""
		if r.FailedCase > 0 {
			where = strconv.Itoa(r.FailedCase)
		}
		table[i] = []string{
			r.Submission, r.Language, string(r.Verdict), r.Expected, mark, where,
			fmt.Sprintf("%.3f", float64(r.TimeUS)/1e6), fmt.Sprintf("%.1f", float64(r.MemoryBytes)/(1<<20)), r.Reason,
		}
	}
	env.UI.Table([]Column{
		Left("submission"), Left("language"), Left("verdict"), Left("expected"), Left("label"), Right("case"),
		Right("time s"), Right("memory MiB"), Left("reason"),
	}, table)
	if missed > 0 {
		env.UI.Printf("%d of %d submissions did not do what their label says\n", missed, len(rows))
	}
}
