package sandbox_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"assay/internal/guest"
	"assay/internal/sandbox"
	"assay/internal/sandbox/fake"
)

func pooled(n int) func(o *sandbox.Options) {
	return func(o *sandbox.Options) { o.Pool = n }
}

func (e *env) waitPool(n int) []string {
	e.t.Helper()
	if err := e.WaitPool(e.t.Context(), e.template); err != nil {
		e.t.Fatal(err)
	}
	ids := e.Pooled()
	if len(ids) != n {
		e.t.Errorf("%d machines wait, want %d", len(ids), n)
	}
	return ids
}

func TestPool(t *testing.T) {
	bubble(t, pooled(2), func(e *env) {
		e.driver.SetFaults(fake.Faults{RestoreTime: time.Second})
		used := map[string]bool{}
		for range 3 {
			waiting := e.waitPool(2)
			began := time.Now()
			s := e.create(nil)
			i := s.Info()
			if took := time.Since(began); i.BootMode != sandbox.BootPool || took > 0 {
				t.Errorf("boot mode %q after %v", i.BootMode, took)
			}
			if used[i.ID] || !slices.Contains(waiting, i.ID) {
				t.Errorf("%s did not wait unused in %v", i.ID, waiting)
			}
			used[i.ID] = true
			run1(e.t, s, "true")
			must(e.t, s.Destroy())
		}
		for _, id := range e.waitPool(2) {
			if used[id] {
				t.Errorf("%s was used and waits again", id)
			}
		}
		if cold := e.create(func(s *sandbox.Spec) { s.Cold = true }); cold.Info().BootMode != sandbox.BootCold {
			t.Error("a cold sandbox came from the pool")
		}
		// More at once than wait: the others are restored.
		modes := map[sandbox.BootMode]int{}
		for range 3 {
			modes[e.create(nil).Info().BootMode]++
		}
		if modes[sandbox.BootPool] != 2 || modes[sandbox.BootSnapshot] != 1 {
			t.Errorf("boot modes %v", modes)
		}
	})
}

// TestPoolSkips: machines that died, or fell silent, while they waited are not
// handed out, and nothing of them stays.
func TestPoolSkips(t *testing.T) {
	for _, tt := range []struct {
		name  string
		spoil func(e *env, id string)
		most  time.Duration
	}{
		{"dead", func(e *env, id string) { e.driver.Crash(id, guest.MachineLost) }, 0},
		{"silent", func(e *env, id string) { e.driver.freeze(e.t, id) }, 5 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, pooled(2), func(e *env) {
				waiting := e.waitPool(2)
				tt.spoil(e, waiting[0])
				began := time.Now()
				s := e.create(nil)
				if got := s.Info(); got.ID != waiting[1] || got.BootMode != sandbox.BootPool {
					t.Errorf("got %s (%s), want %s", got.ID, got.BootMode, waiting[1])
				}
				if took := time.Since(began); took > tt.most {
					t.Errorf("took %v", took)
				}
				must(e.t, s.Destroy())
				if left := e.waitPool(2); slices.Contains(left, waiting[0]) || len(e.driver.Machines()) != 2 {
					t.Errorf("machines %v", e.driver.Machines())
				}
			})
		})
	}
}

// TestPoolRefillFails: the pool tries again, and a caller is served meanwhile.
func TestPoolRefillFails(t *testing.T) {
	bubble(t, pooled(1), func(e *env) {
		e.waitPool(1)
		var mu sync.Mutex
		failing := true
		e.driver.SetFaults(fake.Faults{Restore: func(string) error {
			mu.Lock()
			defer mu.Unlock()
			if failing {
				return errBroken
			}
			return nil
		}})
		e.create(nil)
		time.Sleep(10 * time.Second)
		if len(e.Pooled()) > 0 {
			t.Error("the pool was filled by a broken driver")
		}
		tries := e.driver.restores.Load()
		if tries > 15 {
			t.Errorf("%d tries within 10 s", tries)
		}
		mu.Lock()
		failing = false
		mu.Unlock()
		e.waitPool(1)
	})
}

// TestPoolForgets: of a template whose snapshot is gone, no machines are made
// any more.
func TestPoolForgets(t *testing.T) {
	bubble(t, pooled(1), func(e *env) {
		e.waitPool(1)
		e.driver.SetFaults(fake.Faults{RestoreTime: time.Second, Restore: func(string) error { return errBroken }})
		e.create(nil) // takes the one that waits
		before := e.driver.restores.Load()
		for _, name := range names(e.t, e.template.Snapshots) {
			e.remove(e.template.Snapshots, name)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := e.driver.restores.Load() - before; n > 1 {
			t.Errorf("%d machines were tried", n)
		}
	})
}

// TestPoolKeepsShapesApart: templates of one content and two shapes have each
// their own machines.
func TestPoolKeepsShapesApart(t *testing.T) {
	bubble(t, pooled(1), func(e *env) {
		e.waitPool(1)
		large := e.template
		large.Shape.Memory *= 2
		s, err := e.Create(e.t.Context(), sandbox.Spec{Template: &large})
		must(e.t, err)
		if got := s.Info().Shape; got != large.Shape {
			t.Errorf("shape %+v, want %+v", got, large.Shape)
		}
	})
}

// TestPoolOnce: however many ask at once, nobody gets another's machine.
func TestPoolOnce(t *testing.T) {
	t.Parallel()
	e := newEnv(t, func(o *sandbox.Options) { o.Pool = 4; o.Memory = 1 << 40 })
	e.waitPool(4)
	var mu sync.Mutex
	seen := map[string]int{}
	modes := map[sandbox.BootMode]int{}
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for range 4 {
				s, err := e.Create(context.Background(), e.spec())
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				seen[s.Info().ID]++
				modes[s.Info().BootMode]++
				mu.Unlock()
				if err := s.Destroy(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	for id, n := range seen {
		if n > 1 {
			t.Errorf("%s was handed out %d times", id, n)
		}
	}
	if len(seen) != 64 || modes[sandbox.BootPool] < 4 {
		t.Errorf("%d machines, %v", len(seen), modes)
	}
}

// TestPoolClose: Close ends the waiting ones; newEnv checks that.
func TestPoolClose(t *testing.T) {
	bubble(t, pooled(3), func(e *env) {
		e.waitPool(3)
		waited := make(chan error)
		e.driver.SetFaults(fake.Faults{RestoreTime: time.Hour})
		e.create(nil)
		go func() { waited <- e.WaitPool(context.Background(), e.template) }()
		synctest.Wait()
		go e.stop()
		if err := <-waited; err != nil {
			t.Errorf("wait for a pool that is closed: %v", err)
		}
	})
}
