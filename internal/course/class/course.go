package class

import (
	"regexp"
	"strings"
	"time"
	_ "time/tzdata" // a course's zone must be known on every host

	"assay/internal/course"
	"assay/internal/fault"
	"assay/internal/judge"
)

// Course is one class in one term.
type Course struct {
	// ID is short and for typing: "algorithms-2026".
	ID    string `json:"id"`
	Title string `json:"title"`
	// Zone is the IANA name of the zone in which work is due.
	Zone    string    `json:"zone"`
	Created time.Time `json:"created"`
	// Key makes the course's pseudonyms; it never leaves the store.
	Key []byte `json:"-"`
}

var (
	courseID       = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,63}$`)
	assignmentName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$`)
)

const (
	maxTitle  = 200
	maxReason = 1000
)

func (c Course) check() error {
	if !courseID.MatchString(c.ID) {
		return fault.Errorf(fault.Invalid, "%q cannot name a course", c.ID).
			WithHint("use up to 64 small letters, digits and . _ -, for example algorithms-2026")
	}
	if len(c.Title) > maxTitle {
		return fault.Errorf(fault.Invalid, "the title has more than %d bytes", maxTitle)
	}
	_, err := c.location()
	return err
}

func (c Course) location() (*time.Location, error) {
	// "" and "Local" would be whatever the host has.
	if c.Zone != "" && c.Zone != "Local" {
		if zone, err := time.LoadLocation(c.Zone); err == nil {
			return zone, nil
		}
	}
	return nil, fault.Errorf(fault.Invalid, "%q is not a time zone", c.Zone).
		WithHint("name it as in Europe/Warsaw, America/New_York or UTC")
}

// Assignment is what a course knows of an assignment: what decides marks beside
// the grades.
type Assignment struct {
	Name  string `json:"name"`
	Title string `json:"title"`
	// Version is that of the newest grading; "" for work marked by hand.
	Version  string             `json:"version,omitempty"`
	Points   judge.Score        `json:"points"`
	Due      course.LocalTime   `json:"due,omitzero"`
	Late     course.LateRule    `json:"late"`
	Attempts course.AttemptRule `json:"attempts"`
	// Anonymous hides from staff who handed in what, until Published.
	Anonymous bool      `json:"anonymous,omitempty"`
	Published time.Time `json:"published,omitzero"`
	Created   time.Time `json:"created"`
}

// AssignmentOf takes from an assignment what a course needs of it.
func AssignmentOf(a *course.Assignment) Assignment {
	return Assignment{
		Name: a.Name, Title: a.Title, Version: a.Version, Points: a.Points,
		Due: a.Due, Late: a.Late, Attempts: a.Attempts,
	}
}

// Hidden says that names and marks must not be seen together.
func (a Assignment) Hidden() bool { return a.Anonymous && a.Published.IsZero() }

func (a Assignment) check() error {
	switch {
	case !assignmentName.MatchString(a.Name):
		return fault.Errorf(fault.Invalid, "%q cannot name an assignment", a.Name).WithHint("use up to 100 letters, digits and . _ -")
	case len(a.Title) > maxTitle:
		return fault.Errorf(fault.Invalid, "assignment %s: the title has more than %d bytes", a.Name, maxTitle)
	case a.Points.Sign() < 0:
		return fault.Errorf(fault.Invalid, "assignment %s: %s points are less than none", a.Name, a.Points)
	}
	return nil
}

// fitReason cleans a reason and refuses one that is missing.
func fitReason(reason string) (string, error) {
	reason = strings.TrimSpace(course.Clean(reason))
	switch {
	case reason == "":
		return "", fault.Errorf(fault.Invalid, "a reason is needed").WithHint("say why in a few words with --reason")
	case len(reason) > maxReason:
		return "", fault.Errorf(fault.Invalid, "the reason has more than %d bytes", maxReason)
	}
	return reason, nil
}
