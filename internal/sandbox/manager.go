package sandbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"assay/internal/fault"
)

// Options are a manager's settings.
type Options struct {
	// Driver makes the machines of all templates that name no other.
	Driver Driver
	// Drivers opens the driver that a template names. It is called until it has
	// succeeded once for a name, one call at a time; nil knows Driver alone.
	Drivers func(name string) (Driver, error)
	// Others remove, by the driver's name, what machines of other drivers left
	// in the same directory.
	Others map[string]Reclaim
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
	// Keeper names what this process is, the same at each start: persistent
	// sandboxes that a process of the name left are adopted by the next one.
	// Empty adopts none and makes none.
	Keeper string
	// Networks makes the networks of sandboxes with a policy; nil refuses them.
	Networks Networks
	Observe  Observer
	Log      *slog.Logger
}

// Manager gives out sandboxes on this host. All methods may be
// called at the same time. Run must be running for deadlines, idle limits,
// retention and the pool to be kept.
type Manager struct {
	drivers    *drivers
	dir        string
	log        *slog.Logger
	observe    Observer
	networks   Networks
	journal    *journal
	admission  *admission
	cores      *cores
	pool       *pool
	generation atomic.Int64
	wakeups    chan struct{}

	calls sync.WaitGroup // what Close waits for

	mu        sync.Mutex
	sandboxes map[string]*Sandbox
	closed    bool
	underWay  map[*call]struct{} // what Close cancels
	leftovers []*body            // could not be ended; the sweep tries again
	expire    time.Time          // when to look for snapshots past their retention
	adopted   int                // by Open

	closing  sync.Once
	closeErr error
}

// Open makes a manager, after it has killed and removed whatever managers that
// died left in the directory, and adopted the persistent sandboxes of those of
// its keeper. Close it.
func Open(ctx context.Context, o Options) (*Manager, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Networks == nil {
		o.Networks = noNetworks{}
	}
	if o.Overcommit == 0 {
		o.Overcommit = 64
	}
	for _, d := range []string{"", "snapshots", "events"} {
		if err := os.MkdirAll(filepath.Join(o.Dir, d), 0o700); err != nil {
			return nil, fault.Errorf(fault.Internal, "open engine: %w", err)
		}
	}
	j, err := openJournal(ctx, filepath.Join(o.Dir, "run"), o)
	if err != nil {
		return nil, err
	}
	cores, err := newCores(o.Log)
	if err != nil {
		return nil, errors.Join(err, j.close())
	}
	m := &Manager{
		drivers: j.drivers, dir: o.Dir, log: o.Log, observe: o.Observe, networks: o.Networks, journal: j,
		admission: newAdmission(o.CPUs, cores.all[:min(o.CPUs, len(cores.all))], o.Memory, o.Overcommit), cores: cores,
		wakeups: make(chan struct{}, 1), sandboxes: map[string]*Sandbox{}, underWay: map[*call]struct{}{},
	}
	m.pool = newPool(m, o.Pool)
	m.adoptAll(ctx)
	return m, nil
}

// Driver gives the driver of templates that name none.
func (m *Manager) Driver() Driver { return m.drivers.main }

// Emulated reports whether a template's machines have an emulated processor. Of
// a driver that cannot be opened nothing is known: who makes a machine hears
// why.
func (m *Manager) Emulated(t Template) bool {
	d, err := m.drivers.named(t.Driver)
	return err == nil && emulates(d)
}

// Memory is how many bytes of machines may live at once.
func (m *Manager) Memory() int64 { return m.admission.allBytes }

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
	slices.SortFunc(list, func(a, b *Sandbox) int {
		return cmp.Or(a.info.Created.Compare(b.info.Created), strings.Compare(a.info.ID, b.info.ID))
	})
	return list
}

// call is a call that may make something.
type call struct{ cancel context.CancelCauseFunc }

// enter begins such a call. Its context ends with the manager too, and Close
// waits until leave was called.
func (m *Manager) enter(ctx context.Context) (_ context.Context, leave func(), err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	c := &call{cancel: cancel}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		cancel(errClosed)
		return nil, nil, errClosed
	}
	m.calls.Add(1)
	m.underWay[c] = struct{}{}
	return ctx, func() {
		m.mu.Lock()
		delete(m.underWay, c)
		m.mu.Unlock()
		cancel(nil)
		m.calls.Done()
	}, nil
}

var errClosed = fault.Errorf(fault.Unavailable, "the engine is shutting down")

// sweepEvery is how long Run sleeps at most: deadlines hold even if a wake-up
// was lost.
const sweepEvery = 30 * time.Second

// Run keeps deadlines, idle limits, snapshot retention and the pool until ctx
// ends. It returns when everything it started has ended.
func (m *Manager) Run(ctx context.Context) error {
	var started sync.WaitGroup
	started.Go(func() { m.pool.run(ctx) })
	defer started.Wait()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-m.wakeups:
		case <-timer.C:
		}
		timer.Reset(m.sweep(time.Now(), &started))
	}
}

// wake makes Run look at the deadlines again.
func (m *Manager) wake() {
	select {
	case m.wakeups <- struct{}{}:
	default:
	}
}

// sweep ends what is due and says when to sweep next. What it started goes on
// in the group: one machine that is slow to end must not make others late.
func (m *Manager) sweep(now time.Time, started *sync.WaitGroup) time.Duration {
	next := sweepEvery
	for _, s := range m.List() {
		left, due := s.expire(now)
		if !due {
			next = min(next, left)
			continue
		}
		started.Go(func() {
			if err := s.finish(); err != nil {
				m.log.Error("end sandbox at its deadline", "sandbox", s.info.ID, "err", err)
			}
		})
	}
	m.mu.Lock()
	expire := m.expire
	m.mu.Unlock()
	if !now.Before(expire) {
		expire = m.expireSnapshots(now, started)
		started.Go(m.endLeftovers)
	}
	return min(next, expire.Sub(now))
}

// endLeftovers tries again to remove what could not be ended.
func (m *Manager) endLeftovers() {
	m.mu.Lock()
	left := m.leftovers
	m.leftovers = nil
	m.mu.Unlock()
	for _, b := range left {
		if err := m.reclaim(b); err != nil {
			m.log.Error("end a machine that would not end", "machine", b.id, "err", err)
		}
	}
}

// forget drops a destroyed sandbox.
func (m *Manager) forget(id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.sandboxes, id)
}

// Close refuses further calls, ends those under way, destroys all sandboxes but
// persistent ones, which go on, and gives up the directory. Run has returned
// before. It is idempotent.
func (m *Manager) Close() error {
	m.closing.Do(func() { m.closeErr = m.close() })
	return m.closeErr
}

func (m *Manager) close() error {
	m.mu.Lock()
	m.closed = true
	for c := range m.underWay {
		c.cancel(errClosed)
	}
	m.mu.Unlock()
	var wg sync.WaitGroup
	var mu sync.Mutex
	var errs []error
	for _, s := range m.List() {
		wg.Go(func() {
			if err := s.close(); err != nil {
				mu.Lock()
				defer mu.Unlock()
				errs = append(errs, fmt.Errorf("sandbox %s: %w", s.info.ID, err))
			}
		})
	}
	wg.Wait()
	m.calls.Wait()
	m.pool.drain()
	return errors.Join(append(errs, m.journal.close())...)
}
