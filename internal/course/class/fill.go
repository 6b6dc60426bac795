package class

import (
	"cmp"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"assay/internal/fault"
	"assay/internal/judge"
)

// Filling is what became of somebody else's table.
type Filling struct {
	// Columns are those that were filled, by the assignment's name.
	Columns map[string]string `json:"columns"`
	Filled  int               `json:"cells_filled"`
	// Notes tell what was left as it was, and why.
	Notes []string `json:"notes"`
}

var (
	canvasNumber = regexp.MustCompile(` \(\d+\)$`)
	plainNumber  = regexp.MustCompile(`^-?[0-9]+([.,][0-9]+)?$`)
)

// FillCanvas writes an export of Canvas's gradebook with our marks in it:
// nothing else changes, neither rows nor the IDs in them. columns says which
// column belongs to an assignment (its name → the column's); for the others it
// is the column that has the assignment's title or name. Only assignments with
// a column are filled; if none has one, that is an error.
func (g Gradebook) FillCanvas(w io.Writer, name string, export []byte, columns map[string]string) (Filling, error) {
	s, err := readSheet(name, export)
	if err != nil {
		return Filling{}, err
	}
	if rosterFormat(s) != formatCanvas {
		return Filling{}, fault.Errorf(fault.Invalid, "%s is not an export of Canvas's gradebook", name).
			WithHint("in Canvas choose Grades, Export, Export Entire Gradebook")
	}
	places, err := rosterHeader(s)
	if err != nil {
		return Filling{}, err
	}
	// Nobody can write these columns of Canvas.
	readOnly := map[int]bool{}
	var points sheetRow
	for _, row := range s.rows {
		if strings.TrimSpace(row.cell(0)) == "Points Possible" {
			points = row
		}
	}
	for i := range s.header {
		if strings.Contains(points.cell(i), "(read only)") || strings.Contains(s.header[i], "(read only)") {
			readOnly[i] = true
		}
	}
	f := filler{g: g, sheet: s, exact: []int{places["canvas id"]}, out: Filling{Columns: map[string]string{}, Notes: s.notes}}
	for _, field := range []string{"student id", "login"} {
		if i, ok := places[field]; ok {
			f.exact = append(f.exact, i)
		}
	}
	if err := f.match(columns, readOnly, func(h string) string { return canvasNumber.ReplaceAllString(h, "") }); err != nil {
		return Filling{}, err
	}
	for i, c := range f.columns {
		if of := plain(points.cell(c)); c >= 0 && of != "" {
			f.compare(g.Assignments[i], of)
		}
	}
	people := f.people()
	err = f.write(w, func(row sheetRow) int {
		if plain(row.cell(places["canvas id"])) == "" {
			return -1
		}
		p := Person{CanvasID: plain(row.cell(places["canvas id"]))}
		if i, ok := places["student id"]; ok {
			p.StudentID = plain(row.cell(i))
		}
		if i, ok := places["login"]; ok {
			p.Login = plain(row.cell(i))
		}
		return f.find(people, row, p, p.Login)
	})
	return f.out, err
}

// FillMoodle writes an offline worksheet of one assignment of Moodle with our
// marks as grades. Rows that Moodle says cannot be changed stay as they are.
func (g Gradebook) FillMoodle(w io.Writer, name string, worksheet []byte, assignment string) (Filling, error) {
	s, err := readSheet(name, worksheet)
	if err != nil {
		return Filling{}, err
	}
	column := func(n string) int {
		return slices.IndexFunc(s.header, func(h string) bool { return bare(plain(h)) == n })
	}
	grade, most, may := column("grade"), column("maximumgrade"), column("gradecanbechanged")
	email, number, user := column("emailaddress"), column("idnumber"), column("username")
	if column("identifier") < 0 || grade < 0 {
		return Filling{}, fault.Errorf(fault.Invalid, "%s is not an offline worksheet of Moodle", name).
			WithHint("in the assignment choose View all submissions, Download grading worksheet")
	}
	if email < 0 && number < 0 && user < 0 {
		return Filling{}, fault.Errorf(fault.Invalid, "%s has no column that tells people apart", name).
			WithHint("have Moodle show e-mail addresses or ID numbers in the worksheet")
	}
	i := slices.IndexFunc(g.Assignments, func(a Assignment) bool { return a.Name == assignment })
	if i < 0 {
		return Filling{}, noAssignment(g.Course.ID, assignment)
	}
	if g.Assignments[i].Hidden() {
		return Filling{}, hiddenFault(assignment)
	}
	f := filler{g: g, sheet: s, exact: []int{column("identifier")}, out: Filling{Columns: map[string]string{assignment: s.header[grade]}, Notes: s.notes}}
	f.columns = slices.Repeat([]int{-1}, len(g.Assignments))
	f.columns[i] = grade
	people := f.people()
	told := false
	err = f.write(w, func(row sheetRow) int {
		if of := plain(row.cell(most)); of != "" && !told {
			f.decimalComma = strings.Contains(of, ",")
			f.compare(g.Assignments[i], of)
			told = true
		}
		if may >= 0 && strings.EqualFold(plain(row.cell(may)), "no") {
			f.note("line %d: the grade cannot be changed in Moodle", row.line)
			return -1
		}
		p := Person{Email: plain(row.cell(email)), StudentID: plain(row.cell(number)), Login: plain(row.cell(user))}
		return f.find(people, row, p, "")
	})
	return f.out, err
}

