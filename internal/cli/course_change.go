package cli

import (
	"context"
	"slices"
	"strings"

	"assay/internal/app"
	"assay/internal/course"
	"assay/internal/course/class"
	"assay/internal/fault"
	"assay/internal/judge"
)

type courseGroupCmd struct {
	Course     string   `arg:"" help:"Course."`
	Assignment string   `arg:"" help:"Assignment."`
	Group      string   `arg:"" optional:"" help:"Group to put people into; without it groups are shown."`
	Who        []string `arg:"" optional:"" help:"Student IDs, e-mail addresses or names."`
	From       string   `name:"from" placeholder:"FILE" help:"Take groups from a CSV file with a column group and one of email, student id, login."`
	Leave      []string `name:"leave" placeholder:"WHO" help:"Take a person out of any group. May be given more than once."`
}

func (courseGroupCmd) Help() string {
	return `What one of a group hands in counts for all of it, and the limit of attempts is the group's. A person is in one group of an assignment only; to move somebody, take the person out first.`
}

func (c courseGroupCmd) Run(ctx context.Context, env *Env) error {
	lines := []class.GroupLine{}
	switch {
	case c.Group != "" && len(c.Who) == 0:
		return fault.Errorf(fault.Invalid, "nobody is named for the group %q", c.Group).WithHint("name student IDs or e-mail addresses after it")
	case c.From != "" && c.Group != "":
		return fault.Errorf(fault.Invalid, "--from takes the groups from the file: name none")
	}
	for _, w := range c.Who {
		lines = append(lines, class.GroupLine{Who: w, Group: c.Group})
	}
	if c.From != "" {
		data, err := readInput(c.From, class.MaxTableBytes)
		if err != nil {
			return err
		}
		if lines, err = class.ReadGroups(c.From, data); err != nil {
			return err
		}
	}
	return withCourses(ctx, env, func(book *app.Courses) error {
		if len(c.Leave) > 0 {
			if err := book.LeaveGroup(ctx, c.Course, c.Assignment, c.Leave); err != nil {
				return err
			}
		}
		if len(lines) > 0 {
			if err := book.SetGroups(ctx, c.Course, c.Assignment, lines); err != nil {
				return err
			}
		}
		groups, err := book.Groups(ctx, c.Course, c.Assignment)
		if err != nil {
			return err
		}
		if env.JSON {
			return env.PrintJSON(groups)
		}
		if len(groups) == 0 {
			env.UI.Notef("%s has no groups", c.Assignment)
			return nil
		}
		var rows [][]string
		for _, g := range groups {
			var names []string
			for _, p := range g.People {
				names = append(names, oneLine(p.Label()))
			}
			rows = append(rows, []string{g.Name, strings.Join(names, ", ")})
		}
		env.UI.Table([]Column{Left("group"), Left("people")}, rows)
		return nil
	})
}

type courseExtendCmd struct {
	Course     string           `arg:"" help:"Course."`
	Assignment string           `arg:"" help:"Assignment."`
	Who        string           `arg:"" help:"Student ID, e-mail address or name; with --group a group."`
	Due        course.LocalTime `name:"due" placeholder:"TIME" help:"New due time on the course's clocks, as in 2026-03-29T23:59."`
	Days       int              `name:"days" placeholder:"N" help:"Days after the assignment's own due time."`
	Reason     string           `name:"reason" required:"" placeholder:"TEXT" help:"Why; it stays in the history."`
	Group      bool             `name:"group" help:"WHO is a group of the assignment."`
}

func (courseExtendCmd) Help() string {
	return `The last extension given is the one that holds. Late days are counted from the new due time, and the time of closing moves by as much. If the person's group has more time than the person, that counts.`
}

func (c courseExtendCmd) Run(ctx context.Context, env *Env) error {
	return withCourses(ctx, env, func(book *app.Courses) error {
		e := class.Extension{Assignment: c.Assignment, Due: c.Due, Days: c.Days, Note: class.Note{By: actor(), Reason: c.Reason}}
		if c.Group {
			e.Group = c.Who
		}
		e, err := book.Extend(ctx, c.Course, c.Who, e)
		if err != nil {
			return err
		}
		until := course.Days(e.Days) + " more"
		if e.Days == 0 {
			until = "until " + e.Due.String()
		}
		return env.done(e, "%s: %s for %s (%s)", e.Assignment, until, c.Who, e.ID)
	})
}

