package class

import (
	"encoding/csv"
	"fmt"
	"io"
	"strconv"

	"assay/internal/judge"
)

// WriteCSV writes the gradebook in our own form: a line for each student, and
// for each assignment the score, days late, penalty and adjustment. ReadRoster
// reads the people back from it. No cell is a formula for a spreadsheet;
// numbers stay numbers. Hidden marks and marks that do not exist are empty.
func (g Gradebook) WriteCSV(w io.Writer) error {
	header := []string{"name", "email", "student id", "section"}
	for _, a := range g.Assignments {
		for _, what := range []string{"", " days late", " penalty", " adjustment"} {
			header = append(header, a.Name+what)
		}
	}
	out := newCells(w, ',')
	out.text(header...)
	out.text("total", "of")
	out.end()
	for _, r := range g.Rows {
		out.text(r.Person.Name, r.Person.Email, r.Person.StudentID, r.Person.Section)
		for _, m := range r.Marks {
			if m.None || m.Hidden {
				out.text("", "", "", "")
				continue
			}
			out.score(m.Score)
			out.cells = append(out.cells, strconv.Itoa(m.Late.Days))
			out.score(m.Penalty)
			out.score(m.Adjustment)
		}
		out.score(r.Total)
		out.score(g.Points)
		out.end()
	}
	return out.close()
}

// WriteMoodle writes what Moodle's grade import reads: people by address and ID
// number, and a column for each assignment.
func (g Gradebook) WriteMoodle(w io.Writer) error {
	out := newCells(w, ',')
	out.text("Email address", "ID number", "Full name")
	for _, a := range g.Assignments {
		if !a.Hidden() {
			out.text(a.title())
		}
	}
	out.end()
	for _, r := range g.Rows {
		out.text(r.Person.Email, r.Person.StudentID, r.Person.Name)
		for _, m := range r.Marks {
			switch {
			case m.Hidden:
			case m.None:
				out.text("")
			default:
				out.score(m.Score)
			}
		}
		out.end()
	}
	return out.close()
}

// cells writes lines of a table cell by cell, and knows text from numbers.
type cells struct {
	w     *csv.Writer
	cells []string
	err   error
}

func newCells(w io.Writer, comma rune) *cells {
	c := &cells{w: csv.NewWriter(w)}
	c.w.Comma = comma
	return c
}

// text adds cells that no spreadsheet may count with.
func (c *cells) text(list ...string) {
	for _, t := range list {
		c.cells = append(c.cells, Neutral(t))
	}
}

func (c *cells) score(s judge.Score) { c.cells = append(c.cells, s.String()) }

func (c *cells) end() {
	if err := c.w.Write(c.cells); err != nil && c.err == nil {
		c.err = err
	}
	c.cells = c.cells[:0]
}

func (c *cells) close() error {
	c.w.Flush()
	if c.err == nil {
		c.err = c.w.Error()
	}
	if c.err != nil {
		return fmt.Errorf("write table: %w", c.err)
	}
	return nil
}
