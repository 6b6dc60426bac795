package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"assay/internal/course"
	"assay/internal/course/assignment"
	"assay/internal/course/class"
	"assay/internal/course/grading"
	"assay/internal/fault"
)

type regradeCmd struct {
	gradeFlags

	Out        string   `arg:"" help:"Folder that \"assay grade --out\" made."`
	Assignment string   `arg:"" help:"Folder of the assignment, as it is now."`
	Only       []string `name:"only" placeholder:"NAME" help:"Grade only this submission again; may be given often."`
	Course     string   `name:"course" placeholder:"COURSE" help:"Show and change the marks of a course, too."`
	Reason     string   `name:"reason" default:"graded again" help:"Why, for the history of the course."`
	Apply      bool     `name:"apply" help:"Replace the grades. Without it nothing is changed."`
	Release    string   `name:"release" enum:"now,due,published" default:"now" help:"What students may see in their reports."`
}

func (regradeCmd) Help() string {
	return `Grades the files that are kept in the folder again and says whose grade would change, by how much and why. Only --apply changes anything. Where the new grading fails on our side the old grade stays.

The exit code is 1 if grades differ and --apply was not given.`
}

func (c regradeCmd) Run(ctx context.Context, env *Env) (err error) {
	a, err := assignment.Load(c.Assignment)
	if err != nil {
		return err
	}
	folder, err := grading.OpenFolder(c.Out)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, folder.Close()) }()
	all, err := folder.All()
	if err != nil {
		return err
	}
	var old []course.Grade
	for _, g := range all {
		switch {
		case len(c.Only) > 0 && !slices.Contains(c.Only, g.Submission):
		case g.Cause == course.RefusedFiles:
			env.UI.Notef("%s was refused, so there are no files to grade again", g.Submission)
		default:
			old = append(old, g)
		}
	}
	if len(old) == 0 {
		return fault.Errorf(fault.NotFound, "%s holds no grades to look at again", c.Out).WithHint("make some with \"assay grade --out %s\"", c.Out)
	}
	entries := make([]grading.Entry, len(old))
	for i, g := range old {
		entries[i] = grading.Entry{ID: g.Submission, Open: func() (course.Submission, error) { return folder.Submission(g) }}
	}
	next, diffs := make([]course.Grade, len(old)), make([]course.Difference, len(old))
	err = c.withGrading(ctx, env, a, func(s *grading.Service) error {
		b := newGradeBoard(env, "grade "+a.Name+" again", entries)
		err := s.Run(ctx, a, grading.Class{Entries: entries, AtOnce: c.atOnce(), Began: b.began, Done: func(o grading.Outcome) error {
			next[o.Index], diffs[o.Index] = o.Grade, course.Compare(old[o.Index], o.Grade)
			b.done(o)
			return nil
		}})
		if err == nil {
			b.finish()
		}
		return err
	})
	if err != nil {
		return err
	}
	var plan class.RegradePlan
	if c.Course != "" {
		if plan, err = regradeInBook(ctx, env, c.Course, a, next, c.Apply, c.Reason); err != nil {
			return err
		}
	}
	if c.Apply {
		if err := c.apply(folder, a, all, next, diffs); err != nil {
			return err
		}
	}
	return c.show(env, diffs, plan)
}

// regradeJSON is "assay regrade --json --course".
type regradeJSON struct {
	Grades []course.Difference `json:"grades"`
	Course class.RegradePlan   `json:"course"`
}

// apply keeps the new grades, except where we failed.
func (c regradeCmd) apply(f *grading.Folder, a *course.Assignment, all, next []course.Grade, diffs []course.Difference) error {
	release := gradeCmd{Release: c.Release}.release()
	replaced := map[string]course.Grade{}
	for i, g := range next {
		if diffs[i].Failed {
			continue
		}
		sub, err := f.Submission(g)
		if err != nil {
			return err
		}
		if err := f.Put(g, sub); err != nil {
			return err
		}
		if err := writeStudent(f, a, g, release); err != nil {
			return err
		}
		replaced[g.Submission] = g
	}
	for i, g := range all {
		if n, ok := replaced[g.Submission]; ok {
			all[i] = n
		}
	}
	return writeClass(f, all, gradeRows(all, make([]bool, len(all))), release)
}

func (c regradeCmd) show(env *Env, diffs []course.Difference, plan class.RegradePlan) error {
	changed, failed := 0, 0
	var rows [][]string
	for _, d := range diffs {
		if d.Changed {
			changed++
		}
		if d.Failed {
			failed++
		}
		if d.Changed || d.Failed {
			rows = append(rows, []string{d.Submission, d.Old.String(), d.New.String(), d.New.Sub(d.Old).String(), strings.Join(d.Why, "; ")})
		}
	}
	switch {
	case env.JSON && c.Course != "":
		if err := env.PrintJSON(regradeJSON{diffs, plan}); err != nil {
			return err
		}
	case env.JSON:
		if err := env.PrintJSON(diffs); err != nil {
			return err
		}
	default:
		if len(plan.Marks) > 0 {
			var marks [][]string
			for _, m := range plan.Marks {
				marks = append(marks, []string{oneLine(m.Who), m.Before.String(), m.After.String()})
			}
			env.UI.Printf("marks in %s, with late penalties and adjustments:\n", c.Course)
			env.UI.Table([]Column{Left("who"), Right("old"), Right("new")}, marks)
			env.UI.Printf("\n")
		}
		if len(rows) > 0 {
			env.UI.Table([]Column{Left("submission"), Right("old"), Right("new"), Right("change"), Left("why")}, rows)
		}
		text := fmt.Sprintf("%d of %d grades differ", changed, len(diffs))
		switch {
		case c.Apply:
			text += "; the new ones are kept"
		case changed > 0:
			text += "; nothing was changed (--apply does)"
		}
		env.UI.Printf("%s\n", text)
	}
	if failed > 0 {
		env.UI.Warnf("%d could not be graded because of failures of ours; their old grades stay", failed)
	}
	if changed > 0 && !c.Apply {
		return errNegative
	}
	return nil
}
