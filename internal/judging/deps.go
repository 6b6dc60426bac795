package judging

import (
	"context"
	"io"

	"assay/internal/judge"
	"assay/internal/work"
)

// Store keeps problems, submissions, runs and rejudge sets. What is not there is
// fault.NotFound, a store that cannot be reached fault.Unavailable. It may be
// used from many goroutines and processes.
type Store interface {
	// PutVersion makes a version current, and its problem where it is not there.
	// A version that is there already stays as it is and becomes current; Number
	// is set here.
	PutVersion(ctx context.Context, v Version) error
	Problem(ctx context.Context, id string) (Problem, error)
	Problems(ctx context.Context, q ProblemQuery) ([]Problem, error)
	Version(ctx context.Context, problem, digest string) (Version, error)
	// Versions are newest first.
	Versions(ctx context.Context, problem string) ([]Version, error)
	OpenProblem(ctx context.Context, id string, open bool) error

	// AddSubmission keeps a submission, its run and the run's job: all or nothing.
	// Where the user has used the idempotency key, it gives what was kept then.
	AddSubmission(ctx context.Context, s Submission) (Submission, error)
	// Submission has all of its run; Submissions have not.
	Submission(ctx context.Context, id string) (Submission, error)
	// SubmissionByKey is the one that a user made with an idempotency key; it has
	// not all of its run.
	SubmissionByKey(ctx context.Context, user, key string) (Submission, error)
	Submissions(ctx context.Context, q SubmissionQuery) ([]Submission, error)
	Run(ctx context.Context, id string) (Run, error)
	Runs(ctx context.Context, submission string) ([]Run, error)

	// BeginRun says that a node has begun a run, for those who look.
	BeginRun(ctx context.Context, run, node string, tries int) error
	// FinishRun keeps what came of a run and ends its job, once: fault.Conflict
	// where j.Token no longer holds the job, or the run has ended. A run without
	// Result had ended before, and only its job is left.
	FinishRun(ctx context.Context, j work.Job, end work.End, r Run) error

	// AddRejudge keeps a set with a run and a job for each of its submissions.
	AddRejudge(ctx context.Context, r Rejudge, runs []Run) error
	Rejudge(ctx context.Context, id string) (Rejudge, error)
	Rejudges(ctx context.Context, after string, limit int) ([]Rejudge, error)
	// RejudgeRuns are the runs of a set, each with the one that counts.
	RejudgeRuns(ctx context.Context, id string) ([]Rejudged, error)
	// EndRejudge applies a set, all of whose runs have ended, or cancels it with
	// the runs that have not. fault.Conflict where it has ended already or, to
	// apply, where runs are missing.
	EndRejudge(ctx context.Context, id string, state RejudgeState) error
}

// ProblemQuery is a page of problems, by ID.
type ProblemQuery struct {
	After string
	Limit int
	// Closed are seen too.
	Closed bool
}

// SubmissionQuery is a page of submissions, newest first.
type SubmissionQuery struct {
	// After is the Page of the last one of the page before; "" is the beginning.
	After         string
	Limit         int
	Problem, User string
	Verdict       judge.Verdict
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

// JobKind is the kind of the jobs that Worker does; a job's Ref is the run.
const JobKind = "judge"
