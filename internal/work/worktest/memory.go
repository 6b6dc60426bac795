package worktest

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"assay/internal/fault"
	"assay/internal/work"
)

// Memory is a store of jobs that forgets them with the process. It passes the
// suite, and works where time is not real.
type Memory struct {
	mu    sync.Mutex
	jobs  map[string]*work.Job
	nodes map[string]work.Node
	gone  bool
	wakes map[string][]chan struct{}
}

var (
	_ work.Store = (*Memory)(nil)
	_ work.Wakes = (*Memory)(nil)
)

// NewMemory makes an empty store.
func NewMemory() *Memory {
	return &Memory{jobs: map[string]*work.Job{}, nodes: map[string]work.Node{}, wakes: map[string][]chan struct{}{}}
}

// SetGone has all calls fail as if the store could not be reached, or ends that.
func (m *Memory) SetGone(gone bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.gone = gone
}

// locked runs fn while nobody else uses the store.
func (m *Memory) locked(fn func() error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.gone {
		return fault.Errorf(fault.Unavailable, "the store is gone")
	}
	return fn()
}

// Wake wakes who waits, within this process.
func (m *Memory) Wake(kind string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range m.wakes[kind] {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}

// Waits gives a channel that has something after each Wake.
func (m *Memory) Waits(kind string) (<-chan struct{}, func(), error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := make(chan struct{}, 1)
	m.wakes[kind] = append(m.wakes[kind], c)
	return c, func() {}, nil
}

// Enqueue adds a job.
func (m *Memory) Enqueue(_ context.Context, j work.Job) error {
	return m.locked(func() error {
		if m.jobs[j.ID] != nil {
			return fault.Errorf(fault.Conflict, "there is a job %s already", j.ID)
		}
		m.jobs[j.ID] = &work.Job{ID: j.ID, Kind: j.Kind, Ref: j.Ref, Priority: j.Priority, State: work.Queued, Available: j.Available, Created: j.Created}
		return nil
	})
}

// Claim gives the next job to a node.
func (m *Memory) Claim(_ context.Context, c work.Claim) (j work.Job, ok bool, err error) {
	err = m.locked(func() error {
		var best *work.Job
		for _, j := range m.jobs {
			if j.State != work.Queued || j.Available.After(c.Now) || !slices.Contains(c.Kinds, j.Kind) {
				continue
			}
			if best == nil || cmp.Or(cmp.Compare(best.Priority, j.Priority), j.Created.Compare(best.Created), cmp.Compare(j.ID, best.ID)) < 0 {
				best = j
			}
		}
		if best != nil {
			best.State, best.Node, best.Token, best.LeaseUntil = work.Running, c.Node, c.Token, c.Until
			j, ok = *best, true
		}
		return nil
	})
	return j, ok, err
}

// held runs fn on a job that the token holds.
func (m *Memory) held(id, token string, fn func(j *work.Job)) error {
	return m.locked(func() error {
		j := m.jobs[id]
		if j == nil || j.State != work.Running || j.Token != token {
			return fault.Errorf(fault.Conflict, "job %s is not held by this lease any more", id)
		}
		fn(j)
		return nil
	})
}

func release(j *work.Job) { j.State, j.Node, j.Token, j.LeaseUntil = work.Queued, "", "", time.Time{} }

func end(j *work.Job, e work.End) {
	j.State, j.Token, j.LeaseUntil, j.Ended, j.Reason = e.State, "", time.Time{}, e.At, e.Reason
}

// Renew holds a lease for longer.
func (m *Memory) Renew(_ context.Context, id, token string, until time.Time) error {
	return m.held(id, token, func(j *work.Job) { j.LeaseUntil = until })
}

// Finish ends a job.
func (m *Memory) Finish(_ context.Context, id, token string, e work.End) error {
	return m.held(id, token, func(j *work.Job) { end(j, e) })
}

// Release gives a job back.
func (m *Memory) Release(_ context.Context, id, token string, available time.Time) error {
	return m.held(id, token, func(j *work.Job) {
		release(j)
		j.Available = available
	})
}

// Retry gives a job back after a failure.
func (m *Memory) Retry(_ context.Context, id, token string, available time.Time, reason string) error {
	return m.held(id, token, func(j *work.Job) {
		release(j)
		j.Tries++
		j.Available, j.Reason = available, reason
	})
}

// Cancel ends a job, whoever holds it.
func (m *Memory) Cancel(_ context.Context, id string, at time.Time, reason string) error {
	return m.locked(func() error {
		j := m.jobs[id]
		if j == nil {
			return fault.Errorf(fault.NotFound, "there is no job %q", id)
		}
		if !j.Ended.IsZero() {
			return fault.Errorf(fault.Conflict, "job %s has ended", id)
		}
		end(j, work.End{State: work.Failed, Reason: reason, At: at})
		return nil
	})
}

func (m *Memory) putBack(reason string, which func(j *work.Job) bool) (kinds []string, err error) {
	err = m.locked(func() error {
		for _, j := range m.jobs {
			if j.State == work.Running && which(j) {
				release(j)
				j.Tries++
				j.Reason = reason
				kinds = append(kinds, j.Kind)
			}
		}
		return nil
	})
	return kinds, err
}

// Sweep puts back jobs whose leases ran out.
func (m *Memory) Sweep(_ context.Context, now time.Time) ([]string, error) {
	return m.putBack("its lease ran out", func(j *work.Job) bool { return j.LeaseUntil.Before(now) })
}

// Drop puts back all jobs of a node.
func (m *Memory) Drop(_ context.Context, node string) ([]string, error) {
	return m.putBack("its node was started anew", func(j *work.Job) bool { return j.Node == node })
}

// Bury puts back all jobs of nodes not seen for long.
func (m *Memory) Bury(_ context.Context, seenBefore time.Time) ([]string, error) {
	return m.putBack("its node died", func(j *work.Job) bool {
		n, ok := m.nodes[j.Node]
		return ok && n.Seen.Before(seenBefore)
	})
}

// Job gives a job.
func (m *Memory) Job(_ context.Context, id string) (j work.Job, err error) {
	err = m.locked(func() error {
		if m.jobs[id] == nil {
			return fault.Errorf(fault.NotFound, "there is no job %q", id)
		}
		j = *m.jobs[id]
		return nil
	})
	return j, err
}

// Counts says how many jobs there are.
func (m *Memory) Counts(context.Context) (all []work.Count, err error) {
	err = m.locked(func() error {
		for _, j := range m.jobs {
			i := slices.IndexFunc(all, func(c work.Count) bool { return c.Kind == j.Kind && c.State == j.State })
			if i < 0 {
				i = len(all)
				all = append(all, work.Count{Kind: j.Kind, State: j.State, Oldest: j.Created})
			}
			all[i].Jobs++
			if j.Created.Before(all[i].Oldest) {
				all[i].Oldest = j.Created
			}
		}
		slices.SortFunc(all, func(a, b work.Count) int {
			return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.State, b.State))
		})
		return nil
	})
	return all, err
}

