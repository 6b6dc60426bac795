package class

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/unicode"

	"assay/internal/fault"
)

// people is a roster's lines as short text.
func people(r Roster) []string {
	var out []string
	for _, l := range r.Lines {
		p := l.Person
		out = append(out, strings.Join([]string{p.StudentID, p.Email, p.Login, p.CanvasID, p.Name, p.Section, string(p.Role)}, "|"))
	}
	return out
}

func TestReadRoster(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, in string
		format   string
		want     []string
		notes    []string
	}{
		{
			name: "own", in: "email,student id,name,section,role\na@x.org,007,Ada,1,student\nb@x.org,08,Bo,2,TA\n", format: "roster",
			want: []string{"007|a@x.org|||Ada|1|student", "08|b@x.org|||Bo|2|staff"},
		},
		{name: "any_order_and_case", in: "SECTION,Full Name,E-Mail\n1,Ada,a@x.org\n", format: "roster", want: []string{"|a@x.org|||Ada|1|"}},
		{name: "semicolon", in: "name;email\n\"Ada; of L.\";a@x.org\n", format: "roster", want: []string{"|a@x.org|||Ada; of L.||"}},
		{name: "tab", in: "name\temail\nAda, B\ta@x.org\n", format: "roster", want: []string{"|a@x.org|||Ada, B||"}},
		{name: "excels_own_line", in: "sep=;\nname;email\nAda;a@x.org\n", format: "roster", want: []string{"|a@x.org|||Ada||"}},
		{name: "byte_order_mark", in: "\ufeffemail,name\r\na@x.org,Ada\r\n", format: "roster", want: []string{"|a@x.org|||Ada||"}},
		{name: "old_line_ends", in: "email,name\ra@x.org,Ada\r", format: "roster", want: []string{"|a@x.org|||Ada||"}},
		{name: "quotes_and_lines", in: "email,name\na@x.org,\"Ada \"\"A\"\"\n  L.\"\n", format: "roster", want: []string{"|a@x.org|||Ada \"A\" L.||"}},
		{name: "first_and_last", in: "First Name,Surname,SID\nAda,L.,007\n", format: "roster", want: []string{"007||||Ada L.||"}},
		{name: "spreadsheet_text", in: "student id,name\n\"=\"\"0042\"\"\",Ada\n", format: "roster", want: []string{"0042||||Ada||"}},
		{name: "neutral_marks_are_taken_off", in: "student id,name\n1,'=cmd()\n2,O'Neil\n3,'Abd\n", format: "roster", want: []string{"1||||=cmd()||", "2||||O'Neil||", "3||||'Abd||"}},
		{name: "short_and_empty_rows", in: "email,name,section\na@x.org\n,,\n\nb@x.org,Bo,1,,\n", format: "roster", want: []string{"|a@x.org|||||", "|b@x.org|||Bo|1|"}},
		{name: "latin_1", in: "email,name\na@x.org,Zo\xeb\n", format: "roster", want: []string{"|a@x.org|||Zoë||"}, notes: []string{"f.csv is not UTF-8 and was read as Latin-1 (Windows-1252): look at letters with accents"}},
		{name: "control_characters", in: "email,name\na@x.org,A\x1b[2Jda\u202e\n", format: "roster", want: []string{"|a@x.org|||A\ufffd[2Jda\ufffd||"}},
		{name: "observers", in: "email,name,role\na@x.org,Ada,student\nb@x.org,Bo,Observer\n", format: "roster", want: []string{"|a@x.org|||Ada||student"}, notes: []string{"line 3 left out: Bo only looks on (Observer)"}},
		{
			name: "canvas", format: "Canvas gradebook",
			in:   "Student,ID,SIS User ID,SIS Login ID,Section,Lab 1 (4711)\nManual Posting,,,,,\n    Points Possible,,,,,10\n\"L., Ada\",900,007,ada,\"1, 2\",9\n\"Student, Test\",903,,f00,1,\n",
			want: []string{"007||ada|900|Ada L.|1, 2|"}, notes: []string{"line 5 left out: Canvas's test student"},
		},
		{
			name: "canvas_users", format: "Canvas SIS users",
			in:   "user_id,login_id,first_name,last_name,email,status\n007,ada,Ada,L.,a@x.org,active\n008,bo,Bo,B.,b@x.org,deleted\n",
			want: []string{"007|a@x.org|ada||Ada L.||"}, notes: []string{"line 3 left out: 008 is deleted"},
		},
		{
			name: "canvas_enrollments", format: "Canvas SIS enrollments",
			in:   "course_id,user_id,role,section_id,status\nc1,007,student,s1,active\nc1,007,student,s2,active\nc1,9,teacher,,active\nc1,10,student,s1,inactive\n",
			want: []string{"007|||||s1, s2|student", "9||||||staff"}, notes: []string{"line 5 left out: 10 is inactive"},
		},
		{
			name: "gradescope", format: "roster",
			in:   "First Name,Last Name,SID,Email,Role,Section\nAda,L.,007,a@x.org,Student,1\nBo,B.,8,b@x.org,Instructor,\n",
			want: []string{"007|a@x.org|||Ada L.|1|student", "8|b@x.org|||Bo B.||staff"},
		},
		{
			name: "moodle_participants", format: "roster",
			in:   "\"First name\",\"Last name\",\"ID number\",\"Email address\",Groups\nAda,L.,007,a@x.org,red\n",
			want: []string{"007|a@x.org|||Ada L.||"},
		},
		{
			name: "moodle_worksheet", format: "roster",
			in:   "Identifier,Full name,Email address,Status,Grade\nParticipant 5,Ada L.,a@x.org,No submission,\n",
			want: []string{"|a@x.org|||Ada L.||"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r, err := ReadRoster("f.csv", []byte(tt.in))
			if err != nil {
				t.Fatal(err)
			}
			if r.Format != tt.format {
				t.Errorf("format %q, want %q", r.Format, tt.format)
			}
			if diff := cmp.Diff(tt.want, people(r)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.notes, r.Notes); diff != "" {
				t.Errorf("notes (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRosterIsRefused(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, in, want string }{
		{"empty", "", "f.csv is empty"},
		{"nobody", "email,name\n", "f.csv names nobody"},
		{"no_header", "a@x.org,Ada\n", "f.csv has no column that tells people apart"},
		{"name_only", "name,section\nAda,1\n", "f.csv has no column that tells people apart"},
		{"column_twice", "email,name,E-Mail\n", `f.csv: two columns are named "E-Mail"`},
		{"id_twice", "student id\n7\n07\n7\n", "f.csv cannot be used:\n  line 4: student ID \"7\" is on line 2 already"},
		{"address_twice", "email\nA@x.org\na@X.org\n", "f.csv cannot be used:\n  line 3: e-mail address \"a@x.org\" is on line 2 already"},
		{"nothing_to_know_by", "email,name\n,Ada\n", "f.csv cannot be used:\n  line 2: \"Ada\" has neither student ID nor e-mail address nor login"},
		{"no_address", "email\nada\n", "f.csv cannot be used:\n  line 2: \"ada\" is not an e-mail address"},
		{"counted", "student id\n1.23457E+09\n", "f.csv cannot be used:\n  line 2: the student ID 1.23457E+09 was made a number by a spreadsheet: format the column as text"},
		{"role", "email,role\na@x.org,king\n", "f.csv cannot be used:\n  line 2: the role \"king\" is not known (student, staff, teacher, ta, …)"},
		{"too_many_cells", "email,name\na@x.org,Ada,L.\n", "f.csv cannot be used:\n  line 2: 3 cells, but only 2 columns are named"},
		{"all_lines_are_told", "email\na\n\nb\n", "f.csv cannot be used:\n  line 2: \"a\" is not an e-mail address\n  line 4: \"b\" is not an e-mail address"},
		{"quote", "email,name\na@x.org,\"Ada\" L.\n", `f.csv: line 2: extraneous or missing " in quoted-field`},
		{"not_text", "PK\x03\x04\x00\x00", "f.csv is not a text file"},
		{"a_school", "course_id,user_id,role,section_id,status\nc1,1,student,,active\nc2,2,student,,active\n", "f.csv cannot be used:\n  it has the enrolments of 2 courses: keep the lines of one course_id"},
		{"long_name", "email,name\na@x.org," + strings.Repeat("a", 201) + "\n", fmt.Sprintf("f.csv cannot be used:\n  line 2: %q is longer than 200 bytes", strings.Repeat("a", 60)+"…")},
		{"too_many_rows", "email\n" + strings.Repeat("x\n", 20_001), "f.csv has more than 20000 rows"},
		{"too_many_troubles", "email\n" + strings.Repeat("x\n", 12), "f.csv cannot be used:" + lines(2, 11) + "\n  and 2 more"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := ReadRoster("f.csv", []byte(tt.in))
			if err == nil || err.Error() != tt.want || !fault.Is(err, fault.Invalid) {
				t.Errorf("got %v (%s)\nwant %s", err, fault.KindOf(err), tt.want)
			}
		})
	}
}

func lines(from, to int) string {
	text := ""
	for i := from; i <= to; i++ {
		text += fmt.Sprintf("\n  line %d: \"x\" is not an e-mail address", i)
	}
	return text
}

// TestRosterEncodings reads the same roster in each encoding.
func TestRosterEncodings(t *testing.T) {
	t.Parallel()
	const text = "student id;name\r\n007;Zoë Müller–Šmid\r\n"
	encode := func(e interface{ Bytes([]byte) ([]byte, error) }) []byte {
		data, err := e.Bytes([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	for name, data := range map[string][]byte{
		"utf-8":        []byte(text),
		"utf-8 bom":    []byte("\ufeff" + text),
		"utf-16 le":    encode(unicode.UTF16(unicode.LittleEndian, unicode.UseBOM).NewEncoder()),
		"utf-16 be":    encode(unicode.UTF16(unicode.BigEndian, unicode.UseBOM).NewEncoder()),
		"windows-1252": encode(charmap.Windows1252.NewEncoder()),
	} {
		r, err := ReadRoster("f.csv", data)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if diff := cmp.Diff([]string{"007||||Zoë Müller–Šmid||"}, people(r)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestPlanRoster(t *testing.T) {
	t.Parallel()
	now := []Person{
		{ID: "p1", StudentID: "007", Email: "a@x.org", Name: "Ada", Section: "1", Role: Student},
		{ID: "p2", Email: "b@x.org", Name: "Bo", Section: "2", Role: Student},
		{ID: "p3", Email: "t@x.org", Name: "Tee", Role: Staff},
		{ID: "p4", StudentID: "9", Name: "Cy", Role: Student, Removed: instant()},
	}
	tests := []struct {
		name, in string
		want     []string
		err      string
	}{
		{name: "same", in: "student id,email,name,section\n007,a@x.org,Ada,1\n,b@x.org,Bo,2\n", want: []string{"3 unchanged"}},
		{name: "staff_stay_if_no_roles_are_said", in: "email\na@x.org\nb@x.org\n", want: []string{"3 unchanged"}},
		{name: "staff_go_if_roles_are_said", in: "email,role\na@x.org,student\nb@x.org,student\n", want: []string{"-Tee", "2 unchanged"}},
		{name: "students_leave", in: "email\na@x.org\n", want: []string{"-Bo", "2 unchanged"}},
		{name: "known_by_id_though_the_address_is_new", in: "student id,email\n007,ada@y.org\n,b@x.org\n", want: []string{"Ada email: a@x.org → ada@y.org", "2 unchanged"}},
		{name: "known_by_address_though_the_id_is_new", in: "student id,email\n007,a@x.org\n008,b@x.org\n", want: []string{"Bo student id: (none) → 008", "2 unchanged"}},
		{name: "an_empty_cell_takes_no_id_away", in: "student id,email,name\n,a@x.org,\n,b@x.org,\n", want: []string{"3 unchanged"}},
		{name: "section_may_end", in: "email,section\na@x.org,\nb@x.org,2\n", want: []string{"Ada section: 1 → (none)", "2 unchanged"}},
		{name: "somebody_comes_back", in: "student id,email\n007,\n9,\n,b@x.org\n", want: []string{"Cy comes back", "3 unchanged"}},
		{name: "new", in: "email,name\na@x.org,Ada\nb@x.org,Bo\nd@x.org,Di\n", want: []string{"+Di student", "3 unchanged"}},
		{name: "role_changes", in: "email,role\na@x.org,ta\nb@x.org,student\nt@x.org,teacher\n", want: []string{"Ada role: student → staff", "2 unchanged"}},
		{name: "two_lines_for_one_person", in: "student id,email\n007,\n,a@x.org\n", err: "the roster cannot be used:\n  line 3: Ada is on line 2 already"},
		{name: "an_address_of_two", in: "student id,email\n007,b@x.org\n,t@x.org\n", want: []string{"Ada email: a@x.org → b@x.org", "-Bo", "1 unchanged"}},
		{name: "an_address_of_staff", in: "student id,email\n007,t@x.org\n", err: "the roster cannot be used:\n  Ada and Tee would share the e-mail address \"t@x.org\""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r, err := ReadRoster("f.csv", []byte(tt.in))
			if err != nil {
				t.Fatal(err)
			}
			plan, err := planRoster(now, r)
			if err != nil || tt.err != "" {
				if err == nil || err.Error() != tt.err {
					t.Errorf("error %v, want %s", err, tt.err)
				}
				return
			}
			var got []string
			for _, p := range plan.Added {
				got = append(got, "+"+p.Label()+" "+string(p.Role))
			}
			for _, c := range plan.Changed {
				got = append(got, c.Before.Label()+" "+strings.Join(c.Fields(), ", "))
			}
			for _, p := range plan.Removed {
				got = append(got, "-"+p.Label())
			}
			got = append(got, fmt.Sprint(plan.Unchanged, " unchanged"))
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestFindPerson(t *testing.T) {
	t.Parallel()
	list := []Person{
		{ID: "p1", StudentID: "007", Email: "ada@x.org", Name: "Ada"},
		{ID: "p2", StudentID: "7", Login: "bo", Name: "Bo"},
		{ID: "p3", Email: "bo@y.org", Name: "Ada"},
		{ID: "p4", StudentID: "9", Name: "Gone", Removed: instant()},
	}
	for who, want := range map[string]string{
		"007": "p1", "7": "p2", "ADA@x.org": "p1", "bo": "p2", "p3": "p3", " Bo ": "p2",
		"Ada": "conflict", "Gone": "not_found", "9": "not_found", "": "not_found", "x": "not_found",
	} {
		p, err := Find(list, who)
		got := p.ID
		if err != nil {
			got = fault.KindOf(err).String()
		}
		if got != want {
			t.Errorf("%q is %s, %v; want %s", who, got, err, want)
		}
	}
}

func FuzzReadRoster(f *testing.F) {
	f.Add([]byte("email,student id,name\na@x.org,007,\"Ada; L.\"\n"))
	f.Add([]byte("\xff\xfee\x00m\x00a\x00i\x00l\x00\n\x00a\x00@\x00b\x00"))
	f.Add([]byte("Student,ID,SIS User ID,SIS Login ID,Section\n\"L., A\",1,2,3,4\n"))
	f.Add([]byte("course_id,user_id,role,section_id,status\nc,1,student,s,active\n"))
	f.Add([]byte("sep=;\nid;name\n\"=\"\"01\"\"\";'=x\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := ReadRoster("f.csv", data)
		if err != nil {
			if !fault.Is(err, fault.Invalid) {
				t.Errorf("%v is %s", err, fault.KindOf(err))
			}
			return
		}
		seen := map[string]bool{}
		for _, l := range r.Lines {
			keys := identities(l.Person)
			if len(keys) == 0 {
				t.Errorf("line %d names nobody", l.Line)
			}
			for _, k := range keys {
				if seen[k] {
					t.Errorf("%q is there twice", k)
				}
				seen[k] = true
			}
			for _, text := range []string{l.Person.StudentID, l.Person.Email, l.Person.Name, l.Person.Section} {
				if !utf8.ValidString(text) || strings.ContainsAny(text, "\x00\x1b\n\r\t") || len(text) > maxTitle {
					t.Errorf("line %d has %q", l.Line, text)
				}
			}
		}
		if _, err := planRoster(nil, r); err != nil {
			t.Errorf("into an empty course: %v", err)
		}
	})
}
