package cli

import (
	"context"
	"fmt"

	"assay/internal/app"
	"assay/internal/bench"
)

type benchCmd struct {
	Sandbox   benchSandboxCmd   `cmd:"" help:"Measure create, exec, snapshot, fork, memory and computing speed."`
	Judge     benchJudgeCmd     `cmd:"" help:"Measure submit to verdict, compiling, what a case costs and cases in a second."`
	Grade     benchGradeCmd     `cmd:"" help:"Measure how many submissions are graded in a second, in each mode."`
	Server    benchServerCmd    `cmd:"" help:"Measure a server: its memory, reads of many clients, events to many listeners."`
	Stability benchStabilityCmd `cmd:"" help:"Judge the same submissions again and again and list what changed."`
}

type benchSandboxCmd struct {
	Template string `name:"template" short:"t" default:"base" help:"Template to measure."`
	N        int    `name:"n" default:"30" help:"How often each thing is measured."`
	Check    bool   `name:"check" help:"Exit with 1 when a target is missed."`
}

func (benchSandboxCmd) Help() string {
	return `Every time is also given in units: the cost of a native fork and exec of /bin/true, measured in the same run. Compare units, not milliseconds.`
}

func (c benchSandboxCmd) Run(ctx context.Context, env *Env) (err error) {
	if err := enterRoot(ctx, env, c.Template); err != nil {
		return err
	}
	bare, t, err := openWith(ctx, env, c.Template)
	if err != nil {
		return err
	}
	defer func() { err = closeEngine(bare, err) }()
	pooled, err := app.OpenEngine(ctx, app.Config{DataDir: env.DataDir, Driver: env.Driver, Accel: env.Accel, Pool: 1})
	if err != nil {
		return err
	}
	defer func() { err = closeEngine(pooled, err) }()
	p := env.UI.Progress("bench", 0)
	report, err := bench.Sandbox(ctx, pooled.Manager, bare.Manager, t, bench.Options{N: max(c.N, 3), Stage: p.Stage})
	if err != nil {
		return err
	}
	p.Finish("done")
	return showReport(env, report, c.Check)
}

// showReport prints a report; with check a missed target is errNegative.
func showReport(env *Env, report bench.Report, check bool) (err error) {
	if env.JSON {
		err = env.PrintJSON(report)
	} else {
		benchTable(env, report)
	}
	for _, r := range report.Rows {
		if check && err == nil && !r.Met() {
			err = errNegative
		}
	}
	return err
}

// benchTable shows a report to people.
func benchTable(env *Env, report bench.Report) {
	rows := [][]string{}
	for _, r := range report.Rows {
		rows = append(rows, []string{
			r.Name, fmt.Sprint(r.N), measured(r.P50, r.Unit), measured(r.P95, r.Unit), measured(r.P99, r.Unit),
			blankZero("%.1f", r.Units), target(r), outcome(env.UI, r),
		})
	}
	env.UI.Table([]Column{
		Left("what"), Right("n"), Right("p50"), Right("p95"), Right("p99"), Right("units"), Right("target"), Left(""),
	}, rows)
	env.UI.Printf("one unit is %.2f ms: a native fork and exec of /bin/true\n", report.UnitUS/1e3)
	if report.UnitSpread > 1.2 {
		env.UI.Warnf("the unit changed by a factor of %.2f during the run: this host is not calm", report.UnitSpread)
	}
}

func measured(v float64, unit string) string {
	switch unit {
	case "us":
		return fmt.Sprintf("%.1f ms", v/1e3)
	case "bytes":
		return fmt.Sprintf("%.1f MiB", v/(1<<20))
	case "rate":
		return fmt.Sprintf("%.1f /s", v)
	default:
		return fmt.Sprintf("%.3f", v)
	}
}

func blankZero(format string, v float64) string {
	if v == 0 {
		return ""
	}
	return fmt.Sprintf(format, v)
}

func target(r bench.Row) string {
	switch {
	case r.Target == 0:
		return ""
	case r.AtLeast:
		return "at least " + measured(r.Target, r.Unit)
	case r.Units > 0:
		return fmt.Sprintf("%g", r.Target)
	default:
		return measured(r.Target, r.Unit)
	}
}

func outcome(ui *UI, r bench.Row) string {
	switch {
	case r.Target == 0:
		return ""
	case r.Met():
		return ui.Good("ok")
	default:
		return ui.Warn("missed")
	}
}
