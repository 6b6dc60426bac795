package cli

import (
	"strings"

	"charm.land/lipgloss/v2"
	"charm.land/lipgloss/v2/table"
)

// Column is one column of a table. Columns of numbers are right aligned.
type Column struct {
	Title string
	Right bool
}

// Left makes a column of text, Right one of numbers.
func Left(title string) Column { return Column{Title: title} }

// Right makes a column of numbers; see Left.
func Right(title string) Column { return Column{Title: title, Right: true} }

// columnGap is the space between two columns.
const columnGap = 2

// Table writes rows to stdout under the columns' titles. Cells may be coloured
// with Good, Warn and Bad. On a terminal long cells wrap; elsewhere a row is
// one line and has no colour unless it was asked for.
func (u *UI) Table(columns []Column, rows [][]string) {
	titles := make([]string, len(columns))
	for i, c := range columns {
		titles[i] = c.Title
	}
	t := table.New().
		Border(lipgloss.Border{}).
		BorderTop(false).BorderBottom(false).BorderLeft(false).BorderRight(false).
		BorderHeader(false).BorderColumn(false).BorderRow(false).
		Headers(titles...).Rows(rows...).
		StyleFunc(func(row, col int) lipgloss.Style {
			s := lipgloss.NewStyle()
			if row == table.HeaderRow && u.out.color {
				s = styleTitle
			}
			if col < len(columns) && columns[col].Right {
				s = s.Align(lipgloss.Right)
			}
			if col < len(columns)-1 {
				s = s.PaddingRight(columnGap)
			}
			return s
		})
	if natural := tableWidth(columns, rows); u.out.width > 0 && natural > u.out.width {
		t = t.Width(u.out.width)
	}
	var b strings.Builder
	for line := range strings.Lines(t.String()) {
		b.WriteString(strings.TrimRight(line, " \n") + "\n")
	}
	u.Printf("%s", b.String())
}

// tableWidth is how wide the table is when nothing wraps.
func tableWidth(columns []Column, rows [][]string) int {
	total := 0
	for i, c := range columns {
		w := lipgloss.Width(c.Title)
		for _, r := range rows {
			if i < len(r) {
				w = max(w, lipgloss.Width(r[i]))
			}
		}
		total += w + columnGap
	}
	return total - columnGap
}
