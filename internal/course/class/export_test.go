package class

import (
	"bytes"
	"encoding/csv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"assay/internal/course"
	"assay/internal/fault"
	"assay/internal/judge"
)

// book is a gradebook with one assignment of 10 points in which everybody has
// the same score.
func bookOf(score judge.Score, people ...Person) Gradebook {
	g := Gradebook{
		Course: Course{ID: "c"}, Points: judge.IntScore(10),
		Assignments: []Assignment{{Name: "lab1", Title: "Lab 1", Points: judge.IntScore(10)}},
	}
	for _, p := range people {
		g.Rows = append(g.Rows, Row{Person: p, Marks: []Mark{{Score: score, Late: course.Lateness{Days: 2}, Penalty: judge.IntScore(1)}}, Total: score})
	}
	return g
}

func table(t rapid.TB, text string, comma rune) [][]string {
	r := csv.NewReader(strings.NewReader(text))
	r.Comma = comma
	rows, err := r.ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

// formula says that a spreadsheet would count with a cell.
func formula(cell string) bool {
	return cell != "" && strings.ContainsRune("=+-@\t\r", rune(cell[0])) && !plainNumber.MatchString(cell)
}

// TestOwnCSVRoundTrip holds that whatever people are called, nothing that we
// write is a formula, numbers stay numbers, and the people come back.
func TestOwnCSVRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		start := rapid.SampledFrom([]string{"", "=", "+", "-", "@", "'", "'=", "007", "ż;", "\"", ","}).Draw(t, "start")
		name := plain(start + rapid.StringMatching(`[A-Za-zł;,"'=+@ -]{1,20}x`).Draw(t, "name"))
		p := Person{StudentID: "00" + rapid.StringMatching(`[0-9]{1,8}`).Draw(t, "id"), Name: name, Section: "-1+" + name, Role: Student}
		minus, err := judge.ParseScore("-1.25")
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if err := bookOf(minus, p).WriteCSV(&out); err != nil {
			t.Fatal(err)
		}
		rows := table(t, out.String(), ',')
		for _, cell := range rows[1] {
			if formula(cell) {
				t.Fatalf("the cell %q is a formula in %q", cell, out.String())
			}
		}
		if rows[1][4] != "-1.25" {
			t.Fatalf("the score became %q", rows[1][4])
		}
		r, err := ReadRoster("f.csv", out.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(p, func() Person { q := r.Lines[0].Person; q.Role = Student; return q }()); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
	})
}

const canvasHead = "Student,ID,SIS User ID,SIS Login ID,Section,Lab 1 (4711)\n"

