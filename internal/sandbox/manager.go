package sandbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sort"
	"sync"
	"sync/atomic"
	"time"

	"assay/internal/fault"
	"assay/internal/guest"
)

// Options are a manager's settings.
type Options struct {
	Driver Driver
	// Dir is where journal, machines, snapshots and event logs are kept. Several
	// managers, in several processes, may share it.
	Dir string
	// CPUs and Memory (bytes) are what this manager may give out.
	CPUs   int
	Memory int64
	// Overcommit is how many vCPUs of machines that are not Dedicated share one
	// processor. Zero is 64: a person at a terminal uses little of one.
	Overcommit int
	// Pool is how many machines of each prepared template wait, never used.
	Pool int
	Log  *slog.Logger
}

// Manager gives out sandboxes of one driver on this host. All methods may be
// called at the same time. Run must be running for deadlines, idle limits,
// retention and the pool to be kept.
type Manager struct {
	driver     Driver
	dir        string
	log        *slog.Logger
	journal    *journal
	admission  *admission
	pool       *pool
	generation atomic.Int64
	wakeups    chan struct{}

	mu        sync.Mutex
	sandboxes map[string]*Sandbox
	closed    bool
}

// Open makes a manager, after it has killed and removed whatever managers that
// died left in the directory. Close it.
func Open(ctx context.Context, o Options) (*Manager, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Overcommit == 0 {
		o.Overcommit = 64
	}
	for _, d := range []string{"", "snapshots", "events"} {
		if err := os.MkdirAll(filepath.Join(o.Dir, d), 0o700); err != nil {
			return nil, fault.Errorf(fault.Internal, "open engine: %w", err)
		}
	}
	j, err := openJournal(ctx, filepath.Join(o.Dir, "run"), o.Driver, o.Log)
	if err != nil {
		return nil, err
	}
	m := &Manager{
		driver: o.Driver, dir: o.Dir, log: o.Log, journal: j,
		admission: newAdmission(o.CPUs, o.Memory, o.Overcommit),
		wakeups:   make(chan struct{}, 1), sandboxes: map[string]*Sandbox{},
	}
	m.generation.Store(time.Now().Unix())
	m.pool = newPool(m, o.Pool)
	return m, nil
}

// Driver gives the manager's driver.
func (m *Manager) Driver() Driver { return m.driver }

// Reclaimed says how many machines of earlier lives Open removed.
func (m *Manager) Reclaimed() int { return m.journal.reclaimed }

// Get gives a live sandbox by its ID, or fault.NotFound.
func (m *Manager) Get(id string) (*Sandbox, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s, ok := m.sandboxes[id]
	if !ok {
		return nil, fault.Errorf(fault.NotFound, "no sandbox %s", id)
	}
	return s, nil
}

// List gives all live sandboxes, oldest first.
func (m *Manager) List() []*Sandbox {
	m.mu.Lock()
	defer m.mu.Unlock()
	list := make([]*Sandbox, 0, len(m.sandboxes))
	for _, s := range m.sandboxes {
		list = append(list, s)
	}
	sort.Slice(list, func(i, j int) bool { return list[i].info.Created.Before(list[j].info.Created) })
	return list
}

// sweepEvery is how long Run sleeps at most: deadlines hold even if a wake-up
// was lost.
const sweepEvery = 30 * time.Second

// Run keeps deadlines, idle limits, snapshot retention and the pool until ctx
// ends. It returns when everything it started has ended.
func (m *Manager) Run(ctx context.Context) error {
	var pool sync.WaitGroup
	pool.Go(func() { m.pool.run(ctx) })
	defer pool.Wait()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-m.wakeups:
		case <-timer.C:
		}
		timer.Reset(m.sweep(time.Now()))
	}
}

// wake makes Run look at the deadlines again.
func (m *Manager) wake() {
	select {
	case m.wakeups <- struct{}{}:
	default:
	}
}

// sweep ends what is due and says when to sweep next.
func (m *Manager) sweep(now time.Time) time.Duration {
	next := sweepEvery
	var due sync.WaitGroup
	for _, s := range m.List() {
		at, why := s.due()
		if left := at.Sub(now); left > 0 {
			next = min(next, left)
			continue
		}
		due.Go(func() {
			if err := s.destroy(why, guest.Killed); err != nil {
				m.log.Error("end sandbox at its deadline", "sandbox", s.info.ID, "err", err)
			}
		})
	}
	m.expireSnapshots(now)
	due.Wait()
	return next
}

// forget drops a destroyed sandbox.
func (m *Manager) forget(id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.sandboxes, id)
}

// Close destroys all sandboxes and gives up the directory. Run has returned
// before.
func (m *Manager) Close() error {
	m.mu.Lock()
	m.closed = true
	m.mu.Unlock()
	var wg sync.WaitGroup
	var mu sync.Mutex
	var errs []error
	for _, s := range m.List() {
		wg.Go(func() {
			if err := s.destroy("engine closed", guest.Killed); err != nil {
				mu.Lock()
				defer mu.Unlock()
				errs = append(errs, fmt.Errorf("sandbox %s: %w", s.info.ID, err))
			}
		})
	}
	wg.Wait()
	m.pool.drain()
	return errors.Join(append(errs, m.journal.close())...)
}
