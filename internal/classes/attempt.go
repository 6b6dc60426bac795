package classes

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"assay/internal/account"
	"assay/internal/course"
	"assay/internal/course/class"
	"assay/internal/course/handin"
	"assay/internal/fault"
)

// State is how far a grading is.
type State string

// The states of a grading.
const (
	Queued    State = "queued"
	Running   State = "running"
	Done      State = "done"
	Cancelled State = "cancelled"
)

// Attempt is what somebody handed in. It never changes.
type Attempt struct {
	ID                 string
	Course, Assignment string
	// Person handed it in, for Group if that is not "".
	Person, Group string
	// User is the ID of the account, Login what it is called.
	User, Login string
	// Version is the number of the version that it was handed in for, and
	// VersionDigest that version's.
	Version       int
	VersionDigest string
	// Digest is course.Submission's, Files the blob that holds the files.
	Digest, Files string
	// Notes say what was dropped or unpacked while it was read.
	Notes    []string
	Received time.Time
	// Grading is the first one. Those of regrade sets are theirs.
	Grading Grading
	// Idempotency is the caller's key and IdempotencyBody what was asked with it;
	// "" is none.
	Idempotency, IdempotencyBody string
}

// Page is where the page after this attempt begins.
func (a Attempt) Page() string { return pageKey(a.Received, a.ID) }

func (a Attempt) waiting() class.Attempt {
	return class.Attempt{ID: a.ID, Assignment: a.Assignment, Person: a.Person, Group: a.Group, Digest: a.Digest, Received: a.Received}
}

// Grading is one grading of an attempt.
type Grading struct {
	ID, Attempt        string
	Course, Assignment string
	// Regrade is the set that it belongs to, or "".
	Regrade string
	// Version is the number of the version that grades.
	Version int
	State   State
	Node    string
	Tries   int
	// CPU is what the tests took together, MemoryTime the memory of its machines
	// in bytes times seconds.
	CPU        time.Duration
	MemoryTime float64
	Created    time.Time
	Ended      time.Time
	// Failed says that we failed, for the Reason.
	Failed bool
	Reason string
	// Grade is a course.Grade as JSON. It is there only in a regrade set: the
	// others are recorded in the course.
	Grade []byte
}

// maxHandIn bounds what is handed in as it is sent, in bytes; unpacked it has
// the bounds of package handin.
const maxHandIn = 64 << 20

// NewAttempt is what somebody hands in: Files, or an Archive with its Name, or
// one file by its Name.
type NewAttempt struct {
	Course, Assignment string
	Files              []course.File
	Name               string
	Archive            io.Reader
	// For is the person on the roster whose it is, where somebody who runs the
	// course hands in; "" is the actor.
	For string
	// Idempotency is the caller's key, or "".
	Idempotency string
}

// HandIn stores an attempt with its grading in the queue. When it returns, a
// grade will follow. Kinds of error: Invalid for files that cannot be taken,
// which are named, Conflict for an assignment that is not open, for one that is
// over, and for a key that was used for something else, Limited where the rule
// of attempts does not accept it.
func (s *Service) HandIn(ctx context.Context, n NewAttempt) (Attempt, error) {
	at, err := s.enter(ctx, n.Course, account.Create, account.AttemptThing)
	if err != nil {
		return Attempt{}, err
	}
	// What counts is when it came, not when it was read.
	received := now()
	if n.Idempotency != "" {
		// Who asks again gets what came of the first time, whatever has changed since.
		made, err := s.store.AttemptByKey(ctx, at.actor.User, n.Idempotency)
		if err == nil {
			return s.again(ctx, at, n, made)
		}
		if !fault.Is(err, fault.NotFound) {
			return Attempt{}, err
		}
	}
	if err := s.writable(ctx, at); err != nil {
		return Attempt{}, err
	}
	t, err := s.openTaskFor(ctx, at, n.Assignment)
	if err != nil {
		return Attempt{}, err
	}
	person, err := s.hander(ctx, at, n.For)
	if err != nil {
		return Attempt{}, err
	}
	if err := s.notTooFast(ctx, at); err != nil {
		return Attempt{}, err
	}
	sub, err := s.read(n, t.Current.expected())
	if err != nil {
		return Attempt{}, err
	}
	files, err := json.Marshal(sub.Files)
	if err != nil {
		return Attempt{}, fmt.Errorf("keep attempt: %w", err)
	}
	a := Attempt{
		ID: newID(), Course: n.Course, Assignment: n.Assignment, Person: person.ID, User: at.actor.User, Login: at.actor.Name,
		Version: t.Current.Number, VersionDigest: t.Current.Digest, Digest: sub.Digest(), Notes: sub.Notes, Received: received, Idempotency: n.Idempotency,
	}
	if n.Idempotency != "" {
		a.IdempotencyBody = a.asked()
	}
	if a.Files, _, err = s.blobs.Put(ctx, bytes.NewReader(files), int64(len(files))); err != nil {
		return Attempt{}, err
	}
	key := AttemptKey{n.Course, n.Assignment, a.User, n.Idempotency}
	kept, err := s.store.AddAttempt(ctx, key, func(state class.State, waiting []class.Attempt) (Attempt, error) {
		in, err := state.Admit(n.Assignment, a.Person, received, waiting)
		if err != nil {
			return Attempt{}, err
		}
		if why := in.Text(); why != "" {
			return Attempt{}, refusal(n.Assignment, in, why)
		}
		made := a
		made.Group = in.Group
		made.Grading = Grading{
			ID: newID(), Attempt: a.ID, Course: a.Course, Assignment: a.Assignment, Version: a.Version, State: Queued, Created: received,
		}
		return made, nil
	})
	if err != nil {
		return Attempt{}, err
	}
	if kept.ID != a.ID {
		return same(kept, a.IdempotencyBody)
	}
	s.queue.Wake(GradeJob)
	return kept, nil
}

