package sqlstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"assay/internal/fault"
	"assay/internal/work"
)

// Work is the store of jobs and nodes.
type Work struct{ db *DB }

var _ work.Store = Work{}

// Work gives the store of jobs and nodes.
func (db *DB) Work() Work { return Work{db} }

const jobColumns = `id, kind, ref, priority, state, node, token, lease_until, tries, available, created, ended, reason`

func scanJob(row scanner) (j work.Job, err error) {
	var lease, available, created, ended int64
	err = row.Scan(&j.ID, &j.Kind, &j.Ref, &j.Priority, &j.State, &j.Node, &j.Token, &lease, &j.Tries, &available, &created, &ended, &j.Reason)
	j.LeaseUntil, j.Available, j.Created, j.Ended = fromMicros(lease), fromMicros(available), fromMicros(created), fromMicros(ended)
	return j, err
}

// execer is a database or a transaction: what a domain writes and what its job
// does are one transaction, so these are handed on.
type execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// enqueueJob adds a job, in the transaction that writes what it is about.
func enqueueJob(ctx context.Context, e execer, j work.Job) error {
	res, err := e.ExecContext(ctx, `INSERT INTO work_jobs (`+jobColumns+`) VALUES ($1, $2, $3, $4, $5, '', '', 0, 0, $6, $7, 0, '') ON CONFLICT (id) DO NOTHING`,
		j.ID, j.Kind, j.Ref, j.Priority, string(work.Queued), micros(j.Available), micros(j.Created))
	if err != nil {
		return err
	}
	return one(res, fault.Errorf(fault.Conflict, "there is a job %s already", j.ID))
}

// finishJob ends a job, in the transaction that writes its result. With Conflict
// the result must not be kept.
func finishJob(ctx context.Context, e execer, id, token string, end work.End) error {
	if end.State != work.Done && end.State != work.Failed {
		return fault.Errorf(fault.Internal, "job %s cannot end as %q", id, end.State)
	}
	res, err := e.ExecContext(ctx, `UPDATE work_jobs SET state = $1, reason = $2, ended = $3, token = '', lease_until = 0
		WHERE id = $4 AND token = $5 AND state = 'running'`, string(end.State), plain(end.Reason), micros(end.At), id, token)
	return held(res, err, id)
}

// held wants the token to have held the job.
func held(res sql.Result, err error, id string) error {
	if err != nil {
		return err
	}
	return one(res, fault.Errorf(fault.Conflict, "job %s is not held by this lease any more", id))
}

// Enqueue adds a job.
func (w Work) Enqueue(ctx context.Context, j work.Job) error {
	return w.db.write(ctx, "enqueue job "+j.ID, func(tx *sql.Tx) error { return enqueueJob(ctx, tx, j) })
}

// claimTries bounds how often a claim is tried that others were quicker with.
const claimTries = 100

