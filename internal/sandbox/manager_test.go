package sandbox_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"assay/internal/fault"
	"assay/internal/guest"
	"assay/internal/sandbox"
	"assay/internal/sandbox/fake"
)

// driver is the fake driver with more that can go wrong.
type driver struct {
	*fake.Driver
	t        *testing.T
	identity string
	boots    atomic.Int64
	restores atomic.Int64

	mu       sync.Mutex
	machines map[string]*machine
	destroy  func(id string) error // before Destroy; an error skips it
	reclaim  func(id string) error // before Reclaim; an error skips it
	link     func(m sandbox.Machine) sandbox.Machine
}

func (d *driver) Identity() string { return d.identity }

func (d *driver) set(f func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f()
}

func (d *driver) keep(cfg sandbox.MachineConfig, m sandbox.Machine, err error) (sandbox.Machine, error) {
	if err != nil {
		var none *machine
		return none, err // a nil driver type inside an interface, as drivers give it
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.link != nil {
		m = d.link(m)
	}
	w := &machine{Machine: m, d: d, id: cfg.ID}
	d.machines[cfg.ID] = w
	return w, nil
}

func (d *driver) Boot(ctx context.Context, cfg sandbox.MachineConfig) (sandbox.Machine, error) {
	d.boots.Add(1)
	m, err := d.Driver.Boot(ctx, cfg)
	return d.keep(cfg, m, err)
}

func (d *driver) Restore(ctx context.Context, cfg sandbox.MachineConfig, dir string) (sandbox.Machine, error) {
	d.restores.Add(1)
	m, err := d.Driver.Restore(ctx, cfg, dir)
	return d.keep(cfg, m, err)
}

func (d *driver) Reclaim(ctx context.Context, id, dir string) error {
	d.mu.Lock()
	f := d.reclaim
	d.mu.Unlock()
	if f != nil {
		if err := f(id); err != nil {
			return err
		}
	}
	return d.Driver.Reclaim(ctx, id, dir)
}

// machine checks that the verbs are called one at a time.
type machine struct {
	sandbox.Machine
	d    *driver
	id   string
	verb atomic.Bool
}

func (m *machine) alone(f func() error) error {
	if m.verb.Swap(true) {
		m.d.t.Errorf("machine %s: two of Pause, Resume and Snapshot at a time", m.id)
	}
	defer m.verb.Store(false)
	return f()
}

func (m *machine) Pause(ctx context.Context) error {
	return m.alone(func() error { return m.Machine.Pause(ctx) })
}

func (m *machine) Resume(ctx context.Context) error {
	return m.alone(func() error { return m.Machine.Resume(ctx) })
}

func (m *machine) Snapshot(ctx context.Context, dir string) error {
	return m.alone(func() error { return m.Machine.Snapshot(ctx, dir) })
}

func (m *machine) Destroy(ctx context.Context) error {
	m.d.mu.Lock()
	f := m.d.destroy
	m.d.mu.Unlock()
	if f != nil {
		if err := f(m.id); err != nil {
			return err
		}
	}
	return m.Machine.Destroy(ctx)
}

// freeze makes guestd and all else of a machine stand still, without the
// manager knowing.
func (d *driver) freeze(t *testing.T, id string) {
	t.Helper()
	d.mu.Lock()
	m := d.machines[id]
	d.mu.Unlock()
	if err := m.Machine.Pause(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// env is one manager with its driver.
type env struct {
	*sandbox.Manager
	t        *testing.T
	driver   *driver
	opts     sandbox.Options
	template sandbox.Template
	stop     func() // ends Run, waits for it and closes the manager
	halt     func() // only ends Run and waits for it
}

var shape = sandbox.Shape{VCPUs: 1, Memory: 64 << 20, Disk: 16 << 20, Processes: 32}

// memory is room for four machines.
const memory = 4 * 64 << 20

func newDriver(t *testing.T) *driver {
	return &driver{Driver: fake.New(), t: t, identity: "fake 1", machines: map[string]*machine{}}
}

// newEnv opens a manager and runs it until the test ends, and checks then that
// nothing is left.
func newEnv(t *testing.T, change func(o *sandbox.Options)) *env {
	t.Helper()
	dir := t.TempDir()
	e := &env{t: t, driver: newDriver(t)}
	e.opts = sandbox.Options{Driver: e.driver, Dir: filepath.Join(dir, "engine"), CPUs: 2, Memory: memory}
	if change != nil {
		change(&e.opts)
	}
	e.template = newTemplate(t, dir)
	e.open()
	return e
}

func newTemplate(t *testing.T, dir string) sandbox.Template {
	t.Helper()
	tpl := sandbox.Template{
		Name: "base", Digest: "sha256:base", Image: filepath.Join(dir, "base.erofs"), Shape: shape,
		Snapshots: filepath.Join(dir, "warm"),
	}
	if err := os.WriteFile(tpl.Image, []byte("image"), 0o600); err != nil {
		t.Fatal(err)
	}
	return tpl
}

func (e *env) open() {
	e.t.Helper()
	m, err := sandbox.Open(e.t.Context(), e.opts)
	if err != nil {
		e.t.Fatal(err)
	}
	e.Manager = m
	e.run(m)
}

// run runs a manager until the test ends.
func (e *env) run(m *sandbox.Manager) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(e.t.Context()))
	var ran sync.WaitGroup
	ran.Go(func() { _ = m.Run(ctx) })
	var once atomic.Bool
	stopped := make(chan struct{})
	stop := func() {
		if once.Swap(true) {
			<-stopped // a sync.Once would hold up the bubble's clock
			return
		}
		defer close(stopped)
		cancel()
		ran.Wait()
		if err := m.Close(); err != nil {
			e.t.Errorf("close: %v", err)
		}
		e.empty()
	}
	e.stop = stop
	e.halt = func() {
		cancel()
		ran.Wait()
	}
	e.t.Cleanup(stop)
}

// empty checks that the closed manager left nothing.
func (e *env) empty() {
	e.t.Helper()
	if ids := e.driver.Machines(); len(ids) > 0 {
		e.t.Errorf("machines are left: %v", ids)
	}
	if left := names(e.t, filepath.Join(e.opts.Dir, "run")); !slices.Equal(left, []string{"lock", "pass"}) {
		e.t.Errorf("left in the journal: %v", left)
	}
	e.idle()
}

// idle checks that nothing is reserved.
func (e *env) idle() {
	e.t.Helper()
	cpus, mem := e.Free()
	if cpus != int64(e.opts.CPUs)*1000 || mem != e.opts.Memory {
		e.t.Errorf("free: %d thousandths of processors and %d bytes, want %d and %d", cpus, mem, e.opts.CPUs*1000, e.opts.Memory)
	}
}

// bare checks that the manager, still open, has no machine and no reservation.
func (e *env) bare() {
	e.t.Helper()
	if ids := e.driver.Machines(); len(ids) > 0 {
		e.t.Errorf("machines are left: %v", ids)
	}
	if left := names(e.t, e.JournalDir()); !slices.Equal(left, []string{"lock"}) {
		e.t.Errorf("left in the journal: %v", left)
	}
	if len(e.List()) > 0 {
		e.t.Errorf("sandboxes are left: %d", len(e.List()))
	}
	e.idle()
}

func names(t *testing.T, dir string) (list []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Error(err)
	}
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return list
}

