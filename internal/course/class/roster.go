package class

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"assay/internal/fault"
)

// Roster is what a roster's file says, not yet compared with any course.
type Roster struct {
	// Format names the kind of the file.
	Format string
	Lines  []RosterLine
	// Notes tell what was guessed or left out.
	Notes []string

	has map[string]bool // which columns there are
}

// RosterLine is one person of a roster's file. Role is "" if the file says none.
type RosterLine struct {
	Line   int
	Person Person
}

type rosterColumn struct {
	field string
	names []string
}

// The columns of a roster, each with the names it goes by, in the order in
// which they are believed.
var rosterColumns = []rosterColumn{
	{"student id", []string{"studentid", "sisuserid", "sid", "idnumber", "studentnumber", "studentno", "orgdefinedid", "userid", "id"}},
	{"email", []string{"email", "emailaddress", "mail"}},
	{"login", []string{"login", "loginid", "sisloginid", "username", "netid"}},
	{"name", []string{"name", "fullname", "studentname", "displayname", "student"}},
	{"first name", []string{"firstname", "givenname", "forename"}},
	{"last name", []string{"lastname", "surname", "familyname"}},
	{"section", []string{"section", "sections", "sectionid"}},
	{"role", []string{"role", "roles"}},
}

var roleNames = map[string]Role{
	"student": Student, "learner": Student, "studentenrollment": Student,
	"staff": Staff, "teacher": Staff, "teacherenrollment": Staff, "instructor": Staff, "professor": Staff, "lecturer": Staff,
	"ta": Staff, "taenrollment": Staff, "teachingassistant": Staff, "assistant": Staff, "tutor": Staff, "grader": Staff, "reader": Staff,
	"designer": Staff, "designerenrollment": Staff, "editingteacher": Staff, "noneditingteacher": Staff, "manager": Staff,
}

// Those who are on a roster only to look.
var lookersOn = []string{"observer", "observerenrollment", "guest", "studentviewenrollment"}

// States of a line in files of a student information system that mean that the
// person is not in the course.
var goneStates = []string{"deleted", "inactive", "completed", "concluded", "suspended", "deletedlastcompleted"}

// countedByAccident is what a spreadsheet makes of a long number.
var countedByAccident = regexp.MustCompile(`^[0-9](\.[0-9]+)?[Ee]\+[0-9]+$`)

// The formats of a roster.
const (
	formatOwn         = "roster"
	formatCanvas      = "Canvas gradebook"
	formatUsers       = "Canvas SIS users"
	formatEnrollments = "Canvas SIS enrollments"
)

// ReadRoster reads a roster from CSV: our own with columns in any order, files
// of Canvas (gradebook, SIS users, SIS enrollments), Moodle and Gradescope. It
// is all or nothing: each line that cannot be used is named in the error. name
// is for messages.
func ReadRoster(name string, data []byte) (Roster, error) {
	s, err := readSheet(name, data)
	if err != nil {
		return Roster{}, err
	}
	columns, err := rosterHeader(s)
	if err != nil {
		return Roster{}, err
	}
	r := Roster{Format: rosterFormat(s), Notes: s.notes, has: map[string]bool{}}
	for field := range columns {
		r.has[field] = true
	}
	bad := troubles{name: name}
	if r.Format == formatEnrollments {
		oneCourse(s, &bad)
	}
	seen := map[string]int{}
	for _, row := range s.rows {
		p, skip, err := r.person(s, columns, row)
		switch {
		case err != nil:
			bad.add(fmt.Sprintf("line %d: %s", row.line, err))
			continue
		case skip != "":
			if skip != "silently" {
				r.Notes = append(r.Notes, fmt.Sprintf("line %d left out: %s", row.line, skip))
			}
			continue
		}
		if r.Format == formatEnrollments && r.merge(p) {
			continue
		}
		for _, key := range identities(p) {
			if first, twice := seen[key]; twice {
				what, value, _ := strings.Cut(key, " ")
				bad.add(fmt.Sprintf("line %d: %s %q is on line %d already", row.line, strings.ReplaceAll(what, "_", " "), value, first))
			} else {
				seen[key] = row.line
			}
		}
		r.Lines = append(r.Lines, RosterLine{row.line, p})
	}
	if err := bad.fault(); err != nil {
		return Roster{}, err
	}
	if len(r.Lines) == 0 {
		return Roster{}, fault.Errorf(fault.Invalid, "%s names nobody", name)
	}
	return r, nil
}

// identities are what no two people of a roster may share.
func identities(p Person) []string {
	var keys []string
	for _, k := range [][2]string{
		{"student_ID", p.StudentID},
		{"e-mail_address", strings.ToLower(p.Email)},
		{"login", strings.ToLower(p.Login)},
		{"Canvas_ID", p.CanvasID},
	} {
		if k[1] != "" {
			keys = append(keys, k[0]+" "+k[1])
		}
	}
	return keys
}

func rosterFormat(s sheet) string {
	var names []string
	for _, h := range s.header {
		names = append(names, bare(plain(h)))
	}
	has := func(list ...string) bool {
		return !slices.ContainsFunc(list, func(n string) bool { return !slices.Contains(names, n) })
	}
	switch {
	case has("courseid", "userid", "role", "status"):
		return formatEnrollments
	case has("userid", "loginid", "status"):
		return formatUsers
	case has("student", "id") && (has("sisuserid") || has("sisloginid")):
		return formatCanvas
	}
	return formatOwn
}

