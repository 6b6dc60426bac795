package classes

import (
	"context"
	"fmt"
	"io"
	"regexp"
	"slices"
	"time"

	"assay/internal/account"
	"assay/internal/course"
	"assay/internal/course/class"
	"assay/internal/course/grading"
	"assay/internal/fault"
)

// CheckState is how far the check of a version is.
type CheckState string

// The states of a version. Passed and Failed have been checked; of a Broken one
// not even the tests could be found.
const (
	Checking CheckState = "checking"
	Passed   CheckState = "passed"
	Failed   CheckState = "failed"
	Broken   CheckState = "broken"
)

// Version is one immutable package of an assignment.
type Version struct {
	ID                 string
	Course, Assignment string
	// Number counts an assignment's versions from 1.
	Number int
	// Digest is of all that decides a grade ("sha256:…"); packages that differ in
	// title or due time share it. Package is the blob.
	Digest, Package string
	State           CheckState
	// Checks are what grading.Verify looked at; Why says what broke.
	Checks []grading.Check
	Why    string
	About
	Uploaded time.Time
	By       string
	// Opened is when it was opened first, and Despite why that was done although
	// a check had failed.
	Opened  time.Time
	Despite string
}

// About is what there is to tell of a package without reading it again.
type About struct {
	// Class is what the course gets to know when the version is opened. Its
	// points are known once the version has been checked.
	Class    class.Assignment  `json:"class"`
	Mode     course.Mode       `json:"mode"`
	Language string            `json:"language,omitempty"`
	Template string            `json:"template,omitempty"`
	Tests    int               `json:"tests"`
	Stdout   course.Visibility `json:"stdout"`
	Expected []ExpectedFile    `json:"expected"`
	Starter  bool              `json:"starter,omitempty"`
}

// ExpectedFile is a file that is to be handed in.
type ExpectedFile struct {
	Pattern  string `json:"pattern"`
	Optional bool   `json:"optional,omitempty"`
}

func (a About) expected() []course.ExpectedFile {
	var list []course.ExpectedFile
	for _, e := range a.Expected {
		list = append(list, course.ExpectedFile(e))
	}
	return list
}

func aboutOf(a *course.Assignment) About {
	out := About{
		Class: class.AssignmentOf(a), Mode: a.Mode, Language: a.Language, Template: a.Template, Tests: len(a.Tests), Stdout: a.StdoutVisibility, Starter: len(a.Starter) > 0,
	}
	for _, e := range a.Expected {
		out.Expected = append(out.Expected, ExpectedFile(e))
	}
	return out
}

// maxPackage bounds a package, in bytes; unpacked it has the bounds of handin.
const maxPackage = 100 << 20

