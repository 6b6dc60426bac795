package cli

import (
	"context"
	"fmt"
	"path/filepath"

	"assay/internal/bench"
	"assay/internal/judge"
)

type calibrateCmd struct {
	Template string `name:"template" short:"t" default:"base" help:"Template to measure in."`
	N        int    `name:"n" default:"20" help:"How often each thing is measured."`
}

func (calibrateCmd) Help() string {
	return `Measures how much the times of equal runs differ here, alone and on all processors at once, and says what limits are safe. Nothing else should run meanwhile. The result is kept in the data directory, in judge/calibration.json, with the host's fingerprint.`
}

func (c calibrateCmd) Run(ctx context.Context, env *Env) (err error) {
	if err := enterRoot(ctx, env, c.Template); err != nil {
		return err
	}
	e, t, err := openWith(ctx, env, c.Template)
	if err != nil {
		return err
	}
	defer func() { err = closeEngine(e, err) }()
	j, err := e.Judge(judge.Options{})
	if err != nil {
		return err
	}
	p := env.UI.Progress("calibrate", 0)
	found, err := bench.Calibrate(ctx, e.Manager, t, j.Options().Host, bench.CalibrateOptions{N: max(c.N, 2), Stage: p.Stage, Step: p.Set})
	if err != nil {
		return err
	}
	p.Finish("done")
	file := filepath.Join(env.DataDir, "judge", "calibration.json")
	if err := found.Save(file); err != nil {
		return err
	}
	if env.JSON {
		return env.PrintJSON(found)
	}
	c.table(env, found)
	env.UI.Notef("kept in %s", file)
	return nil
}

func (calibrateCmd) table(env *Env, found bench.Calibration) {
	rows := [][]string{}
	add := func(name, where string, t bench.Times, together, native float64) {
		disturbed := ""
		if where != "native" {
			disturbed = fmt.Sprintf("%.0f %%", 100*float64(t.Disturbed)/float64(max(t.N, 1)))
		}
		rows = append(rows, []string{
			name, where, fmt.Sprint(t.N), measured(t.P50US, "us"), fmt.Sprintf("%.3f", t.Spread),
			blankZero("%.3f", together), blankZero("%.3f", native), disturbed,
		})
	}
	for _, p := range found.Programs {
		add(p.Name+", alone", "machine", p.Inside.Alone, 0, p.Ratio)
		add(p.Name+", all at once", "machine", p.Inside.Together, p.Inside.Ratio, 0)
		if p.Native != nil {
			add(p.Name+", alone", "native", p.Native.Alone, 0, 0)
			add(p.Name+", all at once", "native", p.Native.Together, p.Native.Ratio, 0)
		}
	}
	env.UI.Table([]Column{
		Left("program"), Left("where"), Right("n"), Right("p50"), Right("p99/p50"), Right("together/alone"), Right("machine/native"), Right("disturbed"),
	}, rows)
	a := found.Advice
	env.UI.Printf("\na run costs %.2f ms by itself: time limits of %d ms and more make sense\n", found.FixedUS/1e3, a.MinLimitUS/1000)
	env.UI.Printf("a time limit is safe at %.2f times the slowest accepted solution, measured alone\n", a.Margin)
	env.UI.Printf("submissions to judge at once: %d\n", a.AtOnce)
	for _, w := range a.Warnings {
		env.UI.Warnf("%s", w.Text)
		env.UI.Hintf("%s", w.Remedy)
	}
	if len(found.Programs) > 0 && found.Programs[0].Native == nil {
		env.UI.Hintf("with gcc on this host (apt-get install gcc) the machines are compared with native runs too")
	}
}
