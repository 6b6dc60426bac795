package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"assay/internal/fault"
	"assay/internal/judge"
	"assay/internal/judge/problempkg"
)

type verifyCmd struct {
	judgeFlags

	Packages     []string `arg:"" name:"package" help:"Problem packages: folders or zips."`
	AllowSkipped bool     `name:"allow-skipped" help:"Labelled submissions that cannot be judged here, for want of their language, do no harm."`
	Strict       bool     `name:"strict" help:"Warnings count as well."`
	JUnit        string   `name:"junit" placeholder:"FILE" help:"Write the outcome as JUnit XML as well."`
	Record       string   `name:"record" placeholder:"DIR" help:"Write a record of each run into a folder, for assay rejudge."`
}

func (verifyCmd) Help() string {
	return `Checks what a package is made of: its files, that the input validators take every input and refuse data/invalid_input, that the checker takes the answers and says of data/invalid_output and data/valid_output what it should, and that all programs of the jury can be built. Then every labelled submission is judged. A time limit that the package leaves out is found first.

The exit code is 0 only if nothing is wrong and every label is met.`
}

// verification is one package and what was found about it.
type verification struct {
	path     string
	pkg      *problempkg.Package
	set      jobSet
	findings []judge.Finding
	// limit is set when it was found.
	limit *judge.FoundLimit
	runs  []judged
}

// verifyJSON is one package of "assay verify --json".
type verifyJSON struct {
	Package   string `json:"package"`
	OK        bool   `json:"ok"`
	ShortName string `json:"short_name,omitempty"`
	Name      string `json:"name,omitempty"`
	Version   string `json:"version,omitempty"`
	Cases     int    `json:"cases"`
	// TimeLimitUS is in microseconds; FoundFrom names the submission that it was
	// found from, empty where the package gives it.
	TimeLimitUS int64              `json:"time_limit_us"`
	FoundFrom   string             `json:"found_from,omitempty"`
	Findings    []judge.Finding    `json:"findings"`
	Submissions []judge.Comparison `json:"submissions"`
}

