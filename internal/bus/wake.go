package bus

import (
	"sync"

	"assay/internal/fault"
)

// wakes are those who wait within this process, by kind.
type wakes struct {
	mu      sync.Mutex
	waiting map[string]map[chan struct{}]struct{}
}

// Wake wakes all that wait for a kind of work, in all processes. It never fails
// and never waits: a wake-up may be lost, so who waits must look by itself too,
// now and then. kind is a word of letters, digits, "-" and "_".
func (b *Bus) Wake(kind string) {
	b.wakes.wake(kind)
	// While the server is gone nobody else hears it, and they all look anyway when
	// it is back.
	_ = b.conn.Publish(wakePrefix+kind, nil)
}

// Waits gives a channel that has something after each Wake, many of them counting
// as one, and after each time that wake-ups may have been lost. stop ends it.
func (b *Bus) Waits(kind string) (woken <-chan struct{}, stop func(), err error) {
	if !isTopic(kind) {
		return nil, nil, fault.Errorf(fault.Invalid, "%q is no kind of work", kind)
	}
	c := make(chan struct{}, 1)
	w := &b.wakes
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.waiting == nil {
		w.waiting = map[string]map[chan struct{}]struct{}{}
	}
	if w.waiting[kind] == nil {
		w.waiting[kind] = map[chan struct{}]struct{}{}
	}
	w.waiting[kind][c] = struct{}{}
	return c, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.waiting[kind], c)
	}, nil
}

func (w *wakes) wake(kind string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for c := range w.waiting[kind] {
		signal(c)
	}
}

func (w *wakes) wakeAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, kind := range w.waiting {
		for c := range kind {
			signal(c)
		}
	}
}