type courseAdjustCmd struct {
	Course     string      `arg:"" help:"Course."`
	Assignment string      `arg:"" help:"Assignment."`
	Who        string      `arg:"" help:"Student ID, e-mail address, name, or pseudonym."`
	Add        *pointsFlag `name:"add" xor:"how" placeholder:"N" help:"Points to add; --add=-2 takes two away."`
	Set        *pointsFlag `name:"set" xor:"how" placeholder:"N" help:"Points that the mark becomes."`
	Reason     string      `name:"reason" required:"" placeholder:"TEXT" help:"Why; it stays in the history."`
}

func (courseAdjustCmd) Help() string {
	return `Adjustments are applied after the penalty for late work, in the order in which they were made; a mark never falls below zero. None is ever deleted: "assay course revoke" takes one back, and the history shows both.`
}

func (c courseAdjustCmd) Run(ctx context.Context, env *Env) error {
	adj := class.Adjustment{Assignment: c.Assignment, Note: class.Note{By: actor(), Reason: c.Reason}}
	switch {
	case c.Add != nil:
		adj.Points = judge.Score(*c.Add)
	case c.Set != nil:
		adj.Set, adj.Points = true, judge.Score(*c.Set)
	default:
		return fault.Errorf(fault.Invalid, "no points are given").WithHint("say --add N or --set N")
	}
	return withCourses(ctx, env, func(book *app.Courses) error {
		adj, err := book.Adjust(ctx, c.Course, c.Who, adj)
		if err != nil {
			return err
		}
		return env.done(adj, "%s of %s: %s points (%s)", adj.Assignment, c.Who, adj.Change(), adj.ID)
	})
}

type courseRevokeCmd struct {
	Course string `arg:"" help:"Course."`
	ID     string `arg:"" name:"id" help:"Extension or adjustment, as the history names it."`
	Reason string `name:"reason" required:"" placeholder:"TEXT" help:"Why; it stays in the history."`
}

func (c courseRevokeCmd) Run(ctx context.Context, env *Env) error {
	return withCourses(ctx, env, func(book *app.Courses) error {
		if err := book.Revoke(ctx, c.Course, c.ID, class.Note{By: actor(), Reason: c.Reason}); err != nil {
			return err
		}
		return env.done(struct {
			Revoked string `json:"revoked"`
		}{c.ID}, "revoked %s", c.ID)
	})
}

type coursePublishCmd struct {
	Course     string `arg:"" help:"Course."`
	Assignment string `arg:"" help:"Assignment."`
}

func (c coursePublishCmd) Run(ctx context.Context, env *Env) error {
	return withCourses(ctx, env, func(book *app.Courses) error {
		if err := book.Publish(ctx, c.Course, c.Assignment); err != nil {
			return err
		}
		return env.done(struct {
			Published string `json:"published"`
		}{c.Assignment}, "published %s", c.Assignment)
	})
}

type courseHistoryCmd struct {
	Course     string `arg:"" help:"Course."`
	Who        string `arg:"" help:"Student ID, e-mail address, name, or pseudonym."`
	Assignment string `arg:"" optional:"" help:"Assignment (default: all)."`
}

func (courseHistoryCmd) Help() string {
	return `Shows attempts, gradings, extensions, adjustments and what was revoked, with who, when and why. The IDs of extensions and adjustments are those that "assay course revoke" takes. An assignment that is marked without names is shown by pseudonym only.`
}

func (c courseHistoryCmd) Run(ctx context.Context, env *Env) error {
	return withCourses(ctx, env, func(book *app.Courses) error {
		person, events, err := book.History(ctx, c.Course, c.Assignment, c.Who)
		if err != nil {
			return err
		}
		if env.JSON {
			return env.PrintJSON(struct {
				Person class.Person  `json:"person"`
				Events []class.Event `json:"events"`
			}{person, events})
		}
		if len(events) == 0 {
			env.UI.Notef("nothing has happened to the marks of %s", oneLine(person.Label()))
			return nil
		}
		var rows [][]string
		for _, e := range events {
			why := oneLine(e.By)
			if e.Reason != "" {
				why = strings.TrimPrefix(why+": "+oneLine(e.Reason), ": ")
			}
			at := "(unknown)"
			if !e.At.IsZero() {
				at = e.At.UTC().Format("2006-01-02 15:04:05Z")
			}
			rows = append(rows, []string{at, e.Assignment, e.Kind, oneLine(e.Text), why, e.ID})
		}
		columns := []Column{Left("when"), Left("assignment"), Left("what"), Left(""), Left("who and why"), Left("id")}
		if c.Assignment != "" {
			columns = slices.Delete(columns, 1, 2)
			for i := range rows {
				rows[i] = slices.Delete(rows[i], 1, 2)
			}
		}
		env.UI.Table(columns, rows)
		return nil
	})
}