func (e *env) spec() sandbox.Spec { return sandbox.Spec{Template: &e.template} }

func (e *env) create(change func(s *sandbox.Spec)) *sandbox.Sandbox {
	e.t.Helper()
	spec := e.spec()
	if change != nil {
		change(&spec)
	}
	s, err := e.Create(e.t.Context(), spec)
	if err != nil {
		e.t.Fatalf("create: %v", err)
	}
	return s
}

// bubble runs f with a manager on a clock of its own.
func bubble(t *testing.T, change func(o *sandbox.Options), f func(e *env)) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { f(newEnv(t, change)) })
}

// run1 runs a command without limits.
func run1(t *testing.T, s *sandbox.Sandbox, argv ...string) sandbox.Result {
	t.Helper()
	res, err := s.Exec(t.Context(), sandbox.ExecSpec{Argv: argv}, guest.IO{})
	if err != nil {
		t.Errorf("%v: %v", argv, err)
	}
	return res
}

func wantKind(t *testing.T, what string, err error, kind fault.Kind) {
	t.Helper()
	if err == nil || fault.KindOf(err) != kind {
		t.Errorf("%s: %v (kind %v), want kind %v", what, err, fault.KindOf(err), kind)
	}
}

// wantEnd waits for a sandbox's end and checks when, and why, it came.
func wantEnd(t *testing.T, s *sandbox.Sandbox, at time.Time, why string, cause sandbox.Cause) {
	t.Helper()
	<-s.Ended()
	if got := time.Now(); !got.Equal(at) {
		t.Errorf("ended %v too late", got.Sub(at))
	}
	if got := s.EndCause(); got != cause {
		t.Errorf("end cause %q, want %q", got, cause)
	}
	// Calls that it cut off are logged behind it.
	ended := func(ev sandbox.Event) bool { return ev.Kind == "ended" && ev.Detail["why"] == why }
	if log := s.Events(); !slices.ContainsFunc(log, ended) {
		t.Errorf("events %+v, want an end because %q", log, why)
	}
}