func hiddenFault(assignment string) error {
	return fault.Errorf(fault.Conflict, "%s is marked without names", assignment).
		WithHint("publish it first: assay course publish")
}

// filler puts marks into a table that is somebody else's.
type filler struct {
	g     Gradebook
	sheet sheet
	// columns are those of the table, in the order of the assignments; -1 is none.
	columns []int
	// exact are columns whose cells are never touched.
	exact        []int
	decimalComma bool
	out          Filling
}

func (f *filler) note(format string, args ...any) {
	f.out.Notes = append(f.out.Notes, fmt.Sprintf(format, args...))
}

// match finds a column for each assignment.
func (f *filler) match(wanted map[string]string, readOnly map[int]bool, simple func(string) string) error {
	for name := range wanted {
		if !slices.ContainsFunc(f.g.Assignments, func(a Assignment) bool { return a.Name == name }) {
			return noAssignment(f.g.Course.ID, name)
		}
	}
	for _, a := range f.g.Assignments {
		found := []int{}
		want, named := wanted[a.Name]
		for i, h := range f.sheet.header {
			h = strings.TrimSpace(h)
			if named && (h == want || simple(h) == want) || !named && slices.ContainsFunc([]string{a.Title, a.Name}, func(n string) bool { return n != "" && strings.EqualFold(n, simple(h)) }) {
				found = append(found, i)
			}
		}
		switch {
		case len(wanted) > 0 && !named, len(found) == 0 && !named:
			f.columns = append(f.columns, -1)
			continue
		case len(found) == 0:
			return fault.Errorf(fault.NotFound, "%s has no column %q for %s", f.sheet.name, want, a.Name)
		case len(found) > 1:
			return fault.Errorf(fault.Conflict, "%s has %d columns that may be %s", f.sheet.name, len(found), a.Name).
				WithHint("name one: --column '%s=%s'", a.Name, f.sheet.header[found[0]])
		case readOnly[found[0]]:
			return fault.Errorf(fault.Conflict, "the column %q of %s is read only in Canvas", f.sheet.header[found[0]], f.sheet.name)
		case a.Hidden():
			return hiddenFault(a.Name)
		}
		f.columns = append(f.columns, found[0])
		f.out.Columns[a.Name] = f.sheet.header[found[0]]
	}
	if len(f.out.Columns) == 0 {
		return fault.Errorf(fault.NotFound, "%s has no column with the title of an assignment", f.sheet.name).
			WithHint("make the assignment in Canvas and export again, or name a column: --column 'NAME=COLUMN'")
	}
	return nil
}

// compare tells if the points of both sides differ.
func (f *filler) compare(a Assignment, of string) {
	if there, err := judge.ParseScore(strings.Replace(of, ",", ".", 1)); err == nil && there.Cmp(a.Points) != 0 {
		f.note("%s is worth %s points here, but %s there", a.Name, a.Points, there)
	}
}

// people are the rows of the gradebook by what tells people apart.
func (f *filler) people() map[string]int {
	known := map[string]int{}
	for i, r := range f.g.Rows {
		for _, key := range identities(r.Person) {
			known[key] = i
		}
	}
	return known
}

// find gives the row of the gradebook for a row of the table, or -1. A login is
// an address in many schools.
func (f *filler) find(people map[string]int, row sheetRow, p Person, address string) int {
	keys := identities(p)
	if strings.Contains(address, "@") {
		keys = append(keys, identities(Person{Email: address})...)
	}
	for _, key := range keys {
		if i, ok := people[key]; ok {
			return i
		}
	}
	f.note("line %d: %s is not on the roster", row.line, cmp.Or(clip(plain(row.cell(0))), "a row"))
	return -1
}

// write writes the table with the marks in it.
func (f *filler) write(w io.Writer, who func(sheetRow) int) error {
	if f.sheet.bom {
		if _, err := io.WriteString(w, "\ufeff"); err != nil {
			return fmt.Errorf("write table: %w", err)
		}
	}
	out := newCells(w, f.sheet.comma)
	out.cells = append(out.cells, f.sheet.header...)
	out.end()
	for _, row := range f.sheet.rows {
		i := who(row)
		for c := range max(len(row.cells), len(f.sheet.header)) {
			cell := row.cell(c)
			if i >= 0 {
				if a := slices.Index(f.columns, c); a >= 0 && !f.g.Rows[i].Marks[a].None {
					cell = f.number(f.g.Rows[i].Marks[a].Score)
					f.out.Filled++
				}
			}
			if !slices.Contains(f.exact, c) && !plainNumber.MatchString(cell) {
				cell = Neutral(cell)
			}
			out.cells = append(out.cells, cell)
		}
		out.end()
	}
	return out.close()
}

func (f *filler) number(s judge.Score) string {
	if f.decimalComma {
		return strings.Replace(s.String(), ".", ",", 1)
	}
	return s.String()
}
