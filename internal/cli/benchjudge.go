package cli

import (
	"context"

	"assay/internal/app"
	"assay/internal/bench"
	"assay/internal/judge"
)

type benchJudgeCmd struct {
	N      int           `name:"n" default:"20" help:"How often each thing is measured."`
	Rounds int           `name:"rounds" default:"5" help:"How often each rate is measured."`
	Cases  int           `name:"cases" default:"40" help:"Cases of a submission whose rate is measured."`
	Jobs   positiveCount `name:"jobs" short:"j" placeholder:"N" help:"Submissions judged at once (default: one for each core)."`
	Peer   string        `name:"peer" placeholder:"URL" help:"A go-judge that runs the same programs, turn by turn."`
	Check  bool          `name:"check" help:"Exit with 1 when a target is missed."`
}

func (benchJudgeCmd) Help() string {
	return `Everything is measured in one run, turn by turn with what it is compared with: the host's g++, native runs of the same program, and a peer where one is given. Compare the ratios, not milliseconds of different runs.`
}

func (c benchJudgeCmd) Run(ctx context.Context, env *Env) error {
	flags := judgeFlags{Jobs: c.Jobs}
	needs := jobSet{jobs: []judge.Job{{Submission: judge.Submission{Language: bench.JudgeLanguage}}}}
	return flags.withJudge(ctx, env, judge.Options{}, []jobSet{needs}, func(j *judge.Judge) (err error) {
		names, err := flags.templates([]jobSet{needs})
		if err != nil {
			return err
		}
		pooled, err := app.OpenEngine(ctx, app.Config{DataDir: env.DataDir, Driver: env.Driver, Accel: env.Accel, Pool: 1})
		if err != nil {
			return err
		}
		defer func() { err = closeEngine(pooled, err) }()
		o := bench.JudgeOptions{
			N: max(c.N, 3), Rounds: max(c.Rounds, 1), Cases: max(c.Cases, 1), AtOnce: flags.atOnce(), Peer: c.Peer,
		}
		if o.Pooled, err = pooled.Judge(judge.Options{}); err != nil {
			return err
		}
		o.Full = func(ctx context.Context) error {
			for _, name := range names {
				t, err := pooled.Template(ctx, name, nil)
				if err != nil {
					return err
				}
				if err := pooled.Manager.WaitPool(ctx, t); err != nil {
					return err
				}
			}
			return nil
		}
		return c.measure(ctx, env, j, o)
	})
}

func (c benchJudgeCmd) measure(ctx context.Context, env *Env, j *judge.Judge, o bench.JudgeOptions) error {
	p := env.UI.Progress("bench", 0)
	o.Stage = p.Stage
	report, err := bench.Judge(ctx, j, o)
	if err != nil {
		return err
	}
	p.Finish("done")
	return showReport(env, report, c.Check)
}
