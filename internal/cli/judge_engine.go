package cli

import (
	"context"
	"runtime"
	"slices"
	"time"

	"assay/internal/app"
	"assay/internal/judge"
	"assay/internal/judge/problempkg"
	"assay/internal/sandbox"
)

// judgeFlags are those of every command that judges.
type judgeFlags struct {
	Template string           `name:"template" short:"t" help:"Template to use in place of the language's own."`
	Time     positiveDuration `name:"time-limit" placeholder:"2s" help:"Time limit for a package that gives none."`
	Jobs     positiveCount    `name:"jobs" short:"j" placeholder:"N" help:"Submissions judged at once (default: one for each core)."`
}

func (f judgeFlags) atOnce() int {
	if f.Jobs > 0 {
		return int(f.Jobs)
	}
	return runtime.NumCPU()
}

// jobSet is a problem and the submissions to judge against it.
type jobSet struct {
	problem judge.Problem
	jobs    []judge.Job
	// labelled are those of the package, from which a time limit is found.
	labelled []judge.Job
}

func jobsOf(subs []problempkg.Labelled) []judge.Job {
	jobs := make([]judge.Job, len(subs))
	for i, s := range subs {
		jobs[i] = judge.Job{Submission: s.Submission, Expectation: s.Expectation}
		for _, b := range s.Bounds {
			jobs[i].Bounds = append(jobs[i].Bounds, judge.TimeBound(b))
		}
	}
	return jobs
}

// templates are those that judging the sets needs, each once.
func (f judgeFlags) templates(sets []jobSet) ([]string, error) {
	languages, err := judge.DefaultLanguages()
	if err != nil {
		return nil, err
	}
	var list []string
	if f.Template != "" {
		list = append(list, f.Template)
	}
	for _, set := range sets {
		var subs []judge.Submission
		if f.Template == "" {
			for _, j := range set.jobs {
				subs = append(subs, j.Submission)
			}
		}
		for _, name := range languages.Templates(set.problem, subs) {
			if !slices.Contains(list, name) {
				list = append(list, name)
			}
		}
	}
	return list, nil
}

// withJudge opens the engine with all templates that the sets need, built and
// warm, and calls do with a judge. Nothing may be printed before it.
func (f judgeFlags) withJudge(ctx context.Context, env *Env, o judge.Options, sets []jobSet, do func(*judge.Judge) error) (err error) {
	names, err := f.templates(sets)
	if err != nil {
		return err
	}
	if err := enterRoot(ctx, env, names...); err != nil {
		return err
	}
	e, err := app.OpenEngine(ctx, app.Config{DataDir: env.DataDir, Driver: env.Driver, Accel: env.Accel})
	if err != nil {
		return err
	}
	defer func() { err = closeEngine(e, err) }()
	for _, name := range names {
		if _, err := prepareShown(ctx, env, e, name); err != nil {
			return err
		}
	}
	j, err := e.Judge(o)
	if err != nil {
		return err
	}
	return do(j)
}

// warnEmulated says once what people must know of times.
func warnEmulated(env *Env, e *app.Engine, t sandbox.Template) {
	if !env.emulated && e.Manager.Emulated(t) {
		env.emulated = true
		env.UI.Warnf("%s", judge.EmulatedWarning)
	}
}

// mostTime is the time limit while another one is being found.
const mostTime = 60 * time.Second

// limit finds the time limit of a package that leaves it out, and says so.
func (f judgeFlags) limit(ctx context.Context, env *Env, j *judge.Judge, set *jobSet) error {
	if set.problem.Limits.CPU > 0 {
		return nil
	}
	found, err := f.findLimit(ctx, env, j, *set)
	if err != nil {
		return err
	}
	set.problem.Limits.CPU = found.Limit
	env.UI.Notef("the package gives no time limit: %s, found from %d submissions (%s takes %.3f s)",
		found.Limit, found.Used, found.By, found.Slowest.Seconds())
	return nil
}

func (f judgeFlags) findLimit(ctx context.Context, env *Env, j *judge.Judge, set jobSet) (judge.FoundLimit, error) {
	b := newBoard(env, "time limit of "+set.problem.ShortName, set.labelled)
	b.total = 0 // Only some of them are judged.
	found, err := j.FindLimit(ctx, set.problem, set.labelled, mostTime, judge.Many{AtOnce: f.atOnce(), Observe: b.observe})
	if err == nil {
		b.finish(found.Limit.String())
	}
	return found, err
}

// run judges a set side by side, with live progress. done gets the runs in order.
func (f judgeFlags) run(ctx context.Context, env *Env, j *judge.Judge, set jobSet, lenient bool, done func(int, judge.Run) error) error {
	b := newBoard(env, "judge "+set.problem.ShortName, set.jobs)
	err := j.RunMany(ctx, set.problem, set.jobs, judge.Many{
		AtOnce: f.atOnce(), Lenient: lenient, Observe: b.observe,
		Done: func(i int, r judge.Run) error {
			b.take(i, r.Verdict)
			return done(i, r)
		},
	})
	if err == nil {
		b.finish(b.tally())
	}
	return err
}