// rosterHeader finds the columns of a roster by field.
func rosterHeader(s sheet) (map[string]int, error) {
	columns := map[string]int{}
	byName := map[string]int{}
	for i, h := range s.header {
		name := bare(plain(h))
		known := slices.ContainsFunc(rosterColumns, func(c rosterColumn) bool { return slices.Contains(c.names, name) })
		if _, twice := byName[name]; twice && known {
			return nil, fault.Errorf(fault.Invalid, "%s: two columns are named %q", s.name, plain(h)).WithHint("rename or remove one of them")
		}
		byName[name] = i
	}
	format := rosterFormat(s)
	for _, c := range rosterColumns {
		for _, name := range c.names {
			if i, ok := byName[name]; ok && (format != formatCanvas || name != "id") {
				columns[c.field] = i
				break
			}
		}
	}
	if format == formatCanvas {
		columns["canvas id"] = byName["id"]
	}
	if i, ok := byName["status"]; ok && (format == formatUsers || format == formatEnrollments) {
		columns["status"] = i
	}
	for _, id := range []string{"student id", "email", "login", "canvas id"} {
		if _, ok := columns[id]; ok {
			return columns, nil
		}
	}
	return nil, fault.Errorf(fault.Invalid, "%s has no column that tells people apart", s.name).
		WithHint("the first line must name the columns: one of email, student id, login; also name, section, role")
}

// person reads one line. skip is why the line is left out on purpose.
func (r *Roster) person(s sheet, columns map[string]int, row sheetRow) (p Person, skip string, err error) {
	get := func(field string) string {
		if i, ok := columns[field]; ok {
			return plain(row.cell(i))
		}
		return ""
	}
	if n := len(row.cells); n > len(s.header) && strings.TrimSpace(strings.Join(row.cells[len(s.header):], "")) != "" {
		return p, "", fault.Errorf(fault.Invalid, "%d cells, but only %d columns are named", n, len(s.header))
	}
	if slices.Contains(goneStates, bare(get("status"))) {
		return p, fmt.Sprintf("%s is %s", cmp.Or(get("name"), get("student id")), get("status")), nil
	}
	p = Person{
		StudentID: get("student id"), Email: get("email"), Login: get("login"), CanvasID: get("canvas id"),
		Name: get("name"), Section: get("section"),
	}
	if full := strings.TrimSpace(get("first name") + " " + get("last name")); p.Name == "" {
		p.Name = full
	}
	if r.Format == formatCanvas {
		if p.CanvasID == "" {
			return p, "silently", nil // Points Possible, Manual Posting
		}
		if strings.EqualFold(p.Name, "Student, Test") && p.StudentID == "" {
			return p, "Canvas's test student", nil
		}
		if last, first, two := strings.Cut(p.Name, ", "); two && !strings.Contains(first, ",") {
			p.Name = first + " " + last
		}
	}
	switch role := bare(get("role")); {
	case role == "":
	case slices.Contains(lookersOn, role):
		return p, fmt.Sprintf("%s only looks on (%s)", p.Label(), get("role")), nil
	case roleNames[role] == "":
		return p, "", fault.Errorf(fault.Invalid, "the role %q is not known (student, staff, teacher, ta, …)", clip(get("role")))
	default:
		p.Role = roleNames[role]
	}
	for _, f := range []string{p.StudentID, p.Email, p.Login, p.CanvasID, p.Name, p.Section} {
		if len(f) > maxTitle {
			return p, "", fault.Errorf(fault.Invalid, "%q is longer than %d bytes", clip(f), maxTitle)
		}
	}
	switch {
	case len(identities(p)) == 0:
		return p, "", fault.Errorf(fault.Invalid, "%q has neither student ID nor e-mail address nor login", clip(p.Name))
	case countedByAccident.MatchString(p.StudentID):
		return p, "", fault.Errorf(fault.Invalid, "the student ID %s was made a number by a spreadsheet: format the column as text", p.StudentID)
	case p.Email != "" && !mayBeAddress(p.Email):
		return p, "", fault.Errorf(fault.Invalid, "%q is not an e-mail address", clip(p.Email))
	}
	return p, "", nil
}

// merge joins the enrolment in a second section with the first one.
func (r *Roster) merge(p Person) bool {
	for i := range r.Lines {
		q := &r.Lines[i].Person
		if q.StudentID == p.StudentID && q.Role == p.Role && q.Section != p.Section {
			q.Section = strings.Trim(q.Section+", "+p.Section, ", ")
			return true
		}
	}
	return false
}

// oneCourse refuses the enrolments of a whole school.
func oneCourse(s sheet, bad *troubles) {
	column := slices.IndexFunc(s.header, func(h string) bool { return bare(plain(h)) == "courseid" })
	courses := map[string]bool{}
	for _, row := range s.rows {
		courses[plain(row.cell(column))] = true
	}
	if len(courses) > 1 {
		bad.add(fmt.Sprintf("it has the enrolments of %d courses: keep the lines of one course_id", len(courses)))
	}
}

func mayBeAddress(text string) bool {
	local, domain, ok := strings.Cut(text, "@")
	return ok && local != "" && domain != "" && !strings.ContainsAny(text, " ,;<>") && !strings.Contains(domain, "@")
}

// clip bounds what a message repeats.
func clip(text string) string {
	if len(text) <= 60 {
		return text
	}
	return strings.ToValidUTF8(text[:60], "") + "…"
}
