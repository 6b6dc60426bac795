package classes

import (
	"context"
	"io"
	"time"

	"assay/internal/course"
	"assay/internal/course/class"
	"assay/internal/course/grading"
	"assay/internal/work"
)

// Store keeps courses with what a server has beside their marks. What is not
// there is fault.NotFound, a store that cannot be reached fault.Unavailable. It
// may be used from many goroutines and processes.
type Store interface {
	class.Store
	CourseStore
	VersionStore
	AttemptStore
	RegradeStore
}

// CourseStore keeps what a course is on a server.
type CourseStore interface {
	// Archive closes a course at an instant; zero opens it again.
	Archive(ctx context.Context, course string, at time.Time) error
	// Archived are the courses that are closed, and since when.
	Archived(ctx context.Context) (map[string]time.Time, error)
	// OnRosters are the courses on whose roster an account is, by ID.
	OnRosters(ctx context.Context, login, email string) ([]string, error)
	// OnRoster is the person that an account is in a course: the one with the
	// address, else the one with the login. The zero Person is nobody.
	OnRoster(ctx context.Context, course, login, email string) (class.Person, error)
}

// VersionStore keeps assignments in versions.
type VersionStore interface {
	// AddVersion keeps a version and the job that checks it. A package that the
	// assignment has had before gives that version, which is checked again if it
	// was Broken; Number is set here.
	AddVersion(ctx context.Context, v Version) (Version, error)
	Version(ctx context.Context, course, assignment string, number int) (Version, error)
	VersionByID(ctx context.Context, id string) (Version, error)
	// Versions are newest first.
	Versions(ctx context.Context, course, assignment string) ([]Version, error)
	// Tasks are the assignments of a course that have versions, by name.
	Tasks(ctx context.Context, course string) ([]Task, error)
	// FinishVersion keeps what came of the check and ends its job, once:
	// fault.Conflict where the job is somebody else's by now.
	FinishVersion(ctx context.Context, j work.Job, end work.End, v Version) error
	// OpenVersion makes a version the one that attempts are graded by, and keeps
	// what put writes: all or nothing.
	OpenVersion(ctx context.Context, v Version, put func(class.Records) error) error
	// OpenTask lets people hand in, or no longer.
	OpenTask(ctx context.Context, course, assignment string, open bool) error
}

// AttemptStore keeps what is handed in.
type AttemptStore interface {
	// AddAttempt keeps an attempt, its grading and its job: all or nothing, while
	// nobody else writes to the course. admit is given the course, the attempts of
	// the assignment that are not recorded yet, and gives what is to be kept; it
	// may run more than once. Where the user has used the idempotency key, the
	// attempt of that time is given and admit is not asked.
	AddAttempt(ctx context.Context, key AttemptKey, admit func(s class.State, waiting []class.Attempt) (Attempt, error)) (Attempt, error)
	Attempt(ctx context.Context, id string) (Attempt, error)
	// AttemptByKey is the one that a user made with an idempotency key.
	AttemptByKey(ctx context.Context, user, key string) (Attempt, error)
	Attempts(ctx context.Context, q AttemptQuery) ([]Attempt, error)
	// Recorded is the run of an attempt that counts with its grade as JSON;
	// NotFound while there is none.
	Recorded(ctx context.Context, course, attempt string) (class.Run, []byte, error)

	Grading(ctx context.Context, id string) (Grading, error)
	// BeginGrading says that a node has begun a grading, for those who look.
	BeginGrading(ctx context.Context, id, node string, tries int) error
	// FinishGrading keeps what came of a grading, with what record writes, and
	// ends its job, once: fault.Conflict where the job is somebody else's by now,
	// or the grading has ended. record may be nil.
	FinishGrading(ctx context.Context, j work.Job, end work.End, g Grading, record func(class.Records) error) error
	// EndJob ends a job whose thing is gone or has ended.
	EndJob(ctx context.Context, j work.Job, end work.End) error
}

// AttemptKey is what AddAttempt looks for.
type AttemptKey struct{ Course, Assignment, User, Idempotency string }

// RegradeStore keeps regrade sets.
type RegradeStore interface {
	// AddRegrade keeps a set with a grading and a job for each of its attempts.
	AddRegrade(ctx context.Context, r Regrade, gradings []Grading) error
	Regrade(ctx context.Context, id string) (Regrade, error)
	// Regrades are those of a course, newest first.
	Regrades(ctx context.Context, course, after string, limit int) ([]Regrade, error)
	// RegradeGradings are the gradings of a set with their grades.
	RegradeGradings(ctx context.Context, id string) ([]Grading, error)
	// EndRegrade applies a set, all of whose gradings have ended, with what apply
	// writes, or cancels it with the gradings that have not; all or nothing.
	// fault.Conflict where it has ended already or, to apply, where gradings are
	// missing.
	EndRegrade(ctx context.Context, id string, state RegradeState, apply func(rec class.Records, done []Grading) error) error
}

// AttemptQuery is a page of attempts, newest first.
type AttemptQuery struct {
	// After is the Page of the last one of the page before; "" is the beginning.
	After string
	Limit int
	// Course, Assignment and User, the account that handed in, take only those;
	// "" is any.
	Course, Assignment, User string
	// Person with Groups, the names of groups by assignment, are whose they are;
	// "" is anybody's.
	Person string
	Groups map[string]string
}

// Blobs keeps bytes by digest.
type Blobs interface {
	// Put keeps what r gives, at most max bytes, and names it; fault.Exhausted
	// when there is more, or no room.
	Put(ctx context.Context, r io.Reader, max int64) (digest string, size int64, err error)
	// Open fails at the end of reading when the bytes are not those of the digest.
	Open(ctx context.Context, digest string) (io.ReadCloser, error)
}

// Queue wakes those who wait for work. A wake-up that is lost does no harm.
type Queue interface {
	Wake(kind string)
}

// Events carries what is happening to those who look. What is lost does no harm.
type Events interface {
	Publish(topic string, data []byte)
	// Subscribe gives the events of a topic until ctx ends or stop is called;
	// the channel is closed then. One who is slow misses some.
	Subscribe(ctx context.Context, topic string) (events <-chan []byte, stop func(), err error)
}

// Accounts tells the address of an account. It must be one that somebody else
// has checked, an admin or a provider: whoever has the address of a person on a
// roster is taken for that person.
type Accounts interface {
	Email(ctx context.Context, user string) (string, error)
}

// Grader grades: grading.Service.
type Grader interface {
	Prepare(ctx context.Context, a *course.Assignment) error
	Grade(ctx context.Context, a *course.Assignment, s course.Submission, observe func(test string)) (course.Grade, error)
	Verify(ctx context.Context, a *course.Assignment, o grading.VerifyOptions) ([]grading.Check, error)
}

// The kinds of the jobs that Worker does. The Ref of a grading is its ID, that
// of a check the version's.
const (
	GradeJob = "grade"
	CheckJob = "check"
)
