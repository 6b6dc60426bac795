package cli

import (
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"

	"assay/internal/app"
	"assay/internal/course/class"
	"assay/internal/fault"
	"assay/internal/judge"
)

type gradebookCmd struct {
	Course     string            `arg:"" help:"Course."`
	Assignment string            `name:"assignment" short:"a" placeholder:"NAME" help:"Only this assignment; the only way to see an anonymous one before it is published."`
	Format     string            `name:"format" enum:"table,csv,canvas,moodle" default:"table" help:"table, csv, canvas or moodle."`
	Fill       string            `name:"fill" placeholder:"FILE" help:"Export of Canvas's gradebook, or Moodle's worksheet of one assignment, to fill in."`
	Column     map[string]string `name:"column" placeholder:"NAME=COLUMN" help:"Column of the export for an assignment (default: the one with its title)."`
	Histogram  bool              `name:"histogram" help:"Show how marks are spread in place of the table."`
	Out        string            `name:"out" short:"o" placeholder:"FILE" help:"Write to a file."`
}

func (gradebookCmd) Help() string {
	return `csv is our own form: a line for each student, with score, days late, penalty and adjustment of each assignment. canvas fills an export of Canvas's gradebook (--fill): no row, no ID and no other column changes, so it can be imported again as it is. moodle fills a worksheet of one assignment (--fill with --assignment), or writes a file for Moodle's grade import.

No text in these files is a formula for a spreadsheet. Marks of assignments that are marked without names are left out until they are published.`
}

func (c gradebookCmd) Run(ctx context.Context, env *Env) error {
	if err := c.check(env); err != nil {
		return err
	}
	return withCourses(ctx, env, func(book *app.Courses) error {
		g, err := book.Gradebook(ctx, c.Course)
		if err != nil {
			return err
		}
		if c.Assignment != "" {
			if g, err = g.Only(c.Assignment); err != nil {
				return err
			}
		}
		switch {
		case c.Format != "table":
			return c.export(env, g)
		case c.Assignment != "" && g.Assignments[0].Hidden():
			return c.anonymous(ctx, env, book)
		case env.JSON:
			return env.PrintJSON(gradebookJSON{g, spreads(g)})
		case c.Histogram:
			showSpread(env, g)
		default:
			showGradebook(env, g)
		}
		return nil
	})
}

func (c gradebookCmd) check(env *Env) error {
	switch {
	case c.Format == "canvas" && c.Fill == "":
		return fault.Errorf(fault.Invalid, "there is no export of Canvas's gradebook to fill in").WithHint("export it in Canvas and say --fill FILE.csv")
	case c.Format == "moodle" && c.Fill != "" && c.Assignment == "":
		return fault.Errorf(fault.Invalid, "a worksheet of Moodle has one assignment").WithHint("say which with --assignment NAME")
	case c.Fill != "" && c.Format != "canvas" && c.Format != "moodle":
		return fault.Errorf(fault.Invalid, "--fill is for --format canvas and moodle")
	case len(c.Column) > 0 && c.Format != "canvas":
		return fault.Errorf(fault.Invalid, "--column is for --format canvas")
	case c.Format == "table" && c.Out != "":
		return fault.Errorf(fault.Invalid, "a table is for looking at").WithHint("say --format csv to write a file")
	case c.Format != "table" && env.JSON && c.Out == "":
		return fault.Errorf(fault.Invalid, "--json and --format %s both want standard output", c.Format).WithHint("say --out FILE")
	}
	return nil
}

// gradebookJSON is the result of "assay gradebook --json".
type gradebookJSON struct {
	class.Gradebook
	Statistics []spreadJSON `json:"statistics"`
}

type spreadJSON struct {
	// Assignment is "" for the totals.
	Assignment string      `json:"assignment"`
	Points     judge.Score `json:"points"`
	class.Statistics
	Histogram []class.Bin `json:"histogram"`
}

