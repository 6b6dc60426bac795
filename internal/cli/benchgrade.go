package cli

import (
	"context"

	"assay/internal/bench"
	"assay/internal/course"
	"assay/internal/course/grading"
)

type benchGradeCmd struct {
	Submissions int           `name:"submissions" default:"20" help:"Submissions graded for one rate."`
	Rounds      int           `name:"rounds" default:"5" help:"How often each rate is measured."`
	Class       int           `name:"class" placeholder:"N" help:"Grade also a class of N in each mode: right, wrong, slow and hostile submissions."`
	Mode        []string      `name:"mode" enum:"call,io,pytest" default:"call,io,pytest" help:"Modes to measure: call, io, pytest (default: all)."`
	Jobs        positiveCount `name:"jobs" short:"j" placeholder:"N" help:"Submissions graded at once (default: one for each core)."`
	Check       bool          `name:"check" help:"Exit with 1 when a target is missed."`
}

func (benchGradeCmd) Help() string {
	return `Grades submissions of a small Python assignment with ten tests, from the files to the grade, with machines made for each. Every grade is checked: one that is not as it must be ends the benchmark.`
}

func (c benchGradeCmd) Run(ctx context.Context, env *Env) error {
	flags := gradeFlags{Jobs: c.Jobs}
	// It stands for the assignments of the benchmark, which need its template.
	none := &course.Assignment{Name: "bench", Mode: course.IO, Template: bench.GradeTemplate}
	return flags.withGrading(ctx, env, none, func(s *grading.Service) error {
		p := env.UI.Progress("bench", 0)
		var modes []course.Mode
		for _, m := range c.Mode {
			modes = append(modes, course.Mode(m))
		}
		report, err := bench.Grade(ctx, s, bench.GradeOptions{
			Modes:  modes,
			Rounds: max(c.Rounds, 1), Submissions: max(c.Submissions, 1), Class: max(c.Class, 0), AtOnce: flags.atOnce(), Stage: p.Stage,
		})
		if err != nil {
			return err
		}
		p.Finish("done")
		return showReport(env, report, c.Check)
	})
}
