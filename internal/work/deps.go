package work

import (
	"context"
	"time"
)

// Store keeps jobs and nodes. It may be used from many goroutines and by many
// processes at once. Instants are those of the caller: the clocks of all nodes
// must agree to within a fraction of a lease. Instants are kept in microseconds.
type Store interface {
	// Enqueue adds a job that is Queued: Conflict if there is one with its ID. A
	// domain enqueues in the transaction that writes what the job is about, and
	// wakes workers after that.
	Enqueue(ctx context.Context, j Job) error
	// Claim gives the next job to a node: the highest priority first, then the
	// oldest. ok is false if there is none. Nobody else has it then.
	Claim(ctx context.Context, c Claim) (j Job, ok bool, err error)
	// Renew holds a lease for longer. Conflict: the token holds the job no more.
	Renew(ctx context.Context, id, token string, until time.Time) error
	// Finish ends a job, as Done or Failed. Only one call ever succeeds, and only
	// with the token that holds the job: Conflict. A domain finishes in the
	// transaction that writes the result.
	Finish(ctx context.Context, id, token string, e End) error
	// Release gives a job back, not to be claimed before available; zero is at
	// once. It costs no try. Conflict as in Renew.
	Release(ctx context.Context, id, token string, available time.Time) error
	// Retry gives a job back after a failure of ours, which costs a try, not to be
	// claimed before available. Conflict as in Renew.
	Retry(ctx context.Context, id, token string, available time.Time, reason string) error
	// Cancel ends a job that has not ended, as Failed, whoever holds it: Conflict
	// if it has ended, NotFound.
	Cancel(ctx context.Context, id string, at time.Time, reason string) error
	// Sweep puts jobs whose leases ran out back into the queue, which costs a try,
	// and gives their kinds.
	Sweep(ctx context.Context, now time.Time) (kinds []string, err error)
	// Job gives a job; NotFound.
	Job(ctx context.Context, id string) (Job, error)
	// Counts says how many jobs there are, by kind and state.
	Counts(ctx context.Context) ([]Count, error)
	// Prune removes jobs that ended before an instant and says how many.
	Prune(ctx context.Context, before time.Time) (int, error)

	// Beat says that a node lives, and replaces what it said before. A process
	// that was started later under the same ID and has been seen is
	// fault.Conflict: this one is not the node any more.
	Beat(ctx context.Context, n Node) error
	// Nodes are all, by ID, dead ones too, with how many jobs run on each.
	Nodes(ctx context.Context) ([]Node, error)
	// Drop puts all jobs of a node back into the queue, which costs a try, and
	// gives their kinds.
	Drop(ctx context.Context, node string) (kinds []string, err error)
	// Bury is Drop for all nodes not seen since an instant. Their rows stay.
	Bury(ctx context.Context, seenBefore time.Time) (kinds []string, err error)
	// Forget removes a node's row, if there is one. Its jobs stay as they are.
	Forget(ctx context.Context, node string) error
}

// Claim is what a node asks for.
type Claim struct {
	Node string
	// Kinds are those it can do; at least one.
	Kinds []string
	// Token is new with each claim, see NewID.
	Token      string
	Now, Until time.Time
}

// End is how a job ended.
type End struct {
	State  State
	Reason string
	At     time.Time
}

// Count is a number of jobs.
type Count struct {
	Kind  string
	State State
	Jobs  int
	// Oldest is when the first of them was enqueued.
	Oldest time.Time
}

// Wakes tells workers of other processes to look. It is a bus.Bus.
type Wakes interface {
	Wake(kind string)
	Waits(kind string) (woken <-chan struct{}, stop func(), err error)
}

// Handler does the jobs of one kind. It may be called from many goroutines.
type Handler interface {
	// Run does a job. When it returns nil it has finished the job with j.Token
	// (Store.Finish, best in the transaction that writes the result). An error is
	// a failure of ours: the job is tried again later. Unavailable and Exhausted
	// say that something is gone or full for all jobs alike: that costs this one
	// no try for as long as Worker.Outage. When the context ends, the
	// job is another node's, or will be: Run returns soon and writes nothing.
	Run(ctx context.Context, j Job) error
	// GiveUp finishes a job that has been tried too often as Failed; j.Reason says
	// why the last try came to nothing. It is called again if it fails.
	GiveUp(ctx context.Context, j Job) error
}