func TestFillCanvas(t *testing.T) {
	t.Parallel()
	ada := Person{ID: "p", StudentID: "007", Email: "ada@x.org", Login: "ada", Name: "Ada"}
	tests := []struct {
		name, in string
		columns  map[string]string
		want     string
		notes    []string
		err      string
	}{
		{name: "filled", in: canvasHead + "Ada,900,007,ada,1,\n", want: canvasHead + "Ada,900,007,ada,1,8.5\n"},
		{name: "byte_order_mark_and_semicolon_stay", in: "\ufeff" + strings.ReplaceAll(canvasHead+"Ada,900,007,ada,1,\n", ",", ";"), want: "\ufeff" + strings.ReplaceAll(canvasHead+"Ada,900,007,ada,1,8.5\n", ",", ";")},
		{name: "by_login_that_is_an_address", in: canvasHead + "Ada,900,,ADA@x.org,1,\n", want: canvasHead + "Ada,900,,ADA@x.org,1,8.5\n"},
		{name: "ids_stay_as_they_are", in: canvasHead + "Ada, 0900,=007,-ada,1,\n", want: canvasHead + "Ada,\" 0900\",=007,-ada,1,\n", notes: []string{"line 2: Ada is not on the roster"}},
		{
			name: "other_rows_and_columns_stay", in: strings.Replace(canvasHead, "\n", ",Other (1),Final\n", 1) + "Manual Posting,,,,,,,\n    Points Possible,,,,,10.0,5,(read only)\nAda,900,007,ada,1,3,-2.5,A-\n",
			want: strings.Replace(canvasHead, "\n", ",Other (1),Final\n", 1) + "Manual Posting,,,,,,,\n\"    Points Possible\",,,,,10.0,5,(read only)\nAda,900,007,ada,1,8.5,-2.5,A-\n",
		},
		{name: "other_points", in: canvasHead + "Points Possible,,,,,20\nAda,900,007,ada,1,\n", want: canvasHead + "Points Possible,,,,,20\nAda,900,007,ada,1,8.5\n", notes: []string{"lab1 is worth 10 points here, but 20 there"}},
		{name: "column_by_name", in: strings.Replace(canvasHead, "Lab 1 (4711)", "First", 1) + "Ada,900,007,ada,1,\n", columns: map[string]string{"lab1": "First"}, want: strings.Replace(canvasHead, "Lab 1 (4711)", "First", 1) + "Ada,900,007,ada,1,8.5\n"},
		{name: "no_column", in: strings.Replace(canvasHead, "Lab 1", "Essay", 1), err: "f.csv has no column with the title of an assignment"},
		{name: "two_columns", in: strings.Replace(canvasHead, "\n", ",lab1\n", 1), err: "f.csv has 2 columns that may be lab1"},
		{name: "unknown_assignment", in: canvasHead, columns: map[string]string{"x": "y"}, err: `course c has no assignment "x"`},
		{name: "unknown_column", in: canvasHead, columns: map[string]string{"lab1": "y"}, err: `f.csv has no column "y" for lab1`},
		{name: "not_canvas", in: "email,name\n", err: "f.csv is not an export of Canvas's gradebook"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			score, err := judge.ParseScore("8.5")
			if err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			f, err := bookOf(score, ada).FillCanvas(&out, "f.csv", []byte(tt.in), tt.columns)
			if tt.err != "" {
				if err == nil || err.Error() != tt.err || fault.HintOf(err) == "" && !strings.Contains(tt.err, `"y"`) {
					t.Errorf("error %v, want %s", err, tt.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, out.String()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.notes, f.Notes); diff != "" {
				t.Errorf("notes (-want +got):\n%s", diff)
			}
		})
	}
}

func TestFillMoodle(t *testing.T) {
	t.Parallel()
	const head = "Identifier,Full name,Email address,Grade,Maximum Grade,Grade can be changed\n"
	ada := Person{ID: "p", Email: "ada@x.org", Name: "Ada"}
	tests := []struct {
		name, in, want string
		notes          []string
		err            string
	}{
		{name: "filled", in: head + "Participant 5,Ada,ada@x.org,,10.00,Yes\n", want: head + "Participant 5,Ada,ada@x.org,8.5,10.00,Yes\n"},
		{name: "decimal_comma", in: head + "Participant 5,Ada,ada@x.org,,\"10,00\",Yes\n", want: head + "Participant 5,Ada,ada@x.org,\"8,5\",\"10,00\",Yes\n"},
		{name: "cannot_be_changed", in: head + "Participant 5,Ada,ada@x.org,1,10,No\n", want: head + "Participant 5,Ada,ada@x.org,1,10,No\n", notes: []string{"line 2: the grade cannot be changed in Moodle"}},
		{name: "a_name_that_is_a_formula", in: head + "Participant 6,=1+1,b@x.org,,10,Yes\n", want: head + "Participant 6,'=1+1,b@x.org,,10,Yes\n", notes: []string{"line 2: Participant 6 is not on the roster"}},
		{name: "nobody_can_be_told", in: "Identifier,Full name,Grade\n", err: "f.csv has no column that tells people apart"},
		{name: "not_moodle", in: "email,grade\n", err: "f.csv is not an offline worksheet of Moodle"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			score, err := judge.ParseScore("8.5")
			if err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			f, err := bookOf(score, ada).FillMoodle(&out, "f.csv", []byte(tt.in), "lab1")
			if tt.err != "" {
				if err == nil || err.Error() != tt.err {
					t.Errorf("error %v, want %s", err, tt.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, out.String()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.notes, f.Notes); diff != "" {
				t.Errorf("notes (-want +got):\n%s", diff)
			}
		})
	}
}

// FuzzFill holds that filling in changes no cell but those that it counts, and
// makes none a formula.
func FuzzFill(f *testing.F) {
	f.Add([]byte(canvasHead + "Ada,900,007,ada,1,\n\"=x\",901,8,bo,2,3\n"))
	f.Add([]byte("Identifier;Full name;Email address;Grade;Maximum Grade\nParticipant 5;Ada;ada@x.org;;\"10,00\"\n"))
	f.Add([]byte("\ufeffStudent\tID\tSIS User ID\tLab 1\n\tA\t1\t\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		g := bookOf(judge.IntScore(8), Person{ID: "p", StudentID: "007", Email: "ada@x.org", Login: "ada"})
		for _, fill := range []func(*bytes.Buffer) (Filling, error){
			func(w *bytes.Buffer) (Filling, error) { return g.FillCanvas(w, "f.csv", data, nil) },
			func(w *bytes.Buffer) (Filling, error) { return g.FillMoodle(w, "f.csv", data, "lab1") },
		} {
			var out bytes.Buffer
			got, err := fill(&out)
			if err != nil {
				continue
			}
			before, err := readSheet("before", data)
			if err != nil {
				t.Fatal(err)
			}
			after, err := readSheet("after", out.Bytes())
			if err != nil || len(after.rows) != len(before.rows) {
				t.Fatalf("%d rows became %d, %v:\n%q", len(before.rows), len(after.rows), err, out.String())
			}
			changed := 0
			for i, row := range after.rows {
				for c, cell := range row.cells {
					if was := before.rows[i].cell(c); cell != was && cell != Neutral(was) {
						changed++
					}
				}
			}
			if changed > got.Filled {
				t.Errorf("%d cells changed, %d were filled:\n%q", changed, got.Filled, out.String())
			}
		}
	})
}
