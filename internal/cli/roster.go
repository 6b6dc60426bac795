package cli

import (
	"context"
	"fmt"
	"strings"

	"assay/internal/app"
	"assay/internal/course/class"
)

type rosterCmd struct {
	Import rosterImportCmd `cmd:"" help:"Make the roster what a CSV file says, after a preview."`
	Show   rosterShowCmd   `cmd:"" help:"Show the people of a course."`
}

type rosterImportCmd struct {
	Course string `arg:"" help:"Course."`
	File   string `arg:"" help:"CSV file."`
	Yes    bool   `name:"yes" short:"y" help:"Import without asking."`
}

func (rosterImportCmd) Help() string {
	return `The first line names the columns, in any order: one of email, student id, login; also name (or first name and last name), section, role. Gradebooks and rosters of Canvas, Moodle and Gradescope and the users.csv and enrollments.csv of a student information system are known by their columns. Comma, semicolon and tab, UTF-8, UTF-16 and Latin-1 are understood.

It is all or nothing: if one line cannot be used, nothing is changed. Who is not in the file leaves the roster; what was handed in stays, and comes back with the person. What the file has no column for stays as it is.

With --json and without --yes it only shows what would change.`
}

// rosterImportJSON is the result of "assay roster import --json".
type rosterImportJSON struct {
	class.RosterPlan
	Applied bool `json:"applied"`
}

func (c rosterImportCmd) Run(ctx context.Context, env *Env) error {
	data, err := readInput(c.File, class.MaxTableBytes)
	if err != nil {
		return err
	}
	roster, err := class.ReadRoster(c.File, data)
	if err != nil {
		return err
	}
	return withCourses(ctx, env, func(book *app.Courses) error {
		plan, err := book.PlanRoster(ctx, c.Course, roster)
		if err != nil {
			return err
		}
		apply := c.Yes
		if !env.JSON {
			showRosterPlan(env, plan)
			if !plan.Empty() && !c.Yes {
				if apply, err = env.confirm(fmt.Sprintf("import this into %s?", c.Course)); err != nil {
					return err
				}
				if !apply {
					return nothingChanged(env)
				}
			}
		}
		if apply && !plan.Empty() {
			if err := book.ImportRoster(ctx, c.Course, roster, plan); err != nil {
				return err
			}
			env.UI.Notef("imported into %s", c.Course)
		}
		if env.JSON {
			return env.PrintJSON(rosterImportJSON{plan, apply})
		}
		return nil
	})
}

func showRosterPlan(env *Env, plan class.RosterPlan) {
	for _, n := range plan.Notes {
		env.UI.Warnf("%s", oneLine(n))
	}
	var rows [][]string
	row := func(what string, p class.Person, text string) {
		rows = append(rows, []string{what, oneLine(p.Label()), oneLine(p.StudentID), oneLine(p.Email), oneLine(text)})
	}
	for _, p := range plan.Added {
		row(env.UI.Good("added"), p, strings.TrimSuffix(string(p.Role)+", "+p.Section, ", "))
	}
	for _, p := range plan.Changed {
		row(env.UI.Warn("changed"), p.After, strings.Join(p.Fields(), "; "))
	}
	for _, p := range plan.Removed {
		row(env.UI.Bad("removed"), p, "")
	}
	if len(rows) > 0 {
		env.UI.Table([]Column{Left(""), Left("name"), Left("student id"), Left("email"), Left("what")}, rows)
		env.UI.Printf("\n")
	}
	env.UI.Printf("%s: %d added, %d changed, %d removed, %d unchanged\n", plan.Format, len(plan.Added), len(plan.Changed), len(plan.Removed), plan.Unchanged)
}

type rosterShowCmd struct {
	Course string `arg:"" help:"Course."`
	All    bool   `name:"all" help:"Show those too who have left the roster."`
}

func (c rosterShowCmd) Run(ctx context.Context, env *Env) error {
	return withCourses(ctx, env, func(book *app.Courses) error {
		s, err := book.State(ctx, c.Course)
		if err != nil {
			return err
		}
		people := []class.Person{}
		for _, p := range s.People {
			if c.All || p.Removed.IsZero() {
				people = append(people, p)
			}
		}
		class.SortPeople(people)
		if env.JSON {
			return env.PrintJSON(people)
		}
		if len(people) == 0 {
			env.UI.Notef("the roster of %s is empty", c.Course)
			return nil
		}
		var rows [][]string
		for _, p := range people {
			state := string(p.Role)
			if !p.Removed.IsZero() {
				state += ", left"
			}
			rows = append(rows, []string{oneLine(p.Name), oneLine(p.StudentID), oneLine(p.Email), oneLine(p.Section), state})
		}
		env.UI.Table([]Column{Left("name"), Left("student id"), Left("email"), Left("section"), Left("role")}, rows)
		return nil
	})
}
