package sandbox

import (
	"context"
	"slices"
	"sync"

	"assay/internal/fault"
)

// admission reserves the host's processors and memory before a machine is made
// for somebody. Who does not fit waits in order; nobody overtakes, or a large
// machine would wait for ever behind small ones. Machines that wait in the pool
// hold little and are not counted until they are handed out.
type admission struct {
	overcommit int

	mu       sync.Mutex
	cores    []int // still free, of those that Dedicated machines have to themselves
	cpus     int64 // thousandths of a processor still free
	memory   int64 // bytes still free
	allCores int
	allCPUs  int64
	allBytes int64
	queue    []*waiter
}

type waiter struct {
	cpus, memory int64
	cores        int
	got          []int // cores, once ready
	ready        chan struct{}
	moved        chan struct{} // holds a value when the place may have changed
}

// newAdmission gives out cpus processors. cores names those of them that can be
// told apart: a Dedicated machine has one or more of them to itself.
func newAdmission(cpus int, cores []int, memory int64, overcommit int) *admission {
	c := int64(cpus) * 1000
	return &admission{overcommit: overcommit, cores: slices.Clone(cores), allCores: len(cores), cpus: c, memory: memory, allCPUs: c, allBytes: memory}
}

// claim is what one machine asks for.
type claim struct {
	shape     Shape
	dedicated bool
	cores     int   // of a dedicated one; 0 is one for each vCPU
	beside    int64 // memory for machines that will be made beside it, in bytes
}

// need is what a machine reserves.
func (a *admission) need(c claim) (cpus, memory int64, cores int) {
	memory = c.shape.Memory + c.beside
	if !c.dedicated {
		return int64(c.shape.VCPUs) * 1000 / int64(a.overcommit), memory, 0
	}
	if cores = c.cores; cores == 0 {
		cores = c.shape.VCPUs
	}
	return int64(cores) * 1000, memory, cores
}

// reserve waits for room for n machines at once and gives what each has.
// queued, if not nil, is told each new place in the queue, in this goroutine.
func (a *admission) reserve(ctx context.Context, c claim, n int, queued func(place int)) ([]*reservation, error) {
	cpus, memory, cores := a.need(c)
	if cpus > a.allCPUs/int64(n) || memory > a.allBytes/int64(n) || cores > a.allCores/n {
		return nil, fault.Errorf(fault.Exhausted, "this host can never hold %d machines of %d processors and %d MiB: it gives out %d processors and %d MiB",
			n, max(cores, c.shape.VCPUs), memory>>20, a.allCPUs/1000, a.allBytes>>20).WithHint("use a template with a smaller shape, or fewer machines")
	}
	w := &waiter{cpus: int64(n) * cpus, memory: int64(n) * memory, cores: n * cores, ready: make(chan struct{}), moved: make(chan struct{}, 1)}
	a.mu.Lock()
	a.queue = append(a.queue, w)
	a.advance()
	a.mu.Unlock()
	if err := a.wait(ctx, w, queued); err != nil {
		return nil, err
	}
	list := make([]*reservation, n)
	for i := range list {
		list[i] = &reservation{a: a, cpus: cpus, memory: memory - c.beside, beside: c.beside, cores: w.got[i*cores : (i+1)*cores]}
	}
	return list, nil
}

// reserveNow reserves for a machine that there is already: at once, or not.
func (a *admission) reserveNow(c claim) (*reservation, error) {
	cpus, memory, cores := a.need(c)
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.queue) > 0 || cpus > a.cpus || memory > a.memory || cores > len(a.cores) {
		return nil, fault.Errorf(fault.Exhausted, "no room for a machine of %d processors and %d MiB: %d MiB are free", max(cores, c.shape.VCPUs), memory>>20, a.memory>>20).
			WithHint("give the engine as many processors and as much memory as before")
	}
	a.cpus -= cpus
	a.memory -= memory
	rest := len(a.cores) - cores
	own := slices.Clone(a.cores[rest:])
	a.cores = a.cores[:rest]
	return &reservation{a: a, cpus: cpus, memory: memory - c.beside, beside: c.beside, cores: own}, nil
}

// wait waits until w is admitted. When ctx ends first, w leaves the queue and
// holds nothing.
func (a *admission) wait(ctx context.Context, w *waiter, queued func(place int)) error {
	told := 0
	for {
		select {
		case <-w.ready:
			return nil
		case <-w.moved:
			place := a.place(w)
			if queued != nil && place > 0 && place != told {
				queued(place)
				told = place
			}
		case <-ctx.Done():
			if !a.leave(w) { // admitted in the same moment
				a.giveBack(w.cpus, w.memory, w.got)
			}
			return context.Cause(ctx)
		}
	}
}

// place is w's place in the queue, or 0 when it is admitted.
func (a *admission) place(w *waiter) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i, q := range a.queue {
		if q == w {
			return i + 1
		}
	}
	return 0
}

// leave takes w out of the queue; false when it is not in it.
func (a *admission) leave(w *waiter) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i, q := range a.queue {
		if q == w {
			a.queue = append(a.queue[:i], a.queue[i+1:]...)
			a.advance()
			return true
		}
	}
	return false
}

func (a *admission) giveBack(cpus, memory int64, cores []int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.giveBackLocked(cpus, memory, cores)
}

// giveBackLocked is giveBack. Caller holds mu.
func (a *admission) giveBackLocked(cpus, memory int64, cores []int) {
	a.cpus += cpus
	a.memory += memory
	a.cores = append(a.cores, cores...)
	slices.Sort(a.cores)
	a.advance()
}

// advance admits from the head of the queue and lets those who wait on look at
// their place. Caller holds mu.
func (a *admission) advance() {
	for len(a.queue) > 0 && a.queue[0].cpus <= a.cpus && a.queue[0].memory <= a.memory && a.queue[0].cores <= len(a.cores) {
		w := a.queue[0]
		a.queue = a.queue[1:]
		a.cpus -= w.cpus
		a.memory -= w.memory
		rest := len(a.cores) - w.cores // the first cores are the busiest with the host's own work
		w.got, a.cores = slices.Clone(a.cores[rest:]), a.cores[:rest]
		close(w.ready)
	}
	for _, w := range a.queue {
		select {
		case w.moved <- struct{}{}:
		default:
		}
	}
}
