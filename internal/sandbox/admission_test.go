package sandbox

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"assay/internal/fault"
)

func vcpus(n int, memory int64) Shape { return Shape{VCPUs: n, Memory: memory} }

// asker waits for room under a name and notes when it came and what it was told.
type asker struct {
	a     *admission
	mu    sync.Mutex
	order []string
	told  map[string][]int
	given map[string][]*reservation
}

func newAsker(a *admission) *asker {
	return &asker{a: a, told: map[string][]int{}, given: map[string][]*reservation{}}
}

// ask starts to wait and returns when the queue stands still.
func (k *asker) ask(ctx context.Context, name string, s Shape, n int) {
	go func() {
		releases, err := k.a.reserve(ctx, claim{shape: s, dedicated: true}, n, func(place int) {
			k.mu.Lock()
			defer k.mu.Unlock()
			k.told[name] = append(k.told[name], place)
		})
		k.mu.Lock()
		defer k.mu.Unlock()
		if err != nil {
			name += ": " + err.Error()
		}
		k.order = append(k.order, name)
		k.given[name] = releases
	}()
	synctest.Wait()
}

func (k *asker) giveBack(name string) {
	k.mu.Lock()
	releases := k.given[name]
	k.mu.Unlock()
	for _, r := range releases {
		r.release()
		r.release() // the second time does nothing
	}
	synctest.Wait()
}

func (k *asker) want(t *testing.T, order ...string) {
	t.Helper()
	k.mu.Lock()
	defer k.mu.Unlock()
	if !slices.Equal(k.order, order) {
		t.Errorf("admitted %v, want %v", k.order, order)
	}
}

func TestAdmissionOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := newAsker(newAdmission(4, []int{0, 1, 2, 3}, 100, 64))
		ctx := t.Context()
		k.ask(ctx, "a", vcpus(2, 10), 1)
		k.ask(ctx, "b", vcpus(2, 10), 1)
		k.ask(ctx, "large", vcpus(4, 10), 1)
		k.ask(ctx, "small", vcpus(1, 10), 1)
		k.ask(ctx, "smaller", vcpus(1, 10), 1)
		k.giveBack("a") // small would fit now and must not overtake
		k.want(t, "a", "b")
		k.giveBack("b")
		k.want(t, "a", "b", "large")
		k.giveBack("large")
		slices.Sort(k.order[3:]) // both came at once
		k.want(t, "a", "b", "large", "small", "smaller")
		for name, want := range map[string][]int{"a": nil, "large": {1}, "small": {2, 1}, "smaller": {3, 2}} {
			if got := k.told[name]; !slices.Equal(got, want) {
				t.Errorf("%s was told its places %v, want %v", name, got, want)
			}
		}
		k.giveBack("small")
		k.giveBack("smaller")
		if k.a.cpus != 4000 || k.a.memory != 100 {
			t.Errorf("free: %d, %d", k.a.cpus, k.a.memory)
		}
	})
}

func TestAdmissionCancel(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := newAsker(newAdmission(2, []int{0, 1}, 100, 64))
		gone := errors.New("gone")
		ctx, cancel := context.WithCancelCause(t.Context())
		k.ask(t.Context(), "a", vcpus(1, 10), 1)
		k.ask(ctx, "large", vcpus(2, 10), 1)
		k.ask(t.Context(), "small", vcpus(1, 10), 1)
		k.want(t, "a")
		cancel(gone) // who stood behind it goes on
		synctest.Wait()
		slices.Sort(k.order)
		k.want(t, "a", "large: gone", "small")
		k.giveBack("a")
		k.giveBack("small")
		if k.a.cpus != 2000 || k.a.memory != 100 || len(k.a.queue) > 0 {
			t.Errorf("free: %d, %d, queue %d", k.a.cpus, k.a.memory, len(k.a.queue))
		}
	})
}

