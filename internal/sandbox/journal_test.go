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
	"assay/internal/sandbox"
	"assay/internal/sandbox/fake"
)

// dead leaves what a killed process leaves: two machines, half of a fork, of a
// snapshot and of a removal, and the lock given up. It gives the manager, which
// runs no more.
func dead(t *testing.T, opts sandbox.Options, tpl sandbox.Template) *sandbox.Manager {
	t.Helper()
	m, err := sandbox.Open(t.Context(), opts)
	must(t, err)
	for range 2 {
		_, err := m.Create(t.Context(), sandbox.Spec{Template: &tpl})
		must(t, err)
	}
	for _, dir := range []string{"fork-1.tmp/state", "snapshot-2.tmp", "removed-x.tmp"} {
		must(t, os.MkdirAll(filepath.Join(m.JournalDir(), dir), 0o700))
	}
	m.Die()
	return m
}

func TestReclaim(t *testing.T) {
	bubble(t, nil, func(e *env) {
		living := e.create(nil)
		old := dead(e.t, e.opts, e.template)
		must(e.t, os.Mkdir(filepath.Join(e.RunDir(), "fresh-half"), 0o700))
		if n := len(e.driver.Machines()); n != 3 {
			t.Fatalf("%d machines, want 3", n)
		}
		next, err := sandbox.Open(e.t.Context(), e.opts)
		must(e.t, err)
		if next.Reclaimed() != 2 {
			t.Errorf("reclaimed %d, want 2", next.Reclaimed())
		}
		if ids := e.driver.Machines(); !slices.Equal(ids, []string{living.Info().ID}) {
			t.Errorf("machines %v, want only the living manager's %s", ids, living.Info().ID)
		}
		run1(e.t, living, "true")
		want := []string{filepath.Base(e.JournalDir()), filepath.Base(next.JournalDir()), "lock", "pass"}
		slices.Sort(want)
		if got := names(e.t, e.RunDir()); !slices.Equal(got, want) {
			t.Errorf("journals %v, want %v", got, want)
		}
		must(e.t, next.Close())
		_ = old.Close() // only ends its goroutines: everything is gone
	})
}

// TestReclaimFails: what the driver cannot reclaim stays recorded, the start
// works beside it, and the next start tries again.
func TestReclaimFails(t *testing.T) {
	bubble(t, nil, func(e *env) {
		old := dead(e.t, e.opts, e.template)
		var failed atomic.Value
		e.driver.set(func() {
			e.driver.reclaim = func(id string) error {
				if failed.CompareAndSwap(nil, id) || failed.Load() == id {
					return errBroken
				}
				return nil
			}
		})
		second, err := sandbox.Open(e.t.Context(), e.opts)
		must(e.t, err)
		if second.Reclaimed() != 1 {
			t.Errorf("reclaimed %d, want 1", second.Reclaimed())
		}
		id := failed.Load().(string)
		for _, name := range []string{id, id + ".json"} {
			if _, err := os.Stat(filepath.Join(old.JournalDir(), name)); err != nil {
				t.Errorf("not recorded any more: %v", err)
			}
		}
		must(e.t, second.Close())
		e.driver.set(func() { e.driver.reclaim = nil })
		third, err := sandbox.Open(e.t.Context(), e.opts)
		must(e.t, err)
		if third.Reclaimed() != 1 || len(e.driver.Machines()) != 0 {
			t.Errorf("reclaimed %d, machines %v", third.Reclaimed(), e.driver.Machines())
		}
		must(e.t, third.Close())
		_ = old.Close() // only ends its goroutines: everything is gone
	})
}