var errBroken = errors.New("broken")

func TestDeadline(t *testing.T) {
	bubble(t, nil, func(e *env) {
		began := time.Now()
		s := e.create(func(s *sandbox.Spec) { s.Deadline = began.Add(10 * time.Minute) })
		other := e.create(nil)
		res := run1(e.t, s, "sleep", "3600") // a command does not put it off
		if res.Exit.Cause != guest.Killed {
			t.Errorf("exec ended with %q, want killed", res.Exit.Cause)
		}
		wantEnd(e.t, s, began.Add(10*time.Minute), "deadline reached", guest.Killed)
		wantEnd(e.t, other, began.Add(sandbox.DefaultDeadline), "deadline reached", guest.Killed)
		synctest.Wait()
		e.bare()
	})
}

func TestIdleLimit(t *testing.T) {
	bubble(t, nil, func(e *env) {
		idle := func(s *sandbox.Spec) { s.IdleLimit = time.Minute }
		began := time.Now()
		unused, used, touched := e.create(idle), e.create(idle), e.create(idle)
		var wg sync.WaitGroup
		wg.Go(func() { run1(e.t, used, "sleep", "300") })
		wg.Go(func() {
			for range 4 {
				time.Sleep(50 * time.Second)
				touched.Touch()
			}
		})
		wantEnd(e.t, unused, began.Add(time.Minute), "idle limit reached", guest.Killed)
		wantEnd(e.t, touched, began.Add(200*time.Second+time.Minute), "idle limit reached", guest.Killed)
		wantEnd(e.t, used, began.Add(300*time.Second+time.Minute), "idle limit reached", guest.Killed)
		wg.Wait()
	})
}

func TestExtend(t *testing.T) {
	bubble(t, nil, func(e *env) {
		began := time.Now()
		s := e.create(func(s *sandbox.Spec) { s.Deadline = began.Add(time.Minute) })
		wantKind(e.t, "extend into the past", s.Extend(began), fault.Invalid)
		if err := s.Extend(began.Add(3 * time.Minute)); err != nil {
			t.Error(err)
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if err := s.Extend(began.Add(130 * time.Second)); err != nil { // sooner again
			t.Error(err)
		}
		wantEnd(e.t, s, began.Add(130*time.Second), "deadline reached", guest.Killed)
		wantKind(e.t, "extend after the end", s.Extend(time.Now().Add(time.Hour)), fault.Conflict)
		if left := names(e.t, e.JournalDir()); !slices.Equal(left, []string{"lock"}) {
			t.Errorf("left in the journal: %v", left)
		}
	})
}

// TestLostWakeup loses the wake-up that a nearer deadline gives: the sweep
// repairs it.
func TestLostWakeup(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := &env{t: t, driver: newDriver(t)}
		dir := t.TempDir()
		e.opts = sandbox.Options{Driver: e.driver, Dir: filepath.Join(dir, "engine"), CPUs: 2, Memory: memory}
		e.template = newTemplate(t, dir)
		m, err := sandbox.Open(t.Context(), e.opts)
		if err != nil {
			t.Fatal(err)
		}
		e.Manager = m
		s := e.create(nil)
		m.DropWakeup()
		e.run(m)
		synctest.Wait() // it has swept and sleeps
		began := time.Now()
		if !sandbox.ExtendUnheard(s, began.Add(time.Second)) {
			t.Fatal("no extension")
		}
		<-s.Ended()
		if late := time.Since(began); late > sandbox.SweepEvery {
			t.Errorf("ended after %v, want at most %v", late, sandbox.SweepEvery)
		}
	})
}

