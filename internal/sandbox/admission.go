package sandbox

import (
	"context"
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
	cpus     int64 // thousandths of a processor still free
	memory   int64 // bytes still free
	allCPUs  int64
	allBytes int64
	queue    []*waiter
}

type waiter struct {
	cpus, memory int64
	ready        chan struct{}
	moved        chan struct{} // holds a value when the place may have changed
}

func newAdmission(cpus int, memory int64, overcommit int) *admission {
	c := int64(cpus) * 1000
	return &admission{overcommit: overcommit, cpus: c, memory: memory, allCPUs: c, allBytes: memory}
}

// need is what a machine reserves.
func (a *admission) need(s Shape, dedicated bool) (cpus, memory int64) {
	cpus = int64(s.VCPUs) * 1000
	if !dedicated {
		cpus /= int64(a.overcommit)
	}
	return cpus, s.Memory
}

// reserve waits for room for n machines at once and gives, for each, the
// function that gives it back, which may be called more than once. queued, if
// not nil, is told each new place in the queue, in this goroutine.
func (a *admission) reserve(ctx context.Context, s Shape, n int, dedicated bool, queued func(place int)) ([]func(), error) {
	cpus, memory := a.need(s, dedicated)
	if cpus > a.allCPUs/int64(n) || memory > a.allBytes/int64(n) {
		return nil, fault.Errorf(fault.Exhausted, "this host can never hold %d machines of %d vCPUs and %d MiB: it gives out %d processors and %d MiB",
			n, s.VCPUs, s.Memory>>20, a.allCPUs/1000, a.allBytes>>20).WithHint("use a template with a smaller shape, or fewer machines")
	}
	w := &waiter{cpus: int64(n) * cpus, memory: int64(n) * memory, ready: make(chan struct{}), moved: make(chan struct{}, 1)}
	a.mu.Lock()
	a.queue = append(a.queue, w)
	a.advance()
	a.mu.Unlock()
	if err := a.wait(ctx, w, queued); err != nil {
		return nil, err
	}
	releases := make([]func(), n)
	for i := range releases {
		releases[i] = sync.OnceFunc(func() { a.release(cpus, memory) })
	}
	return releases, nil
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
				a.release(w.cpus, w.memory)
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

func (a *admission) release(cpus, memory int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.cpus += cpus
	a.memory += memory
	a.advance()
}

// advance admits from the head of the queue and lets those who wait on look at
// their place. Caller holds mu.
func (a *admission) advance() {
	for len(a.queue) > 0 && a.queue[0].cpus <= a.cpus && a.queue[0].memory <= a.memory {
		w := a.queue[0]
		a.queue = a.queue[1:]
		a.cpus -= w.cpus
		a.memory -= w.memory
		close(w.ready)
	}
	for _, w := range a.queue {
		select {
		case w.moved <- struct{}{}:
		default:
		}
	}
}