// TestReclaimOdd reclaims from records that a crash cut short.
func TestReclaimOdd(t *testing.T) {
	for _, tt := range []struct {
		name      string
		files     map[string]string // ending in a slash: a directory
		reclaimed int
		stays     bool
	}{
		{"empty", nil, 0, false},
		{"half-a-record", map[string]string{"abc.json": `{"id":"ab`}, 1, false},
		{"directory-only", map[string]string{"abc/": ""}, 1, false},
		{"record-and-directory", map[string]string{"abc/": "", "abc.json": `{"id":"abc","driver":"fake"}`}, 1, false},
		{"another-driver", map[string]string{"abc/": "", "abc.json": `{"id":"abc","driver":"other"}`}, 0, true},
		{"other-files", map[string]string{"fork-1.tmp/": "", "x.tmp": ""}, 0, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			opts := sandbox.Options{Driver: fake.New(), Dir: t.TempDir(), CPUs: 1, Memory: memory}
			old := filepath.Join(opts.Dir, "run", "old")
			must(t, os.MkdirAll(old, 0o700))
			for name, text := range tt.files {
				if dir, ok := strings.CutSuffix(name, "/"); ok {
					must(t, os.Mkdir(filepath.Join(old, dir), 0o700))
					continue
				}
				must(t, os.WriteFile(filepath.Join(old, name), []byte(text), 0o600))
			}
			m, err := sandbox.Open(t.Context(), opts)
			must(t, err)
			if m.Reclaimed() != tt.reclaimed {
				t.Errorf("reclaimed %d, want %d", m.Reclaimed(), tt.reclaimed)
			}
			if _, err := os.Stat(old); (err == nil) != tt.stays {
				t.Errorf("the directory: %v, want it to stay: %v", err, tt.stays)
			}
			must(t, m.Close())
		})
	}
}

// TestOpenTogether opens many managers over one dead one: each machine is
// reclaimed once, and none of the living is.
func TestOpenTogether(t *testing.T) {
	t.Parallel()
	d := newDriver(t)
	dir := t.TempDir()
	opts := sandbox.Options{Driver: d, Dir: filepath.Join(dir, "engine"), CPUs: 64, Memory: 1 << 40}
	tpl := newTemplate(t, dir)
	old := dead(t, opts, tpl)
	var reclaimed atomic.Int64
	var mu sync.Mutex
	asked := map[string]int{}
	d.set(func() {
		d.reclaim = func(id string) error {
			mu.Lock()
			defer mu.Unlock()
			asked[id]++
			return nil
		}
	})
	var wg sync.WaitGroup
	for range 12 {
		wg.Go(func() {
			for range 5 {
				m, err := sandbox.Open(t.Context(), opts)
				if err != nil {
					t.Error(err)
					return
				}
				reclaimed.Add(int64(m.Reclaimed()))
				s, err := m.Create(t.Context(), sandbox.Spec{Template: &tpl})
				if err != nil {
					t.Error(err)
				} else {
					run1(t, s, "true")
				}
				if err := m.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if reclaimed.Load() != 2 || len(asked) != 2 {
		t.Errorf("reclaimed %d, asked for %v", reclaimed.Load(), asked)
	}
	for id, n := range asked {
		if n != 1 {
			t.Errorf("%s was reclaimed %d times", id, n)
		}
	}
	if left := names(t, old.RunDir()); !slices.Equal(left, []string{"lock", "pass"}) {
		t.Errorf("left: %v", left)
	}
	_ = old.Close() // only ends its goroutines
}

// TestJournalRecord: the record is there before the driver is asked, with the
// deadline soon after, and is gone with the sandbox.
func TestJournalRecord(t *testing.T) {
	bubble(t, nil, func(e *env) {
		e.driver.SetFaults(fake.Faults{Boot: func(id string) error {
			for _, name := range []string{id, id + ".json"} {
				if _, err := os.Stat(filepath.Join(e.JournalDir(), name)); err != nil {
					t.Errorf("at boot: %v", err)
				}
			}
			return nil
		}})
		s := e.create(func(s *sandbox.Spec) { s.Cold = true })
		record := filepath.Join(e.JournalDir(), s.Info().ID+".json")
		until := time.Now().Add(7 * time.Minute)
		must(e.t, s.Extend(until))
		b, err := os.ReadFile(record)
		must(e.t, err)
		if want := until.Format(time.RFC3339); !strings.Contains(string(b), want[:19]) {
			t.Errorf("record %s has no deadline %s", b, want)
		}
		// Extend and Destroy at once: the record must not come back.
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() { _ = s.Extend(until) })
		}
		must(e.t, s.Destroy())
		wg.Wait()
		synctest.Wait()
		e.bare()
	})
}

func TestOpenFails(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(file, nil, 0o600))
	_, err := sandbox.Open(t.Context(), sandbox.Options{Driver: fake.New(), Dir: file})
	wantKind(t, "open on a file", err, fault.Internal)
}

func TestPrepareOnce(t *testing.T) {
	bubble(t, nil, func(e *env) {
		other, err := sandbox.Open(e.t.Context(), e.opts) // as another process would
		must(e.t, err)
		defer func() { must(e.t, other.Close()) }()
		e.driver.SetFaults(fake.Faults{BootTime: 10 * time.Second})
		if e.Prepared(e.template) {
			t.Error("prepared before")
		}
		var wg sync.WaitGroup
		dirs := make([]string, 6)
		for i := range dirs {
			wg.Go(func() {
				m := e.Manager
				if i%2 == 0 {
					m = other
				}
				var err error
				if dirs[i], err = m.Prepare(e.t.Context(), e.template); err != nil {
					t.Error(err)
				}
			})
		}
		// One who waits can leave, at once and with the reason.
		ctx, cancel := context.WithTimeoutCause(e.t.Context(), time.Second, errBroken)
		defer cancel()
		synctest.Wait()
		began := time.Now()
		if _, err := other.Prepare(ctx, e.template); !errors.Is(err, errBroken) {
			t.Errorf("a cancelled waiter: %v", err)
		}
		if took := time.Since(began); took != time.Second {
			t.Errorf("a cancelled waiter left after %v", took)
		}
		wg.Wait()
		if n := e.driver.boots.Load(); n != 1 {
			t.Errorf("%d boots, want 1", n)
		}
		if len(slices.Compact(dirs)) != 1 || !e.Prepared(e.template) {
			t.Errorf("directories %v", dirs)
		}
		e.bare()
	})
}

// TestPrepareFirstLeaves: when the one who boots is cancelled, one who waits
// does it.
func TestPrepareFirstLeaves(t *testing.T) {
	bubble(t, nil, func(e *env) {
		e.driver.SetFaults(fake.Faults{BootTime: 10 * time.Second})
		ctx, cancel := context.WithTimeout(e.t.Context(), time.Second)
		defer cancel()
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := e.Prepare(ctx, e.template); err == nil {
				t.Error("no error of a cancelled preparation")
			}
		})
		synctest.Wait()
		if _, err := e.Prepare(e.t.Context(), e.template); err != nil {
			t.Error(err)
		}
		wg.Wait()
		if n := e.driver.boots.Load(); n != 2 {
			t.Errorf("%d boots, want 2", n)
		}
		e.bare()
	})
}

