package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"assay/internal/bench"
	"assay/internal/judge"
)

type benchStabilityCmd struct {
	Submissions int           `name:"submissions" default:"200" help:"How many submissions are made."`
	Times       int           `name:"times" default:"5" help:"How often each one is judged."`
	Jobs        positiveCount `name:"jobs" short:"j" placeholder:"N" help:"Submissions judged at once (default: one for each core)."`
}

func (benchStabilityCmd) Help() string {
	return `Makes submissions whose verdict is known (accepted at several times, wrong, crashing, too slow, too large), judges each of them several times side by side, and lists every verdict that changed. Exit code 1 when one changed or is not the known one.`
}

func (c benchStabilityCmd) Run(ctx context.Context, env *Env) error {
	flags := judgeFlags{Jobs: c.Jobs}
	var needs jobSet
	for _, id := range bench.StabilityLanguages {
		needs.jobs = append(needs.jobs, judge.Job{Submission: judge.Submission{Language: id}})
	}
	return flags.withJudge(ctx, env, judge.Options{}, []jobSet{needs}, func(j *judge.Judge) error {
		p := env.UI.Progress("stability", 0)
		report, err := bench.Stability(ctx, j, bench.StabilityOptions{
			Submissions: max(c.Submissions, 1), Times: max(c.Times, 2), AtOnce: flags.atOnce(), Stage: p.Stage, Step: p.Set,
		})
		if err != nil {
			return err
		}
		p.Finish(fmt.Sprintf("%d verdicts changed", len(report.Changed)))
		if env.JSON {
			err = env.PrintJSON(report)
		} else {
			c.tables(env, report)
		}
		if err == nil && len(report.Changed)+len(report.Unexpected) > 0 {
			err = errNegative
		}
		return err
	})
}

func (benchStabilityCmd) tables(env *Env, report bench.StabilityReport) {
	rows := [][]string{}
	for _, k := range report.Kinds {
		var got []string
		for _, v := range slices.Sorted(maps.Keys(k.Verdicts)) {
			got = append(got, fmt.Sprintf("%d %s", k.Verdicts[v], v))
		}
		rows = append(rows, []string{k.Kind, k.Language, fmt.Sprint(k.Submissions), string(k.Want), strings.Join(got, ", ")})
	}
	env.UI.Table([]Column{Left("kind"), Left("language"), Right("n"), Left("known"), Left("judged")}, rows)
	for _, list := range []struct {
		word string
		of   []bench.Judged
	}{{"changed", report.Changed}, {"not the known one", report.Unexpected}} {
		for _, one := range list.of {
			env.UI.Printf("%s: %s, known %s\n", env.UI.Bad(list.word), one.Submission, one.Want)
			for i, v := range one.Verdicts {
				env.UI.Printf("  %s, %s %s\n", v, measured(one.TimesUS[i], "us"), one.Reasons[i])
			}
		}
	}
	env.UI.Printf("\n%d submissions judged %d times, %d at once: %d verdicts changed, %d are not the known one; %d runs repeated as disturbed, %d at the knife edge\n",
		report.Submissions, report.Times, report.AtOnce, len(report.Changed), len(report.Unexpected), report.Repeated, report.KnifeEdge)
	for _, s := range report.Spread {
		line := fmt.Sprintf("%s, programs of %s: p99/p50 %.3f (%d runs of %d submissions, worst submission %.3f)",
			s.Language, measured(s.P50US, "us"), s.P99, s.Runs, s.Submissions, s.Worst)
		if s.NativeRuns > 0 {
			line += fmt.Sprintf("; without a machine %.3f (%d runs)", s.NativeP99, s.NativeRuns)
		}
		env.UI.Printf("%s\n", line)
	}
}