// TestAdmissionSlowListener: one that is slow to hear its place holds nobody up.
func TestAdmissionSlowListener(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newAdmission(1, []int{0}, 100, 64)
		first, err := a.reserve(t.Context(), claim{shape: vcpus(1, 1), dedicated: true}, 1, nil)
		if err != nil {
			t.Fatal(err)
		}
		var slow sync.WaitGroup
		defer slow.Wait()
		slow.Go(func() {
			releases, err := a.reserve(t.Context(), claim{shape: vcpus(1, 1), dedicated: true}, 1, func(int) { time.Sleep(time.Hour) })
			if err != nil {
				t.Error(err)
				return
			}
			releases[0].release()
		})
		synctest.Wait()
		began := time.Now()
		first[0].release()
		if took := time.Since(began); took > 0 {
			t.Errorf("giving back took %v", took)
		}
	})
}

func TestAdmissionKinds(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name      string
		shape     Shape
		n         int
		dedicated bool
		fits      bool
	}{
		{"fits", vcpus(2, 100), 1, true, true},
		{"too-many-processors", vcpus(3, 1), 1, true, false},
		{"shared-processors", vcpus(8, 1), 1, false, true},
		{"shared-beyond-overcommit", vcpus(9, 1), 1, false, false},
		{"too-much-memory", vcpus(1, 101), 1, true, false},
		{"too-much-memory-shared", vcpus(1, 101), 1, false, false},
		{"all-fit", vcpus(1, 50), 2, true, true},
		{"all-too-many-processors", vcpus(1, 1), 3, true, false},
		{"all-too-much-memory", vcpus(1, 34), 3, false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			a := newAdmission(2, []int{0, 1}, 100, 4)
			releases, err := a.reserve(t.Context(), claim{shape: tt.shape, dedicated: tt.dedicated}, tt.n, nil)
			if tt.fits != (err == nil) {
				t.Fatalf("reserve: %v", err)
			}
			if err != nil && (!fault.Is(err, fault.Exhausted) || fault.HintOf(err) == "") {
				t.Errorf("%v without kind or hint", err)
			}
			for _, r := range releases {
				r.release()
			}
			if a.cpus != 2000 || a.memory != 100 {
				t.Errorf("free: %d, %d", a.cpus, a.memory)
			}
		})
	}
}

// TestAdmissionSum: whatever happens at the same time, never is more given out
// than there is, and all comes back.
func TestAdmissionSum(t *testing.T) {
	t.Parallel()
	a := newAdmission(4, []int{0, 1, 2, 3}, 40, 4)
	var mu sync.Mutex
	var cpus, memory int64
	add := func(c, m int64) {
		mu.Lock()
		defer mu.Unlock()
		cpus, memory = cpus+c, memory+m
		if cpus > 4000 || memory > 40 {
			panic(fmt.Sprintf("given out: %d, %d", cpus, memory))
		}
	}
	owned := map[int]bool{}
	own := func(cores []int) {
		mu.Lock()
		defer mu.Unlock()
		for _, c := range cores {
			if owned[c] {
				panic(fmt.Sprintf("core %d has two owners", c))
			}
			owned[c] = true
		}
	}
	disown := func(cores []int) {
		mu.Lock()
		defer mu.Unlock()
		for _, c := range cores {
			delete(owned, c)
		}
	}
	var wg sync.WaitGroup
	for i := range 16 {
		rnd := rand.New(rand.NewPCG(1, uint64(i)))
		wg.Go(func() {
			for range 300 {
				s, n, dedicated := vcpus(1+rnd.IntN(2), 1+rnd.Int64N(20)), 1+rnd.IntN(2), rnd.IntN(2) == 0
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rnd.IntN(300))*time.Microsecond)
				releases, err := a.reserve(ctx, claim{shape: s, dedicated: dedicated}, n, func(int) {})
				if err == nil {
					c, m, _ := a.need(claim{shape: s, dedicated: dedicated})
					add(int64(n)*c, int64(n)*m)
					for _, r := range releases {
						own(r.cores)
						disown(r.cores)
						add(-c, -m)
						r.release()
					}
				}
				cancel()
			}
		})
	}
	wg.Wait()
	if a.cpus != 4000 || a.memory != 40 || len(a.queue) > 0 || !slices.Equal(a.cores, []int{0, 1, 2, 3}) {
		t.Errorf("free: %d, %d, cores %v, queue %d", a.cpus, a.memory, a.cores, len(a.queue))
	}
}
