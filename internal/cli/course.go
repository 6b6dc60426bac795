package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"strings"
	"time"

	"assay/internal/app"
	"assay/internal/course"
	"assay/internal/course/class"
	"assay/internal/fault"
	"assay/internal/judge"
)

type courseCmd struct {
	New        courseNewCmd        `cmd:"" help:"Make a course."`
	List       courseListCmd       `cmd:"" aliases:"ls" help:"List courses."`
	Show       courseShowCmd       `cmd:"" help:"Show a course and its assignments."`
	Rm         courseRmCmd         `cmd:"" help:"Remove a course with all its marks."`
	Assignment courseAssignmentCmd `cmd:"" help:"Set points and rules of an assignment, or make one that is marked by hand."`
	Group      courseGroupCmd      `cmd:"" help:"Show or set who works together."`
	Extend     courseExtendCmd     `cmd:"" help:"Give a person or a group more time."`
	Adjust     courseAdjustCmd     `cmd:"" help:"Change a mark by hand."`
	Revoke     courseRevokeCmd     `cmd:"" help:"Take back an extension or an adjustment."`
	History    courseHistoryCmd    `cmd:"" help:"Show how a person's marks came about."`
	Publish    coursePublishCmd    `cmd:"" help:"Publish the marks of an assignment, and the names of anonymous ones."`
}

// withCourses opens the courses of the data directory for one command.
func withCourses(ctx context.Context, env *Env, fn func(*app.Courses) error) error {
	courses, err := app.OpenCourses(ctx, env.DataDir)
	if err != nil {
		return err
	}
	err = fn(courses)
	if closeErr := courses.Close(); err == nil && closeErr != nil {
		err = fmt.Errorf("close courses: %w", closeErr)
	}
	return err
}

// actor is who runs the command, for histories.
func actor() string {
	if u, err := user.Current(); err == nil && u.Username != "" {
		return "user:" + u.Username
	}
	return fmt.Sprintf("uid:%d", os.Getuid())
}

// confirm asks on stderr and reads an answer; no answer is no.
func (e *Env) confirm(question string) (bool, error) {
	e.UI.ask("assay: " + question + " [y/N] ")
	line, err := bufio.NewReader(stdinOf(e)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return false, fmt.Errorf("read answer: %w", err)
	}
	switch strings.ToLower(strings.TrimSpace(line)) {
	case "y", "yes":
		return true, nil
	}
	return false, nil
}

type courseNewCmd struct {
	Course string `arg:"" help:"Short name: small letters, digits and . _ -, for example algorithms-2026."`
	Zone   string `name:"zone" required:"" placeholder:"ZONE" help:"Time zone in which work is due, for example Europe/Warsaw."`
	Title  string `name:"title" placeholder:"TITLE" help:"What people call it (default: the short name)."`
}

func (c courseNewCmd) Run(ctx context.Context, env *Env) error {
	return withCourses(ctx, env, func(book *app.Courses) error {
		made, err := book.NewCourse(ctx, class.Course{ID: c.Course, Title: c.Title, Zone: c.Zone})
		if err != nil {
			return err
		}
		if env.JSON {
			return env.PrintJSON(made)
		}
		env.UI.Printf("%s\n", made.ID)
		env.UI.Hintf("bring in its people with \"assay roster import %s FILE.csv\"", made.ID)
		return nil
	})
}

type courseListCmd struct{}

func (courseListCmd) Run(ctx context.Context, env *Env) error {
	return withCourses(ctx, env, func(book *app.Courses) error {
		list, err := book.Courses(ctx)
		if err != nil {
			return err
		}
		if env.JSON {
			return env.PrintJSON(append([]class.Course{}, list...))
		}
		if len(list) == 0 {
			env.UI.Notef("there are no courses")
			return nil
		}
		var rows [][]string
		for _, c := range list {
			rows = append(rows, []string{c.ID, oneLine(c.Title), c.Zone, c.Created.Format(time.DateOnly)})
		}
		env.UI.Table([]Column{Left("course"), Left("title"), Left("zone"), Left("made")}, rows)
		return nil
	})
}

type courseShowCmd struct {
	Course string `arg:"" help:"Course."`
}

// courseJSON is the result of "assay course show --json".
type courseJSON struct {
	class.Course
	Students    int                    `json:"students"`
	Staff       int                    `json:"staff"`
	Assignments []courseAssignmentJSON `json:"assignments"`
}

type courseAssignmentJSON struct {
	class.Assignment
	Attempts int `json:"attempts_received"`
}

func (c courseShowCmd) Run(ctx context.Context, env *Env) error {
	return withCourses(ctx, env, func(book *app.Courses) error {
		s, err := book.State(ctx, c.Course)
		if err != nil {
			return err
		}
		out := courseJSON{Course: s.Course, Assignments: []courseAssignmentJSON{}}
		for _, p := range s.People {
			switch {
			case !p.Removed.IsZero():
			case p.Role == class.Staff:
				out.Staff++
			default:
				out.Students++
			}
		}
		for _, a := range s.Assignments {
			entry := courseAssignmentJSON{Assignment: a}
			for _, at := range s.Attempts {
				if at.Assignment == a.Name {
					entry.Attempts++
				}
			}
			out.Assignments = append(out.Assignments, entry)
		}
		if env.JSON {
			return env.PrintJSON(out)
		}
		out.print(env)
		return nil
	})
}