// Claim gives the next job to a node.
func (w Work) Claim(ctx context.Context, c work.Claim) (work.Job, bool, error) {
	if len(c.Kinds) == 0 {
		return work.Job{}, false, fault.Errorf(fault.Internal, "node %s claims no kind of job", c.Node)
	}
	// What chooses comes first: it has the same numbers alone.
	args := []any{micros(c.Now)}
	var kinds []string
	for _, k := range c.Kinds {
		args = append(args, k)
		kinds = append(kinds, fmt.Sprintf("$%d", len(args)))
	}
	next := `FROM work_jobs WHERE state = 'queued' AND available <= $1 AND kind IN (` + strings.Join(kinds, ", ") + `)`
	choice, n := args, len(args)
	args = append(slices.Clip(args), c.Node, c.Token, micros(c.Until))
	// PostgreSQL waits for who is claiming the same row, and looks at the state of
	// the outer WHERE again after that.
	claim := fmt.Sprintf(`UPDATE work_jobs SET state = 'running', node = $%d, token = $%d, lease_until = $%d
		WHERE state = 'queued' AND id = (SELECT id %s ORDER BY priority DESC, created, id LIMIT 1) RETURNING %s`, n+1, n+2, n+3, next, jobColumns)
	for range claimTries {
		var j work.Job
		var left bool
		err := w.db.again(ctx, func() (err error) {
			j, err = scanJob(w.db.writer.QueryRowContext(ctx, claim, args...))
			return err
		})
		if err == nil {
			return j, true, nil
		}
		if errors.Is(err, sql.ErrNoRows) {
			// Either there is none, or somebody else was quicker.
			err = w.db.reader.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 `+next+`)`, choice...).Scan(&left)
		}
		if err != nil {
			return work.Job{}, false, w.db.explain("claim a job", err)
		}
		if !left {
			return work.Job{}, false, nil
		}
	}
	return work.Job{}, false, fault.Errorf(fault.Unavailable, "claim a job: others were quicker %d times", claimTries).WithHint("try again")
}

// change runs a statement that only the holder of a job may.
func (w Work) change(ctx context.Context, doing, id, query string, args ...any) error {
	res, err := w.db.exec(ctx, doing+" job "+id, query, args...)
	return held(res, err, id)
}

// Renew holds a lease for longer.
func (w Work) Renew(ctx context.Context, id, token string, until time.Time) error {
	return w.change(ctx, "renew", id, `UPDATE work_jobs SET lease_until = $1 WHERE id = $2 AND token = $3 AND state = 'running'`, micros(until), id, token)
}

// Finish ends a job.
func (w Work) Finish(ctx context.Context, id, token string, end work.End) error {
	return w.db.write(ctx, "finish job "+id, func(tx *sql.Tx) error { return finishJob(ctx, tx, id, token, end) })
}

// Release gives a job back.
func (w Work) Release(ctx context.Context, id, token string, available time.Time) error {
	return w.change(ctx, "release", id, `UPDATE work_jobs SET state = 'queued', node = '', token = '', lease_until = 0, available = $1
		WHERE id = $2 AND token = $3 AND state = 'running'`, micros(available), id, token)
}

// Retry gives a job back after a failure.
func (w Work) Retry(ctx context.Context, id, token string, available time.Time, reason string) error {
	return w.change(ctx, "retry", id, `UPDATE work_jobs SET state = 'queued', node = '', token = '', lease_until = 0, tries = tries + 1, available = $1, reason = $2
		WHERE id = $3 AND token = $4 AND state = 'running'`, micros(available), plain(reason), id, token)
}

// Cancel ends a job, whoever holds it.
func (w Work) Cancel(ctx context.Context, id string, at time.Time, reason string) error {
	return w.db.write(ctx, "cancel job "+id, func(tx *sql.Tx) error { return cancelJob(ctx, tx, id, at, reason) })
}

// cancelJob ends a job in the transaction of whoever does not need it any more.
func cancelJob(ctx context.Context, tx *sql.Tx, id string, at time.Time, reason string) error {
	res, err := tx.ExecContext(ctx, `UPDATE work_jobs SET state = 'failed', reason = $1, ended = $2, token = '', lease_until = 0
		WHERE id = $3 AND state IN ('queued', 'running')`, plain(reason), micros(at), id)
	if err != nil {
		return err
	}
	if err := one(res, fault.Errorf(fault.Conflict, "job %s has ended", id)); err == nil || !fault.Is(err, fault.Conflict) {
		return err
	}
	var n int
	if err := tx.QueryRowContext(ctx, `SELECT count(*) FROM work_jobs WHERE id = $1`, id).Scan(&n); err != nil {
		return err
	}
	if n == 0 {
		return noJob(id)
	}
	return fault.Errorf(fault.Conflict, "job %s has ended", id)
}

func noJob(id string) error { return fault.Errorf(fault.NotFound, "there is no job %q", id) }

// putBack puts running jobs back into the queue, which costs a try, and gives
// their kinds.
func (w Work) putBack(ctx context.Context, doing, reason, which string, args ...any) (kinds []string, err error) {
	err = w.db.again(ctx, func() (err error) {
		kinds, err = list(ctx, w.db.writer, func(row scanner) (k string, err error) { return k, row.Scan(&k) },
			fmt.Sprintf(`UPDATE work_jobs SET state = 'queued', node = '', token = '', lease_until = 0, tries = tries + 1, reason = $1
				WHERE state = 'running' AND %s RETURNING kind`, which), append([]any{reason}, args...)...)
		return err
	})
	return kinds, w.db.explain(doing, err)
}

// Sweep puts back jobs whose leases ran out.
func (w Work) Sweep(ctx context.Context, now time.Time) ([]string, error) {
	return w.putBack(ctx, "sweep jobs", "its lease ran out", `lease_until < $2`, micros(now))
}

// Drop puts back all jobs of a node.
func (w Work) Drop(ctx context.Context, node string) ([]string, error) {
	return w.putBack(ctx, "drop jobs of node "+node, "its node was started anew", `node = $2`, node)
}

// Bury puts back all jobs of nodes not seen for long.
func (w Work) Bury(ctx context.Context, seenBefore time.Time) ([]string, error) {
	return w.putBack(ctx, "look for dead nodes", "its node died", `node IN (SELECT id FROM work_nodes WHERE seen < $2)`, micros(seenBefore))
}

// Job gives a job.
func (w Work) Job(ctx context.Context, id string) (work.Job, error) {
	j, err := scanJob(w.db.reader.QueryRowContext(ctx, `SELECT `+jobColumns+` FROM work_jobs WHERE id = $1`, id))
	if errors.Is(err, sql.ErrNoRows) {
		err = noJob(id)
	}
	return j, w.db.explain("read job "+id, err)
}

// Counts says how many jobs there are.
func (w Work) Counts(ctx context.Context) ([]work.Count, error) {
	all, err := list(ctx, w.db.reader, func(row scanner) (c work.Count, err error) {
		var oldest int64
		err = row.Scan(&c.Kind, &c.State, &c.Jobs, &oldest)
		c.Oldest = fromMicros(oldest)
		return c, err
	}, `SELECT kind, state, count(*), min(created) FROM work_jobs GROUP BY kind, state ORDER BY kind, state`)
	return all, w.db.explain("count jobs", err)
}

// Prune removes jobs that ended long ago.
func (w Work) Prune(ctx context.Context, before time.Time) (int, error) {
	res, err := w.db.exec(ctx, "prune jobs", `DELETE FROM work_jobs WHERE ended > 0 AND ended < $1`, micros(before))
	if err != nil {
		return 0, err
	}
	n, err := res.RowsAffected()
	return int(n), err
}

// Beat says that a node lives.
func (w Work) Beat(ctx context.Context, n work.Node) error {
	roles, err := json.Marshal(n.Roles)
	if err != nil {
		return err
	}
	res, err := w.db.exec(ctx, "show that node "+n.ID+" lives", `INSERT INTO work_nodes (id, address, capacity, roles, started, seen, sandboxes, memory, held)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
		ON CONFLICT (id) DO UPDATE SET address = excluded.address, capacity = excluded.capacity, roles = excluded.roles, started = excluded.started,
			seen = excluded.seen, sandboxes = excluded.sandboxes, memory = excluded.memory, held = excluded.held
		WHERE work_nodes.started <= excluded.started OR work_nodes.seen > excluded.seen`, // the clock was set back
		n.ID, n.Address, n.Capacity, string(roles), micros(n.Started), micros(n.Seen), n.Sandboxes, n.Memory, n.Held)
	if err != nil {
		return err
	}
	if rows, err := res.RowsAffected(); err != nil || rows > 0 {
		return w.db.explain("show that node "+n.ID+" lives", err)
	}
	return work.Replaced(n.ID)
}

// Nodes are all, by ID.
func (w Work) Nodes(ctx context.Context) ([]work.Node, error) {
	all, err := list(ctx, w.db.reader, func(row scanner) (n work.Node, err error) {
		var roles string
		var started, seen int64
		if err := row.Scan(&n.ID, &n.Address, &n.Capacity, &roles, &started, &seen, &n.Sandboxes, &n.Memory, &n.Held, &n.Jobs); err != nil {
			return n, err
		}
		n.Started, n.Seen = fromMicros(started), fromMicros(seen)
		return n, json.Unmarshal([]byte(roles), &n.Roles)
	}, `SELECT id, address, capacity, roles, started, seen, sandboxes, memory, held,
		(SELECT count(*) FROM work_jobs j WHERE j.state = 'running' AND j.node = n.id) FROM work_nodes n ORDER BY id`)
	return all, w.db.explain("list nodes", err)
}

// Forget removes a node's row.
func (w Work) Forget(ctx context.Context, node string) error {
	_, err := w.db.exec(ctx, "forget node "+node, `DELETE FROM work_nodes WHERE id = $1`, node)
	return err
}
