package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"assay/internal/fault"
	"assay/internal/judge"
	"assay/internal/judge/problempkg"
)

type rejudgeCmd struct {
	Records []string      `arg:"" name:"record" help:"Records, as assay judge --record DIR writes them."`
	Package string        `name:"package" placeholder:"PACKAGE" help:"Where the problem package is now, if it was moved."`
	Force   bool          `name:"force" help:"Go on with another version of the problem."`
	Jobs    positiveCount `name:"jobs" short:"j" placeholder:"N" help:"Submissions judged at once (default: one for each core)."`
	Record  string        `name:"record" placeholder:"DIR" help:"Write a record of each new run into a folder."`
}

func (rejudgeCmd) Help() string {
	return `Judges again what is in the records, by the same version of the problem, the same limits and options, and says what is not as it was: the verdict, the machine, the driver, the host. Nothing is changed; the records stay as they are.

The exit code is 1 if a verdict or a score is another one.`
}

// rejudged is one record and the new run.
type rejudged struct {
	file   string
	record judge.Record
	run    judge.Run
}

// rejudgeJSON is one entry of "assay rejudge --json".
type rejudgeJSON struct {
	Record     string         `json:"record"`
	Submission string         `json:"submission"`
	Old        rejudgeOutcome `json:"old"`
	New        rejudgeOutcome `json:"new"`
	// Changed are differences in the outcome, Circumstances in what it rests on.
	Changed       []judge.Change `json:"changed"`
	Circumstances []judge.Change `json:"circumstances"`
}

type rejudgeOutcome struct {
	RunID   string        `json:"run_id"`
	Verdict judge.Verdict `json:"verdict"`
	Reason  string        `json:"reason,omitempty"`
	Score   *judge.Score  `json:"score,omitempty"`
	// TimeUS is CPU time in microseconds.
	TimeUS      int64 `json:"time_us"`
	MemoryBytes int64 `json:"memory_bytes"`
}