// TestSlowEnd: a machine that is slow to end makes no other late.
func TestSlowEnd(t *testing.T) {
	bubble(t, nil, func(e *env) {
		began := time.Now()
		slow := e.create(func(s *sandbox.Spec) { s.Deadline = began.Add(time.Minute) })
		e.driver.set(func() {
			e.driver.destroy = func(id string) error {
				if id == slow.Info().ID {
					time.Sleep(20 * time.Second)
				}
				return nil
			}
		})
		other := e.create(func(s *sandbox.Spec) { s.Deadline = began.Add(61 * time.Second) })
		wantEnd(e.t, other, began.Add(61*time.Second), "deadline reached", guest.Killed)
		wantEnd(e.t, slow, began.Add(80*time.Second), "deadline reached", guest.Killed)
	})
}

func TestMachineDies(t *testing.T) {
	bubble(t, nil, func(e *env) {
		for _, cause := range []sandbox.Cause{guest.MachineLost, guest.MemoryLimit} {
			s := e.create(func(s *sandbox.Spec) { s.Dedicated = true })
			e.driver.Crash(s.Info().ID, cause)
			wantEnd(e.t, s, time.Now(), "machine died", cause)
			if err := s.Destroy(); err != nil {
				t.Errorf("destroy after its end: %v", err)
			}
			synctest.Wait()
			e.bare()
			_, err := e.Get(s.Info().ID)
			wantKind(e.t, "get", err, fault.NotFound)
		}
	})
}

// TestDestroyFails: what the driver cannot destroy is reclaimed, at once or by
// a later sweep.
func TestDestroyFails(t *testing.T) {
	for _, tt := range []struct {
		name     string
		failures int64 // of Reclaim
	}{{"once", 0}, {"until-a-sweep", 3}} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, nil, func(e *env) {
				var asked atomic.Int64
				s := e.create(nil)
				e.driver.set(func() {
					e.driver.destroy = func(string) error { return errBroken }
					e.driver.reclaim = func(string) error {
						if asked.Add(1) <= tt.failures {
							return errBroken
						}
						return nil
					}
				})
				err := s.Destroy()
				if failed := tt.failures > 0; errors.Is(err, errBroken) != failed {
					t.Errorf("destroy: %v", err)
				}
				time.Sleep(time.Duration(tt.failures) * sandbox.SweepEvery)
				synctest.Wait()
				e.bare()
			})
		})
	}
}

// TestClose: Close ends what is under way, whatever it waits for, and refuses
// the rest.
func TestClose(t *testing.T) {
	bubble(t, func(o *sandbox.Options) { o.CPUs = 1 }, func(e *env) {
		s := e.create(func(s *sandbox.Spec) { s.Dedicated = true })
		e.driver.SetFaults(fake.Faults{RestoreTime: time.Minute})
		var wg sync.WaitGroup
		fails := func(what string, f func() error) {
			wg.Go(func() { wantKind(e.t, what, f(), fault.Unavailable) })
		}
		create := func(change func(s *sandbox.Spec)) func() error {
			spec := e.spec()
			change(&spec)
			return func() error { _, err := e.Create(context.Background(), spec); return err }
		}
		fails("create that waits for room", create(func(s *sandbox.Spec) { s.Dedicated = true }))
		synctest.Wait()
		if e.Queue() != 1 {
			t.Errorf("%d wait for room", e.Queue())
		}
		wg.Go(func() {
			res, err := s.Exec(context.Background(), sandbox.ExecSpec{Argv: []string{"sleep", "1000"}}, guest.IO{})
			if err != nil || res.Exit.Cause != guest.Killed {
				t.Errorf("exec: %+v, %v", res.Exit, err)
			}
		})
		synctest.Wait()
		began := time.Now()
		e.stop()
		wg.Wait()
		if took := time.Since(began); took > time.Second {
			t.Errorf("close took %v", took)
		}
		fails("create", create(func(*sandbox.Spec) {}))
		fails("prepare", func() error { _, err := e.Prepare(context.Background(), e.template); return err })
		wg.Wait()
		_, err := s.Fork(context.Background(), 1, sandbox.Spec{})
		wantKind(e.t, "fork", err, fault.Unavailable)
		if err := e.Close(); err != nil {
			t.Errorf("second close: %v", err)
		}
	})
}

// TestCloseDuringCreate closes while the driver makes a machine, and checks in
// stop that nothing of it is left.
func TestCloseDuringCreate(t *testing.T) {
	for _, tt := range []struct {
		name   string
		faults fake.Faults
	}{
		{"driver-works", fake.Faults{RestoreTime: time.Minute}},
		{"guestd-is-silent", fake.Faults{Silent: func(string) bool { return true }}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, nil, func(e *env) {
				if _, err := e.Prepare(e.t.Context(), e.template); err != nil {
					t.Fatal(err)
				}
				e.driver.SetFaults(tt.faults)
				done := make(chan error)
				go func() {
					_, err := e.Create(context.Background(), e.spec())
					done <- err
				}()
				time.Sleep(time.Second)
				go e.stop()
				wantKind(e.t, "create", <-done, fault.Unavailable)
			})
		})
	}
}