func TestPrepareFails(t *testing.T) {
	for _, tt := range []struct {
		name   string
		warm   []string
		faults fake.Faults
		kind   fault.Kind
		text   string
	}{
		{"warm-up", []string{"warm-the-cache"}, fake.Faults{}, fault.Invalid, "no such file"}, // the fake has no shell
		{"snapshot", nil, fake.Faults{Snapshot: func(string) error { return fault.Errorf(fault.Exhausted, "disk full") }}, fault.Exhausted, "disk full"},
		{"boot", nil, fake.Faults{Boot: func(string) error { return errBroken }}, fault.Internal, "broken"},
		{"silent", nil, fake.Faults{Silent: func(string) bool { return true }}, fault.Unavailable, "did not answer"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, pooled(1), func(e *env) {
				e.template.Warm = tt.warm
				e.driver.SetFaults(tt.faults)
				_, err := e.Prepare(e.t.Context(), e.template)
				wantKind(e.t, "prepare", err, tt.kind)
				if err != nil && !strings.Contains(err.Error(), tt.text) {
					t.Errorf("%v does not say %q", err, tt.text)
				}
				for _, name := range names(e.t, e.template.Snapshots) {
					if filepath.Ext(name) != ".lock" {
						t.Errorf("left: %s", name)
					}
				}
				if e.Prepared(e.template) {
					t.Error("prepared after a failure")
				}
				e.bare()
			})
		})
	}
}

// TestPrepareAfterCrash: what a preparation left that died is no snapshot and
// is removed.
func TestPrepareAfterCrash(t *testing.T) {
	bubble(t, nil, func(e *env) {
		dir, err := e.Prepare(e.t.Context(), e.template)
		must(e.t, err)
		must(e.t, os.Rename(dir, dir+".tmp"))
		must(e.t, os.WriteFile(filepath.Join(dir+".tmp", "half"), nil, 0o600))
		again, err := e.Prepare(e.t.Context(), e.template)
		must(e.t, err)
		if again != dir {
			t.Errorf("directory %s, want %s", again, dir)
		}
		if got := names(e.t, e.template.Snapshots); len(got) != 2 {
			t.Errorf("there are %v, want the snapshot and its lock", got)
		}
		if got := names(e.t, dir); slices.Contains(got, "half") {
			t.Errorf("the snapshot holds %v", got)
		}
	})
}
