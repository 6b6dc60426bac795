package sandbox

import (
	"context"
	"sync"

	"assay/internal/fault"
)

// admission reserves the host's processors and memory before a machine is
// made. Who does not fit waits in order; nobody overtakes, or a large machine
// would wait for ever behind small ones.
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
	queued       func(place int)
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

// reserve waits for room and gives the function that gives it back, which may
// be called more than once.
func (a *admission) reserve(ctx context.Context, s Shape, dedicated bool, queued func(int)) (func(), error) {
	cpus, memory := a.need(s, dedicated)
	if cpus > a.allCPUs || memory > a.allBytes {
		return nil, fault.Errorf(fault.Exhausted, "this host can never hold a machine of %d vCPUs and %d MiB: it gives out %d processors and %d MiB",
			s.VCPUs, s.Memory>>20, a.allCPUs/1000, a.allBytes>>20).WithHint("use a template with a smaller shape")
	}
	w := &waiter{cpus: cpus, memory: memory, ready: make(chan struct{}), queued: queued}
	a.mu.Lock()
	a.queue = append(a.queue, w)
	calls := a.advance()
	a.mu.Unlock()
	tell(calls)
	select {
	case <-w.ready:
	case <-ctx.Done():
		a.mu.Lock()
		for i, q := range a.queue {
			if q == w {
				a.queue = append(a.queue[:i], a.queue[i+1:]...)
				calls := a.advance()
				a.mu.Unlock()
				tell(calls)
				return nil, context.Cause(ctx)
			}
		}
		a.mu.Unlock() // admitted in the same moment: the caller is gone, give it back
		a.release(w)
		return nil, context.Cause(ctx)
	}
	var once sync.Once
	return func() { once.Do(func() { a.release(w) }) }, nil
}

func (a *admission) release(w *waiter) {
	a.mu.Lock()
	a.cpus += w.cpus
	a.memory += w.memory
	calls := a.advance()
	a.mu.Unlock()
	tell(calls)
}

// advance admits from the head of the queue and gives what is to be told to
// those who wait on. Caller holds mu.
func (a *admission) advance() []func() {
	for len(a.queue) > 0 && a.queue[0].cpus <= a.cpus && a.queue[0].memory <= a.memory {
		w := a.queue[0]
		a.queue = a.queue[1:]
		a.cpus -= w.cpus
		a.memory -= w.memory
		close(w.ready)
	}
	var calls []func()
	for i, w := range a.queue {
		if w.queued != nil {
			calls = append(calls, func() { w.queued(i + 1) })
		}
	}
	return calls
}

func tell(calls []func()) {
	for _, c := range calls {
		c()
	}
}