// Prune removes jobs that ended long ago.
func (m *Memory) Prune(_ context.Context, before time.Time) (n int, err error) {
	err = m.locked(func() error {
		for id, j := range m.jobs {
			if !j.Ended.IsZero() && j.Ended.Before(before) {
				delete(m.jobs, id)
				n++
			}
		}
		return nil
	})
	return n, err
}

// Beat says that a node lives.
func (m *Memory) Beat(_ context.Context, n work.Node) error {
	return m.locked(func() error {
		if was, ok := m.nodes[n.ID]; ok && was.Started.After(n.Started) && !was.Seen.After(n.Seen) {
			return work.Replaced(n.ID)
		}
		m.nodes[n.ID] = n
		return nil
	})
}

// Nodes are all, by ID.
func (m *Memory) Nodes(context.Context) (all []work.Node, err error) {
	err = m.locked(func() error {
		for _, n := range m.nodes {
			n.Jobs = 0
			for _, j := range m.jobs {
				if j.State == work.Running && j.Node == n.ID {
					n.Jobs++
				}
			}
			all = append(all, n)
		}
		slices.SortFunc(all, func(a, b work.Node) int { return cmp.Compare(a.ID, b.ID) })
		return nil
	})
	return all, err
}

// Forget removes a node's row.
func (m *Memory) Forget(_ context.Context, node string) error {
	return m.locked(func() error {
		delete(m.nodes, node)
		return nil
	})
}
