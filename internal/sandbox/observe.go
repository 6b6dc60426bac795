package sandbox

import (
	"time"

	"assay/internal/guest"
)

// Observer hears what a manager does, to count it. Any function may be nil; they
// are called from many goroutines and return at once.
type Observer struct {
	// Made hears of a sandbox that was given out, or could not be: then err is set
	// and mode empty. The template is its name.
	Made func(template string, mode BootMode, took time.Duration, err error)
	// Ran hears of each command's end.
	Ran func(cause guest.Cause)
}

func (o Observer) made(template string, mode BootMode, took time.Duration, err error) {
	if o.Made != nil {
		o.Made(template, mode, took, err)
	}
}

func (o Observer) ran(cause guest.Cause) {
	if o.Ran != nil {
		o.Ran(cause)
	}
}

// Waiting says how many machines wait in the pool, by the template's name.
func (m *Manager) Waiting() map[string]int {
	p := m.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	waiting := map[string]int{}
	for _, src := range p.wanted {
		waiting[src.name] += len(p.ready[src.stock()])
	}
	return waiting
}