// spreads are the statistics of each assignment that is not hidden, and of the
// totals if there is more than one.
func spreads(g class.Gradebook) []spreadJSON {
	list := []spreadJSON{}
	add := func(name string) {
		scores, points := g.Column(name)
		list = append(list, spreadJSON{name, points, class.Spread(scores), class.Histogram(scores, points)})
	}
	for _, a := range g.Assignments {
		if !a.Hidden() {
			add(a.Name)
		}
	}
	if len(list) != 1 {
		add("")
	}
	return list
}

func (c gradebookCmd) export(env *Env, g class.Gradebook) error {
	var filled *class.Filling
	err := writeResult(env, c.Out, func(w io.Writer) error {
		if c.Fill == "" {
			if c.Format == "csv" {
				return g.WriteCSV(w)
			}
			return g.WriteMoodle(w)
		}
		data, err := readInput(c.Fill, class.MaxTableBytes)
		if err != nil {
			return err
		}
		var f class.Filling
		if c.Format == "canvas" {
			f, err = g.FillCanvas(w, c.Fill, data, c.Column)
		} else {
			f, err = g.FillMoodle(w, c.Fill, data, c.Assignment)
		}
		filled = &f
		return err
	})
	if err != nil {
		return err
	}
	if filled != nil {
		for _, n := range filled.Notes {
			env.UI.Warnf("%s", oneLine(n))
		}
		env.UI.Notef("%d marks filled in", filled.Filled)
	}
	if env.JSON {
		return env.PrintJSON(struct {
			File    string         `json:"file"`
			Filling *class.Filling `json:"filling,omitempty"`
		}{c.Out, filled})
	}
	return nil
}

// writeResult writes to a file, whole or not at all, or to stdout.
func writeResult(env *Env, name string, write func(io.Writer) error) (err error) {
	if name == "" {
		var text strings.Builder
		if err := write(&text); err != nil {
			return err
		}
		env.UI.Printf("%s", text.String())
		return nil
	}
	f, err := os.CreateTemp(filepath.Dir(name), ".assay-*")
	if err != nil {
		return fault.Errorf(fault.Invalid, "write %s: %w", name, err)
	}
	defer func() {
		if err != nil {
			// The error that counts is the one before.
			_ = os.Remove(f.Name())
		}
	}()
	err = write(f)
	if closeErr := f.Close(); err == nil && closeErr != nil {
		err = fault.Errorf(fault.Unavailable, "write %s: %w", name, closeErr)
	}
	if err != nil {
		return err
	}
	// Marks are for their owner alone: the mode stays 0600.
	if err := os.Rename(f.Name(), name); err != nil {
		return fault.Errorf(fault.Unavailable, "write %s: %w", name, err)
	}
	return nil
}

// anonymous shows an assignment without names.
func (c gradebookCmd) anonymous(ctx context.Context, env *Env, book *app.Courses) error {
	a, marks, err := book.AnonymousMarks(ctx, c.Course, c.Assignment)
	if err != nil {
		return err
	}
	if env.JSON {
		return env.PrintJSON(struct {
			Assignment class.Assignment      `json:"assignment"`
			Marks      []class.AnonymousMark `json:"marks"`
		}{a, marks})
	}
	var rows [][]string
	legend := &markLegend{}
	for _, m := range marks {
		rows = append(rows, []string{m.Pseudonym, legend.cell(env, m.Mark)})
	}
	env.UI.Table([]Column{Left("pseudonym"), Right(a.Name + " /" + a.Points.String())}, rows)
	legend.show(env)
	return nil
}