// again gives the attempt that was made with a key, if the same is asked with it:
// what is sent is read as it was then.
func (s *Service) again(ctx context.Context, at seat, n NewAttempt, made Attempt) (Attempt, error) {
	v, err := s.store.Version(ctx, made.Course, made.Assignment, made.Version)
	if err != nil {
		return Attempt{}, err
	}
	person, err := s.hander(ctx, at, n.For)
	if err != nil {
		return Attempt{}, err
	}
	sub, err := s.read(n, v.expected())
	if err != nil {
		return Attempt{}, err
	}
	return same(made, Attempt{Course: n.Course, Assignment: n.Assignment, Person: person.ID, Digest: sub.Digest()}.asked())
}

func same(made Attempt, asked string) (Attempt, error) {
	if made.IdempotencyBody != asked {
		return Attempt{}, fault.Errorf(fault.Conflict, "the idempotency key was used for another attempt").WithHint("use a new key for each attempt")
	}
	return made, nil
}

// asked is the same for the same request.
func (a Attempt) asked() string {
	return strings.Join([]string{a.Course, a.Assignment, a.Person, a.Digest}, "\n")
}

// refusal says why nothing was taken.
func refusal(assignment string, in class.Admission, why string) error {
	if in.Late.Refused {
		return fault.Errorf(fault.Conflict, "%s: not taken: %s", assignment, why).WithHint("ask who runs the course for more time")
	}
	err := fault.Errorf(fault.Limited, "%s: not taken, and it costs no attempt: %s", assignment, why)
	if in.Refused == course.TooSoon {
		return err.WithHint("wait, and hand in again").TryAfter(in.Assignment.Attempts.Interval)
	}
	return err
}

// openTaskFor gives an assignment that takes attempts.
func (s *Service) openTaskFor(ctx context.Context, at seat, name string) (Task, error) {
	all, err := s.store.Tasks(ctx, at.course)
	if err != nil {
		return Task{}, err
	}
	i := slices.IndexFunc(all, func(t Task) bool { return t.Name == name && (t.Current.Number > 0 || at.leads()) })
	switch {
	case i < 0:
		return Task{}, noAssignment(at.course, name)
	case !all[i].Open:
		return Task{}, fault.Errorf(fault.Conflict, "assignment %s is not open", name)
	}
	return all[i], nil
}

// notTooFast holds back who hands in too often, before anything is read.
func (s *Service) notTooFast(ctx context.Context, at seat) error {
	if s.perMinute == 0 || at.leads() {
		return nil
	}
	last, err := s.store.Attempts(ctx, AttemptQuery{User: at.actor.User, Limit: s.perMinute})
	if err != nil || len(last) < s.perMinute {
		return err
	}
	if wait := time.Minute - time.Since(last[len(last)-1].Received); wait > 0 {
		return fault.Errorf(fault.Limited, "you have handed in %d times within a minute", s.perMinute).WithHint("wait a moment").TryAfter(wait)
	}
	return nil
}

// hander is the person whose attempt it becomes.
func (s *Service) hander(ctx context.Context, at seat, who string) (class.Person, error) {
	if who != "" && at.leads() {
		state, err := s.book.State(ctx, at.course)
		if err != nil {
			return class.Person{}, err
		}
		return class.Find(state.People, who)
	}
	switch {
	case who != "":
		return class.Person{}, fault.Errorf(fault.Denied, "only who runs the course hands in for somebody else")
	case at.person.Role != class.Student:
		return class.Person{}, fault.Errorf(fault.Conflict, "you are no student of %s", at.course).WithHint("say for whom you hand in")
	}
	return at.person, nil
}

// read takes what was sent, within the bounds of package handin.
func (s *Service) read(n NewAttempt, expected []course.ExpectedFile) (course.Submission, error) {
	o := handin.Options{Expected: expected, DropExtra: true}
	var sub course.Submission
	var err error
	if n.Archive != nil {
		f, size, err := spool(s.dir, n.Archive, maxHandIn)
		if err != nil {
			return sub, err
		}
		defer f.Close()
		sub, err = handin.ReadFile(cmp.Or(n.Name, "upload"), f, size, o)
		if err != nil {
			return sub, err
		}
	} else if sub, err = handin.ReadFiles("upload", n.Files, o); err != nil {
		return sub, err
	}
	if missing := handin.Compare(sub.Files, expected).MissingText(); missing != "" {
		return sub, fault.Errorf(fault.Invalid, "not taken, and it costs no attempt: %s", missing)
	}
	return sub, nil
}

// files are those that were handed in.
func (s *Service) files(ctx context.Context, a Attempt) (files []course.File, err error) {
	r, err := s.blobs.Open(ctx, a.Files)
	if err != nil {
		return nil, fmt.Errorf("files of attempt %s: %w", a.ID, err)
	}
	defer r.Close()
	data, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("files of attempt %s: %w", a.ID, err)
	}
	if err := json.Unmarshal(data, &files); err != nil {
		return nil, fmt.Errorf("files of attempt %s: %w", a.ID, err)
	}
	return files, nil
}

// submission is an attempt as it is graded.
func (s *Service) submission(ctx context.Context, a Attempt) (course.Submission, error) {
	files, err := s.files(ctx, a)
	return course.Submission{ID: a.ID, Files: files, Notes: a.Notes, Received: a.Received}, err
}