func (c courseJSON) print(env *Env) {
	env.UI.Printf("%s  %s\n%s; %d students, %d staff\n", c.ID, oneLine(c.Title), c.Zone, c.Students, c.Staff)
	if len(c.Assignments) == 0 {
		return
	}
	var rows [][]string
	for _, a := range c.Assignments {
		state := "open"
		switch {
		case !a.Published.IsZero():
			state = "published"
		case a.Anonymous:
			state = "anonymous"
		}
		late := ""
		if !a.Due.IsZero() || !a.Late.Close.IsZero() {
			late = a.Late.String()
		}
		rows = append(rows, []string{a.Name, oneLine(a.Title), a.Points.String(), a.Due.String(), late, fmt.Sprint(a.Attempts), state})
	}
	env.UI.Printf("\n")
	env.UI.Table([]Column{Left("assignment"), Left("title"), Right("points"), Left("due"), Left("late"), Right("attempts"), Left("state")}, rows)
}

type courseRmCmd struct {
	Course string `arg:"" help:"Course."`
	Yes    bool   `name:"yes" short:"y" help:"Do not ask."`
}

func (c courseRmCmd) Run(ctx context.Context, env *Env) error {
	return withCourses(ctx, env, func(book *app.Courses) error {
		s, err := book.State(ctx, c.Course)
		if err != nil {
			return err
		}
		if !c.Yes {
			ok, err := env.confirm(fmt.Sprintf("remove %s with %d people, %d attempts and all marks for ever?", c.Course, len(s.People), len(s.Attempts)))
			if err != nil {
				return err
			}
			if !ok {
				return nothingChanged(env)
			}
		}
		if err := book.RemoveCourse(ctx, c.Course); err != nil {
			return err
		}
		return env.done(struct {
			Removed string `json:"removed"`
		}{c.Course}, "removed %s", c.Course)
	})
}

// nothingChanged ends a command whose user said no.
func nothingChanged(env *Env) error {
	env.UI.Notef("nothing was changed")
	return errNegative
}

// done shows the result of a command that changed something.
func (e *Env) done(result any, format string, args ...any) error {
	if e.JSON {
		return e.PrintJSON(result)
	}
	e.UI.Notef(format, args...)
	return nil
}

type courseAssignmentCmd struct {
	Course    string      `arg:"" help:"Course."`
	Name      string      `arg:"" help:"Short name of the assignment."`
	Title     *string     `name:"title" placeholder:"TITLE" help:"What people call it."`
	Points    *pointsFlag `name:"points" placeholder:"N" help:"Points that it is worth."`
	Rules     string      `name:"rules" placeholder:"FILE" help:"YAML file whose keys due, late and attempts are taken, for example an assignment.yaml."`
	Anonymous bool        `name:"anonymous" help:"Mark without names until it is published. This cannot be taken back."`
}

func (courseAssignmentCmd) Help() string {
	return `What is not given stays as it is. Marks are not stored but follow from what was handed in: a new due time or late rule holds at once for all that was handed in before.

assay grade --course sets all this from the assignment's folder; this command is for what is marked by hand, as an exam on paper, and to change a rule.`
}

func (c courseAssignmentCmd) Run(ctx context.Context, env *Env) error {
	var rules *course.Rules
	if c.Rules != "" {
		data, err := readInput(c.Rules, course.MaxRulesBytes)
		if err != nil {
			return err
		}
		read, err := course.ReadRules(c.Rules, data)
		if err != nil {
			return err
		}
		rules = &read
	}
	return withCourses(ctx, env, func(book *app.Courses) error {
		s, err := book.State(ctx, c.Course)
		if err != nil {
			return err
		}
		a := class.Assignment{Name: c.Name}
		for _, old := range s.Assignments {
			if old.Name == c.Name {
				a = old
			}
		}
		if c.Title != nil {
			a.Title = *c.Title
		}
		if c.Points != nil {
			a.Points = judge.Score(*c.Points)
		}
		if rules != nil {
			a.Due, a.Late, a.Attempts = rules.Due, rules.Late, rules.Attempts
		}
		a.Anonymous = a.Anonymous || c.Anonymous
		if err := book.PutAssignment(ctx, c.Course, a); err != nil {
			return err
		}
		rules := ""
		if !a.Due.IsZero() {
			rules = fmt.Sprintf(", due %s, %s", a.Due, a.Late)
		}
		return env.done(a, "%s: %s points%s", a.Name, a.Points, rules)
	})
}

// pointsFlag is a number of points on the command line.
type pointsFlag judge.Score

// UnmarshalText reads a decimal number.
func (p *pointsFlag) UnmarshalText(text []byte) error {
	s, err := judge.ParseScore(string(text))
	*p = pointsFlag(s)
	return err
}

// readInput reads a file that is not too large.
func readInput(name string, most int64) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, fault.Errorf(fault.Invalid, "read %s: %w", name, err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	if err != nil {
		return nil, fault.Errorf(fault.Invalid, "read %s: %w", name, err)
	}
	if int64(len(data)) > most {
		return nil, fault.Errorf(fault.Invalid, "%s has more than %d MiB", name, most>>20)
	}
	return data, nil
}