func showGradebook(env *Env, g class.Gradebook) {
	if len(g.Rows) == 0 {
		env.UI.Notef("%s has no students", g.Course.ID)
		return
	}
	columns := []Column{Left("name"), Left("student id")}
	for _, a := range g.Assignments {
		columns = append(columns, Right(a.Name+" /"+a.Points.String()))
	}
	columns = append(columns, Right("total /"+g.Points.String()))
	var rows [][]string
	legend := &markLegend{}
	for _, r := range g.Rows {
		row := []string{oneLine(r.Person.Label()), oneLine(r.Person.StudentID)}
		for _, m := range r.Marks {
			row = append(row, legend.cell(env, m))
		}
		rows = append(rows, append(row, shortScore(r.Total)))
	}
	env.UI.Table(columns, rows)
	legend.show(env)
}

// markSigns stand behind marks in tables, in this order.
var markSigns = []struct {
	sign, text string
	holds      func(class.Mark) bool
}{
	{"L", "late", func(m class.Mark) bool { return m.Penalty.Sign() > 0 }},
	{"A", "adjusted by hand", func(m class.Mark) bool { return m.Adjustment.Sign() != 0 }},
	{"R", "has attempts that were refused", func(m class.Mark) bool { return m.Refused > 0 }},
	{"F", "has attempts that we could not grade", func(m class.Mark) bool { return m.Failed > 0 }},
	{"V", "graded by another version", func(m class.Mark) bool { return m.Outdated }},
	{"!", "suspicious: look at it", func(m class.Mark) bool { return m.Suspicious }},
}

// markLegend remembers which signs were used.
type markLegend struct{ used [6]bool }

func (l *markLegend) cell(env *Env, m class.Mark) string {
	if m.Hidden {
		return "hidden"
	}
	text := shortScore(m.Score)
	if m.None {
		text = "-"
	}
	signs := ""
	for i, s := range markSigns {
		if s.holds(m) {
			l.used[i] = true
			signs += s.sign
		}
	}
	if signs != "" {
		text += " " + env.UI.Warn(signs)
	}
	return text
}

func (l *markLegend) show(env *Env) {
	var parts []string
	for i, s := range markSigns {
		if l.used[i] {
			parts = append(parts, s.sign+" "+s.text)
		}
	}
	if len(parts) > 0 {
		env.UI.Printf("\n%s\n", strings.Join(parts, ", "))
	}
}

// shortScore rounds to two digits after the point, for tables.
func shortScore(s judge.Score) string {
	text := s.String()
	if point := strings.IndexByte(text, '.'); point >= 0 && len(text) > point+3 {
		return fmt.Sprintf("%.2f", s.Float())
	}
	return text
}

// histogramWidth is how long the longest bar is.
const histogramWidth = 40

func showSpread(env *Env, g class.Gradebook) {
	list := spreads(g)
	var rows [][]string
	number := func(v float64) string { return fmt.Sprintf("%.2f", v) }
	for _, s := range list {
		name := s.Assignment
		if name == "" {
			name = "total"
		}
		rows = append(rows, []string{
			name, s.Points.String(), fmt.Sprint(s.Count), number(s.Mean), number(s.Median), number(s.Deviation),
			number(s.Min), number(s.Quartiles[0]), number(s.Quartiles[1]), number(s.Max),
		})
	}
	env.UI.Table([]Column{
		Left("assignment"), Right("points"), Right("marks"), Right("mean"), Right("median"), Right("deviation"),
		Right("min"), Right("quarter"), Right("three quarters"), Right("max"),
	}, rows)
	last := list[len(list)-1]
	most := 1
	for _, b := range last.Histogram {
		most = max(most, b.Count)
	}
	name := last.Assignment
	if name == "" {
		name = "total"
	}
	env.UI.Printf("\n%s, in percent of %s points\n", name, last.Points)
	for _, b := range last.Histogram {
		bar := strings.Repeat("█", int(math.Round(float64(b.Count)*histogramWidth/float64(most))))
		if b.Count > 0 && bar == "" {
			bar = "▏"
		}
		env.UI.Printf("%3d-%3d %s\n", b.Low, b.High, strings.TrimSpace(fmt.Sprintf("%s %d", bar, b.Count)))
	}
}