func TestList(t *testing.T) {
	bubble(t, nil, func(e *env) {
		var want []string
		for range 4 {
			want = append(want, e.create(nil).Info().ID)
			time.Sleep(time.Millisecond)
		}
		var got []string
		for _, s := range e.List() {
			got = append(got, s.Info().ID)
		}
		if !slices.Equal(got, want) {
			t.Errorf("list %v, want %v", got, want)
		}
		if s, err := e.Get(want[2]); err != nil || s.Info().ID != want[2] {
			t.Errorf("get: %v", err)
		}
	})
}

// TestBusy does everything at the same time, on the clock of the world; the
// race detector and the checks at the end are the test.
func TestBusy(t *testing.T) {
	t.Parallel()
	e := newEnv(t, func(o *sandbox.Options) { o.Pool = 2; o.Memory = 12 * 64 << 20 })
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	allowed := func(what string, err error) {
		if err != nil && ctx.Err() == nil && !fault.Is(err, fault.Conflict) && !fault.Is(err, fault.Unavailable) && !fault.Is(err, fault.NotFound) {
			t.Errorf("%s: %v (%v)", what, err, fault.KindOf(err))
		}
	}
	var wg sync.WaitGroup
	for i := range 6 {
		wg.Go(func() {
			for ctx.Err() == nil {
				s, err := e.Create(ctx, e.spec())
				if err != nil {
					allowed("create", err)
					continue
				}
				var use sync.WaitGroup
				use.Go(func() {
					_, err := s.Exec(ctx, sandbox.ExecSpec{Argv: []string{"probe", "tick", "5", "1ms"}, Limits: sandbox.Limits{Wall: time.Second}}, guest.IO{})
					allowed("exec", err)
				})
				use.Go(func() {
					snap, err := s.Snapshot(ctx, time.Minute)
					allowed("snapshot", err)
					if err == nil {
						allowed("remove", e.RemoveSnapshot(snap.ID))
					}
				})
				use.Go(func() {
					spec := sandbox.Spec{Deadline: time.Now().Add(time.Minute)}
					children, err := s.Fork(ctx, 2, spec)
					allowed("fork", err)
					for _, c := range children {
						allowed("child", c.Err)
						if c.Err == nil {
							allowed("destroy child", c.Sandbox.Destroy())
						}
					}
				})
				use.Go(func() {
					allowed("pause", s.Pause(ctx))
					allowed("resume", s.Resume(ctx))
					allowed("extend", s.Extend(time.Now().Add(time.Minute)))
				})
				if i%2 == 0 {
					use.Go(func() { allowed("destroy", s.Destroy()) })
				}
				use.Wait()
				allowed("destroy", s.Destroy())
			}
		})
	}
	wg.Wait()
	e.stop()
	if left := names(t, filepath.Join(e.opts.Dir, "snapshots")); len(left) > 0 {
		for _, id := range left {
			if strings.Contains(id, ".") {
				t.Errorf("left of a snapshot: %s", id)
			}
		}
	}
}

// remove removes a file or directory.
func (e *env) remove(path ...string) {
	e.t.Helper()
	must(e.t, os.RemoveAll(filepath.Join(path...)))
}

// TestEvents: the log tells a sandbox's life, outlives it, and its file too.
func TestEvents(t *testing.T) {
	bubble(t, nil, func(e *env) {
		ctx := e.t.Context()
		s := e.create(nil)
		run1(e.t, s, "true")
		must(e.t, s.Pause(ctx))
		must(e.t, s.Resume(ctx))
		e.snapshot(s, 0)
		if _, err := s.Fork(ctx, 1, sandbox.Spec{}); err != nil {
			t.Error(err)
		}
		must(e.t, s.Destroy())
		var kinds []string
		for _, ev := range s.Events() {
			kinds = append(kinds, ev.Kind)
		}
		want := []string{"created", "exec", "paused", "resumed", "snapshot", "fork", "ended"}
		if !slices.Equal(kinds, want) {
			t.Errorf("events %v, want %v", kinds, want)
		}
		e.stop()
		if len(s.Events()) != len(want) {
			t.Error("the log did not outlive its manager")
		}
	})
}
