package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"assay/internal/bus"
	"assay/internal/fault"
	"assay/internal/work"
	"assay/internal/work/worktest"
)

func TestWork(t *testing.T) {
	t.Parallel()
	suiteOnBoth(t, worktest.Run, func(t *testing.T, open func(t *testing.T) *DB) work.Store { return open(t).Work() })
}

// process is a node that can be killed: from then on nothing it does reaches the
// store.
type process struct {
	work.Store
	db     *DB
	killed atomic.Bool
	did    atomic.Int64
	// killAt has the process killed in the middle of this job; 0 is never.
	killAt int64
	// after, if not nil, is who is killed before this one does more than aheadMost.
	after *process
}

// aheadMost is how many jobs the node that lives does before the other is killed.
const aheadMost = 100

var errKilled = errors.New("this process is dead")

func (p *process) Claim(ctx context.Context, c work.Claim) (work.Job, bool, error) {
	if p.killed.Load() {
		return work.Job{}, false, errKilled
	}
	return p.Store.Claim(ctx, c)
}

func (p *process) Renew(ctx context.Context, id, token string, until time.Time) error {
	if p.killed.Load() {
		return errKilled
	}
	return p.Store.Renew(ctx, id, token, until)
}

func (p *process) Release(ctx context.Context, id, token string, available time.Time) error {
	if p.killed.Load() {
		return errKilled
	}
	return p.Store.Release(ctx, id, token, available)
}

func (p *process) Retry(ctx context.Context, id, token string, at time.Time, reason string) error {
	if p.killed.Load() {
		return errKilled
	}
	return p.Store.Retry(ctx, id, token, at, reason)
}

func (p *process) Sweep(ctx context.Context, now time.Time) ([]string, error) {
	if p.killed.Load() {
		return nil, errKilled
	}
	return p.Store.Sweep(ctx, now)
}

// Run writes a result and finishes the job, together. The one that kills its
// process waits until the job was taken from it, and tries all the same.
func (p *process) Run(ctx context.Context, j work.Job) error {
	did := p.did.Add(1)
	// The one that goes on must not be so quick that the other is never killed.
	for p.after != nil && did > aheadMost && !p.after.killed.Load() && ctx.Err() == nil {
		<-time.After(5 * time.Millisecond)
	}
	if did == p.killAt {
		p.killed.Store(true)
		<-ctx.Done()
		// It comes back to life too late: the job is another node's.
		ctx = context.WithoutCancel(ctx)
		for token := j.Token; token == j.Token; {
			now, err := p.db.Work().Job(ctx, j.ID)
			if err != nil {
				return err
			}
			token = now.Token
			<-time.After(20 * time.Millisecond)
		}
	} else if p.killed.Load() {
		return errKilled
	}
	return p.db.write(ctx, "judge", func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, `INSERT INTO results (job) VALUES ($1)`, j.ID); err != nil {
			return err
		}
		return finishJob(ctx, tx, j.ID, j.Token, work.End{State: work.Done, At: time.Now()})
	})
}

func (p *process) GiveUp(_ context.Context, j work.Job) error {
	return fmt.Errorf("job %s was given up", j.ID)
}

// workLimit is for some thousand transactions on a disk that is slow.
const workLimit = 8 * time.Minute

// TestNothingIsLostAndNothingIsDoneTwice has two nodes do 500 jobs; one of them
// dies in the middle, and holds jobs then.
func TestNothingIsLostAndNothingIsDoneTwice(t *testing.T) {
	t.Parallel()
	const jobs = 500
	onBoth(t, func(t *testing.T, open func(t *testing.T) *DB) {
		db := open(t)
		if _, err := db.writer.ExecContext(t.Context(), `CREATE TABLE results (job TEXT NOT NULL)`); err != nil {
			t.Fatal(err)
		}
		b, err := bus.OpenEmbedded(t.Context(), filepath.Join(t.TempDir(), "bus"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := b.Close(); err != nil {
				t.Error(err)
			}
		})
		ctx, cancel := context.WithTimeout(t.Context(), workLimit)
		defer cancel()
		nodes := []*process{{killAt: 50}, {}}
		nodes[1].after = nodes[0]
		var wg sync.WaitGroup
		for i, p := range nodes {
			p.db = open(t)
			p.Store = p.db.Work()
			w := work.Worker{
				Store: p, Wakes: b, Node: fmt.Sprint("n", i), Handlers: map[string]work.Handler{"judge": p}, Capacity: 4,
				Lease: 2 * time.Second, Poll: 100 * time.Millisecond, Grace: time.Minute,
			}
			wg.Go(func() {
				if err := w.Run(ctx); err != nil {
					t.Error(err)
				}
			})
		}
		for i := range jobs {
			j := work.Job{ID: fmt.Sprintf("j%03d", i), Kind: "judge", Created: time.Now()}
			if err := db.Work().Enqueue(ctx, j); err != nil {
				t.Fatal(err)
			}
			b.Wake("judge")
		}
		for {
			counts, err := db.Work().Counts(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if len(counts) == 1 && counts[0].State == work.Done && counts[0].Jobs == jobs {
				break
			}
			<-time.After(50 * time.Millisecond)
		}
		cancel()
		wg.Wait()
		var rows, different int
		if err := db.reader.QueryRowContext(t.Context(), `SELECT count(*), count(DISTINCT job) FROM results`).Scan(&rows, &different); err != nil {
			t.Fatal(err)
		}
		if rows != jobs || different != jobs {
			t.Errorf("%d results of %d jobs, want %d of each", rows, different, jobs)
		}
		if !nodes[0].killed.Load() || nodes[0].did.Load() >= jobs/2+50 || nodes[1].did.Load() == 0 {
			t.Errorf("the killed node began %d jobs, the other %d", nodes[0].did.Load(), nodes[1].did.Load())
		}
		again := 0
		for i := range jobs {
			j, err := db.Work().Job(t.Context(), fmt.Sprintf("j%03d", i))
			if err != nil {
				t.Fatal(err)
			}
			again += j.Tries
		}
		if again == 0 {
			t.Error("no job was done again: the killed node held none")
		}
	})
}

// TestEnqueueWithItsCause has a domain write what a job is about, and the job,
// or neither.
func TestEnqueueWithItsCause(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, open func(t *testing.T) *DB) {
		db := open(t)
		broken := errors.New("broken")
		j := work.Job{ID: "j", Kind: "judge", Created: time.Now()}
		err := db.write(t.Context(), "submit", func(tx *sql.Tx) error {
			if err := enqueueJob(t.Context(), tx, j); err != nil {
				return err
			}
			return broken
		})
		if !errors.Is(err, broken) {
			t.Errorf("got %v", err)
		}
		if _, err := db.Work().Job(t.Context(), "j"); !fault.Is(err, fault.NotFound) {
			t.Errorf("the job is there without its cause: %v", err)
		}
		if err := db.write(t.Context(), "submit", func(tx *sql.Tx) error { return enqueueJob(t.Context(), tx, j) }); err != nil {
			t.Fatal(err)
		}
		// The same for the end: with Conflict the result must not stay.
		err = db.write(t.Context(), "judge", func(tx *sql.Tx) error {
			return finishJob(t.Context(), tx, "j", "token", work.End{State: work.Done, At: time.Now()})
		})
		if !fault.Is(err, fault.Conflict) {
			t.Errorf("finished without a lease: %v", err)
		}
	})
}