var assignmentName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$`)

// Upload makes a package, a zip of an assignment's folder, the next version of
// an assignment. A job checks it before it can be opened. The same package again
// is the version that it was; a Broken one is checked again. Kinds of error: Invalid and NotFound for the
// package, Denied, Exhausted when it does not fit.
func (s *Service) Upload(ctx context.Context, courseID, name string, zip io.Reader) (Version, error) {
	at, err := s.enter(ctx, courseID, account.Change, account.AssignmentThing)
	if err != nil {
		return Version{}, err
	}
	if err := s.writable(ctx, at); err != nil {
		return Version{}, err
	}
	if !assignmentName.MatchString(name) {
		return Version{}, fault.Errorf(fault.Invalid, "%q cannot name an assignment", name).WithHint("use up to 100 letters, digits and . _ -")
	}
	f, size, err := spool(s.dir, zip, maxPackage)
	if err != nil {
		return Version{}, err
	}
	defer f.Close()
	a, err := readPackage(name, f, size)
	if err != nil {
		return Version{}, err
	}
	if len(a.Solution) == 0 {
		return Version{}, fault.Errorf(fault.Invalid, "assignment %s has no solution, so nothing can check it", name).
			WithHint("put a solution that passes all tests into the folder solution")
	}
	v := Version{
		ID: newID(), Course: courseID, Assignment: name, Digest: a.Version, State: Checking, About: aboutOf(a), Uploaded: now(), By: at.actor.Name,
	}
	if v.Package, _, err = s.blobs.Put(ctx, io.NewSectionReader(f, 0, size), size); err != nil {
		return Version{}, err
	}
	kept, err := s.store.AddVersion(ctx, v)
	if err != nil {
		return Version{}, err
	}
	s.queue.Wake(CheckJob)
	return kept, nil
}

// writable refuses a course that is archived.
func (s *Service) writable(ctx context.Context, at seat) error {
	archived, err := s.store.Archived(ctx)
	if err != nil {
		return err
	}
	if !archived[at.course].IsZero() {
		return fault.Errorf(fault.Conflict, "course %s is archived", at.course)
	}
	return nil
}

// Version gives one version with its checks; for who runs the course.
func (s *Service) Version(ctx context.Context, courseID, name string, number int) (Version, error) {
	if _, err := s.enter(ctx, courseID, account.ReadHidden, account.AssignmentThing); err != nil {
		return Version{}, err
	}
	return s.store.Version(ctx, courseID, name, number)
}

// Versions are all of an assignment, newest first; for who runs the course.
func (s *Service) Versions(ctx context.Context, courseID, name string) ([]Version, error) {
	if _, err := s.enter(ctx, courseID, account.ReadHidden, account.AssignmentThing); err != nil {
		return nil, err
	}
	return s.store.Versions(ctx, courseID, name)
}

// Opening says how a version is opened.
type Opening struct {
	// Despite is why it is opened although a check has failed.
	Despite string
	// Anonymous hides from staff who handed in what, until it is published.
	Anonymous bool
}

// Open lets people hand in, to be graded by a version, which must have been
// checked: Conflict while it has not, and where a check failed and nobody says
// why that is no matter.
func (s *Service) Open(ctx context.Context, courseID, name string, number int, o Opening) (Task, error) {
	at, err := s.enter(ctx, courseID, account.Change, account.AssignmentThing)
	if err != nil {
		return Task{}, err
	}
	if err := s.writable(ctx, at); err != nil {
		return Task{}, err
	}
	v, err := s.store.Version(ctx, courseID, name, number)
	if err != nil {
		return Task{}, err
	}
	switch {
	case v.State == Checking:
		return Task{}, fault.Errorf(fault.Conflict, "version %d of %s is being checked", number, name).WithHint("wait for the check")
	case v.State == Broken:
		return Task{}, fault.Errorf(fault.Conflict, "version %d of %s cannot be graded by: %s", number, name, v.Why).WithHint("mend it and upload it again")
	case v.State == Failed && o.Despite == "":
		return Task{}, fault.Errorf(fault.Conflict, "version %d of %s has not passed its check: %s", number, name, failedChecks(v.Checks)).
			WithHint("mend it and upload it again, or say why that is no matter")
	case len(o.Despite) > maxReason:
		return Task{}, fault.Errorf(fault.Invalid, "the reason has more than %d bytes", maxReason)
	}
	v.Opened = now()
	if v.State == Failed {
		v.Despite = course.Clean(o.Despite)
	}
	err = s.store.OpenVersion(ctx, v, func(rec class.Records) error {
		a := v.Class
		a.Anonymous = o.Anonymous
		return class.PutAssignment(ctx, rec, a)
	})
	if err != nil {
		return Task{}, err
	}
	return s.task(ctx, at, name)
}

const maxReason = 1000

// failedChecks names the first check that failed and how many there are.
func failedChecks(checks []grading.Check) string {
	bad := slices.DeleteFunc(slices.Clone(checks), func(c grading.Check) bool { return c.OK })
	if len(bad) == 0 {
		return "no check was made"
	}
	text := fmt.Sprintf("%s %s: want %s, got %s", bad[0].Kind, bad[0].Name, bad[0].Want, bad[0].Got)
	if len(bad) > 1 {
		text += fmt.Sprintf(", and %d more", len(bad)-1)
	}
	return text
}

// Close ends the handing in; Reopen begins it again, with the version of before.
func (s *Service) Close(ctx context.Context, courseID, name string) (Task, error) {
	return s.openTask(ctx, courseID, name, false)
}

// Reopen lets people hand in again.
func (s *Service) Reopen(ctx context.Context, courseID, name string) (Task, error) {
	return s.openTask(ctx, courseID, name, true)
}

func (s *Service) openTask(ctx context.Context, courseID, name string, open bool) (Task, error) {
	at, err := s.enter(ctx, courseID, account.Change, account.AssignmentThing)
	if err != nil {
		return Task{}, err
	}
	if err := s.writable(ctx, at); err != nil {
		return Task{}, err
	}
	if err := s.store.OpenTask(ctx, courseID, name, open); err != nil {
		return Task{}, err
	}
	return s.task(ctx, at, name)
}