func (c rejudgeCmd) Run(ctx context.Context, env *Env) (err error) {
	list := make([]rejudged, len(c.Records))
	for i, file := range c.Records {
		rec, err := readRecord(file)
		if err != nil {
			return err
		}
		list[i] = rejudged{file: file, record: rec}
		if c.Package != "" {
			list[i].record.Package = c.Package
		}
	}
	packages := map[string]*problempkg.Package{}
	defer func() {
		for _, p := range packages {
			if closeErr := p.Close(); err == nil {
				err = closeErr
			}
		}
	}()
	var sets []jobSet
	var notes []string
	// Records that differ in nothing but the submission are judged side by side.
	batches := batch(list)
	for _, b := range batches {
		set, note, err := c.prepare(b, packages)
		if err != nil {
			return err
		}
		sets, notes = append(sets, set), append(notes, note...)
	}
	f := judgeFlags{Jobs: c.Jobs, Template: sameTemplate(list)}
	err = f.withJudge(ctx, env, judge.Options{}, sets, func(j *judge.Judge) error {
		for _, n := range notes {
			env.UI.Warnf("%s", n)
		}
		for k, b := range batches {
			if err := c.judge(ctx, env, f, j, sets[k], b); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return c.show(env, list)
}

func readRecord(file string) (judge.Record, error) {
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return judge.Record{}, fault.Errorf(fault.NotFound, "record %s does not exist", file)
	}
	if err != nil {
		return judge.Record{}, fault.Errorf(fault.Invalid, "record: %w", err)
	}
	rec, err := judge.ReadRecord(f)
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return judge.Record{}, fault.Errorf(fault.KindOf(err), "record %s: %w", file, err)
	}
	return rec, nil
}

// circumstance is what all records of a batch have in common.
type circumstance struct {
	pkg, template string
	limitUS       int64
	all           bool
}

func circumstanceOf(r judge.Record) circumstance {
	return circumstance{r.Package, r.Template, r.TimeLimitUS, r.AllCases}
}

// batch gives the records, in the order of their first, as they can be judged
// side by side.
func batch(list []rejudged) [][]*rejudged {
	var out [][]*rejudged
	at := map[circumstance]int{}
	for i := range list {
		k := circumstanceOf(list[i].record)
		n, ok := at[k]
		if !ok {
			n = len(out)
			at[k], out = n, append(out, nil)
		}
		out[n] = append(out[n], &list[i])
	}
	return out
}

// sameTemplate is the template that all records were judged in by wish.
func sameTemplate(list []rejudged) string {
	for _, r := range list[1:] {
		if r.record.Template != list[0].record.Template {
			return ""
		}
	}
	return list[0].record.Template
}

// prepare loads the package of a batch, if it is the version that is wanted.
// notes are for people.
func (c rejudgeCmd) prepare(b []*rejudged, packages map[string]*problempkg.Package) (set jobSet, notes []string, err error) {
	first := b[0].record
	pkg := packages[first.Package]
	if pkg == nil {
		if pkg, err = (problempkg.Options{TimeLimit: first.TimeLimit()}).Load(first.Package); err != nil {
			return set, nil, err
		}
		packages[first.Package] = pkg
	}
	set.problem = pkg.Problem
	for _, r := range b {
		if was := r.record.Run.Problem.Version; was != pkg.Problem.Version {
			text := fmt.Sprintf("record %s was made with version %s of the problem, %s has version %s", r.file, was, first.Package, pkg.Problem.Version)
			if !c.Force {
				return set, nil, fault.Errorf(fault.Conflict, "%s", text).
					WithHint("give the package as it was with --package, or go on with --force")
			}
			notes = append(notes, text)
		}
		set.jobs = append(set.jobs, judge.Job{Submission: r.record.Submission()})
	}
	switch given := pkg.Problem.Limits.CPU; {
	case pkg.Problem.Version == first.Run.Problem.Version || given == 0:
		// The same package: a limit that it leaves out was found then.
		set.problem.Limits.CPU = first.TimeLimit()
	case given != first.TimeLimit():
		notes = append(notes, fmt.Sprintf("the time limit is %s now, it was %s", given, first.TimeLimit()))
	}
	return set, notes, nil
}

func (c rejudgeCmd) judge(ctx context.Context, env *Env, f judgeFlags, j *judge.Judge, set jobSet, b []*rejudged) error {
	o := j.Options()
	o.AllCases, o.Template = b[0].record.AllCases, b[0].record.Template
	records, err := newRecorder(c.Record, b[0].record.Package)
	if err != nil {
		return err
	}
	return f.run(ctx, env, j.With(o), set, false, func(i int, r judge.Run) error {
		b[i].run = r
		return records.write(judge.NewRecord(r, set.jobs[i].Submission, set.problem, records.pkg, o))
	})
}

// show prints old and new beside each other; errNegative when one changed.
func (c rejudgeCmd) show(env *Env, list []rejudged) error {
	var outcome error
	out := make([]rejudgeJSON, len(list))
	rows := make([][]string, len(list))
	changed := 0
	for i, r := range list {
		old, next := r.record.Run, r.run
		out[i] = rejudgeJSON{
			Record: r.file, Submission: old.Submission.Name, Old: rejudgeOutcomeOf(old), New: rejudgeOutcomeOf(next),
			Changed: append([]judge.Change{}, old.Verdicts(next)...), Circumstances: append([]judge.Change{}, old.Circumstances(next)...),
		}
		mark := env.UI.Good("same")
		if len(out[i].Changed) > 0 {
			mark = env.UI.Bad("CHANGED")
			outcome = errNegative
			changed++
		}
		rows[i] = []string{
			oneLine(old.Submission.Name), string(old.Verdict), string(next.Verdict), mark, secondsCell(old.TimeUS), secondsCell(next.TimeUS),
			scoreCell(old.Score), scoreCell(next.Score), oneLine(next.Reason),
		}
	}
	if env.JSON {
		if err := env.PrintJSON(out); err != nil {
			return err
		}
		return outcome
	}
	env.UI.Table([]Column{
		Left("submission"), Left("old"), Left("new"), Left("outcome"), Right("old s"), Right("new s"), Right("old score"), Right("new score"), Left("reason"),
	}, rows)
	for _, o := range out {
		for _, d := range o.Changed {
			env.UI.Printf("%s: %s was %s, is %s\n", oneLine(o.Submission), oneLine(d.What), orNone(d.Old), orNone(d.New))
		}
	}
	showCircumstances(env, out)
	env.UI.Printf("%d of %d changed\n", changed, len(list))
	return outcome
}

// showCircumstances says each difference once, with how many runs have it.
func showCircumstances(env *Env, out []rejudgeJSON) {
	count := map[judge.Change]int{}
	var order []judge.Change
	for _, o := range out {
		for _, d := range o.Circumstances {
			if count[d] == 0 {
				order = append(order, d)
			}
			count[d]++
		}
	}
	for _, d := range order {
		env.UI.Printf("not as it was, for %d of %d: %s was %s, is %s\n", count[d], len(out), d.What, orNone(oneLine(d.Old)), orNone(oneLine(d.New)))
	}
}

func orNone(text string) string {
	if strings.TrimSpace(text) == "" {
		return "none"
	}
	return text
}

func rejudgeOutcomeOf(r judge.Run) rejudgeOutcome {
	return rejudgeOutcome{RunID: r.ID, Verdict: r.Verdict, Reason: r.Reason, Score: r.Score, TimeUS: r.TimeUS, MemoryBytes: r.MemoryBytes}
}