func (c verifyCmd) Run(ctx context.Context, env *Env) (err error) {
	list := make([]*verification, len(c.Packages))
	var sets []jobSet
	defer func() {
		for _, v := range list {
			if v != nil && v.pkg != nil {
				if closeErr := v.pkg.Close(); err == nil {
					err = closeErr
				}
			}
		}
	}()
	for i, path := range c.Packages {
		v := &verification{path: path}
		list[i] = v
		pkg, err := problempkg.Options{TimeLimit: time.Duration(c.Time)}.Load(path)
		switch {
		case err == nil:
			v.pkg = pkg
			v.set = jobSet{problem: pkg.Problem, jobs: jobsOf(pkg.Submissions)}
			v.set.labelled = v.set.jobs
			sets = append(sets, v.set)
		case len(c.Packages) == 1:
			return err
		default:
			v.wrong("", err)
		}
	}
	err = c.withJudge(ctx, env, judge.Options{Template: c.Template}, sets, func(j *judge.Judge) error {
		for _, v := range list {
			if err := c.verify(ctx, env, j, v); err != nil {
				return fmt.Errorf("verify %s: %w", v.path, err)
			}
			if !env.JSON {
				c.show(env, v)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return c.conclude(env, list)
}

// wrong makes a finding of an error and its hint.
func (v *verification) wrong(where string, err error) {
	text := err.Error()
	if hint := fault.HintOf(err); hint != "" {
		text += " (" + hint + ")"
	}
	v.findings = append(v.findings, judge.Finding{Wrong: true, Where: where, Text: text})
}

// atFault reports whether an error is about the package, not about us.
func atFault(ctx context.Context, err error) bool {
	return ctx.Err() == nil && (fault.Is(err, fault.Invalid) || fault.Is(err, fault.Unsupported))
}

// verify checks one package. What is wrong with it is a finding; an error is
// our own failure or the end of ctx.
func (c verifyCmd) verify(ctx context.Context, env *Env, j *judge.Judge, v *verification) error {
	if v.pkg == nil {
		return nil
	}
	for _, w := range v.pkg.Warnings {
		v.findings = append(v.findings, judge.Finding{Text: w})
	}
	if err := c.inspect(ctx, env, j, v); err != nil {
		return err
	}
	if len(v.set.jobs) == 0 {
		v.findings = append(v.findings, judge.Finding{Wrong: true, Text: "the package has no labelled submissions"})
		return nil
	}
	if v.set.problem.Limits.CPU == 0 {
		found, err := c.findLimit(ctx, env, j, v.set)
		if err != nil && atFault(ctx, err) {
			v.wrong("", err)
			return nil
		}
		if err != nil {
			return err
		}
		v.limit, v.set.problem.Limits.CPU = &found, found.Limit
	}
	records, err := newRecorder(c.Record, v.path)
	if err != nil {
		return err
	}
	bounded := map[int]judge.Run{}
	err = c.run(ctx, env, j, v.set, true, func(i int, r judge.Run) error {
		job := v.set.jobs[i]
		if r.Verdict == judge.Skipped {
			if !c.AllowSkipped {
				v.findings = append(v.findings, judge.Finding{Wrong: true, Where: r.Submission.Name, Text: "it cannot be judged here: " + r.Reason})
			}
		} else if err := records.write(judge.NewRecord(r, job.Submission, v.set.problem, records.pkg, judge.Options{Template: c.Template})); err != nil {
			return err
		}
		if len(job.Bounds) > 0 {
			bounded[i] = r
		}
		v.runs = append(v.runs, judged{job, summary(r), job.Expectation.Compare(r)})
		return nil
	})
	if err != nil {
		return err
	}
	return c.margins(ctx, env, j, v, bounded)
}

// inspect checks the package without its submissions.
func (c verifyCmd) inspect(ctx context.Context, env *Env, j *judge.Judge, v *verification) error {
	var trials []judge.Trial
	for _, p := range v.pkg.Proofs {
		trials = append(trials, judge.Trial{Kind: judge.TrialKind(p.Kind), Case: p.Case, Output: p.Output})
	}
	p := env.UI.Progress("check "+v.set.problem.ShortName, 0)
	found, err := j.Inspect(ctx, v.set.problem, trials, func(at judge.Inspection) {
		p.Stage(at.Doing)
		p.Set(int64(at.Done), int64(at.Total))
	})
	if err != nil && atFault(ctx, err) {
		v.wrong("", err)
		err = nil
	}
	if err == nil {
		p.Finish("done")
	}
	v.findings = append(v.findings, found...)
	return err
}

// margins holds the limit against those submissions that say something about it.
func (c verifyCmd) margins(ctx context.Context, env *Env, j *judge.Judge, v *verification, runs map[int]judge.Run) error {
	b := newBoard(env, "margins of "+v.set.problem.ShortName, v.set.jobs)
	b.total = 0 // Only some of them are run.
	found, err := j.MarginsOf(ctx, v.set.problem, v.set.jobs, runs, v.limit != nil, judge.Many{AtOnce: c.atOnce(), Observe: b.observe})
	v.findings = append(v.findings, found...)
	if err == nil {
		b.finish("")
	}
	return err
}

// ok reports whether nothing is wrong, with the numbers for a summary.
func (c verifyCmd) ok(v *verification) (ok bool, wrong, warnings, missed int) {
	for _, f := range v.findings {
		if f.Wrong {
			wrong++
		} else {
			warnings++
		}
	}
	for _, r := range v.runs {
		if !r.row.Met && r.run.Verdict != judge.Skipped {
			missed++
		}
	}
	return wrong == 0 && missed == 0 && (!c.Strict || warnings == 0), wrong, warnings, missed
}

// show prints what was found about one package.
func (c verifyCmd) show(env *Env, v *verification) {
	if v.pkg != nil {
		p := v.set.problem
		limit := "no time limit"
		if p.Limits.CPU > 0 {
			limit = "time limit " + p.Limits.CPU.String()
		}
		if v.limit != nil {
			limit += fmt.Sprintf(" (found: %s takes %.3f s)", oneLine(v.limit.By), v.limit.Slowest.Seconds())
		}
		env.UI.Printf("%s: %s, %d cases, %s\n", oneLine(p.ShortName), oneLine(p.Name), len(p.Cases), limit)
	}
	if len(v.findings) > 0 {
		rows := make([][]string, len(v.findings))
		for i, f := range v.findings {
			mark := env.UI.Warn("warning")
			if f.Wrong {
				mark = env.UI.Bad("WRONG")
			}
			rows[i] = []string{mark, oneLine(f.Where), oneLine(f.Text)}
		}
		env.UI.Table([]Column{Left("finding"), Left("where"), Left("what")}, rows)
	}
	if len(v.runs) > 0 {
		rows := make([]judge.Comparison, len(v.runs))
		for i, r := range v.runs {
			rows[i] = r.row
		}
		runTable(env, rows)
	}
	env.UI.Printf("%s\n\n", c.outcome(env, v))
}

// outcome is the one line about a package.
func (c verifyCmd) outcome(env *Env, v *verification) string {
	ok, wrong, warnings, missed := c.ok(v)
	mark := env.UI.Good("ok")
	if !ok {
		mark = env.UI.Bad("NOT OK")
	}
	return fmt.Sprintf("%s: %s: %d of %d labels met, %d wrong, %d warnings", oneLine(v.path), mark, len(v.runs)-missed, len(v.runs), wrong, warnings)
}

// conclude prints the summary of several packages, or the JSON of all, and
// gives errNegative when one is not ok.
func (c verifyCmd) conclude(env *Env, list []*verification) error {
	var outcome error
	out := make([]verifyJSON, len(list))
	suites := make([]suite, len(list))
	for i, v := range list {
		ok, _, _, _ := c.ok(v)
		if !ok {
			outcome = errNegative
		}
		p := v.set.problem
		out[i] = verifyJSON{
			Package: v.path, OK: ok, ShortName: p.ShortName, Name: p.Name, Version: p.Version, Cases: len(p.Cases),
			TimeLimitUS: p.Limits.CPU.Microseconds(), Findings: append([]judge.Finding{}, v.findings...), Submissions: []judge.Comparison{},
		}
		if v.limit != nil {
			out[i].FoundFrom = v.limit.By
		}
		for _, r := range v.runs {
			out[i].Submissions = append(out[i].Submissions, r.row)
		}
		suites[i] = suite{name: p.ShortName, runs: v.runs, findings: v.findings}
		if v.pkg == nil {
			suites[i].name = v.path
		}
	}
	if c.JUnit != "" {
		if err := writeJUnit(c.JUnit, suites); err != nil {
			return errors.Join(err, outcome)
		}
	}
	if env.JSON {
		if err := env.PrintJSON(out); err != nil {
			return err
		}
		return outcome
	}
	if len(list) > 1 {
		for _, v := range list {
			env.UI.Printf("%s\n", c.outcome(env, v))
		}
	}
	return outcome
}
