package sandbox

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"sync"
	"time"
)

// pool keeps machines that were restored and never used. A machine that has
// left it never comes back.
type pool struct {
	m    *Manager
	size int
	kick chan struct{}

	mu     sync.Mutex
	wanted map[stock]source
	ready  map[stock][]*body
	closed bool
	// changed is closed and replaced when a machine was added.
	changed chan struct{}
}

// stock is a kind of machine that a pool keeps: restored from a directory, with
// an interface or without. Those with one are kept from the first sandbox on that
// asked for a network; none of them can reach anything.
type stock struct {
	snapshot  string
	networked bool
}

func (src source) stock() stock { return stock{src.snapshot, src.networked()} }

func newPool(m *Manager, size int) *pool {
	return &pool{m: m, size: size, kick: make(chan struct{}, 1), wanted: map[stock]source{}, ready: map[stock][]*body{}, changed: make(chan struct{})}
}

// want makes the pool keep machines of a source from now on.
func (p *pool) want(src source) {
	p.mu.Lock()
	p.wanted[src.stock()] = src
	p.mu.Unlock()
	p.refill()
}

// take gives a waiting machine, or nil. The caller calls refill when it has
// what it came for: making the next machine takes processors it needs now.
func (p *pool) take(src source) *body {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := p.ready[src.stock()]
	if len(list) == 0 {
		return nil
	}
	b := list[0]
	p.ready[src.stock()] = list[1:]
	return b
}

func (p *pool) refill() {
	select {
	case p.kick <- struct{}{}:
	default:
	}
}

// refillPause is how long the pool waits after a machine that could not be
// made.
const refillPause = time.Second

// run fills the pool until ctx ends, one machine at a time: callers who wait
// for a machine need the processors more.
func (p *pool) run(ctx context.Context) {
	for {
		src, ok := p.missing()
		if !ok {
			select {
			case <-ctx.Done():
				return
			case <-p.kick:
			}
			continue
		}
		b, err := p.m.make(ctx, src)
		if err != nil {
			if ctx.Err() != nil {
				return
			}
			if p.vanished(src) {
				continue
			}
			p.m.log.Warn("fill the pool", "template", src.name, "err", err)
			select {
			case <-ctx.Done():
				return
			case <-time.After(refillPause):
			}
			continue
		}
		if !p.add(b) {
			p.m.discard(b)
		}
	}
}

// WaitPool waits until the pool holds as many machines of the template as it
// should, of each kind that it keeps. Without a pool it returns at once.
func (m *Manager) WaitPool(ctx context.Context, t Template) error {
	dir, err := m.Prepare(ctx, t)
	if err != nil {
		return err
	}
	for {
		p := m.pool
		p.mu.Lock()
		full := true
		for kind := range p.wanted {
			full = full && (kind.snapshot != dir || len(p.ready[kind]) >= p.size)
		}
		full = full || p.closed
		changed := p.changed
		p.mu.Unlock()
		if full {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// missing gives a source of which the pool holds too few.
func (p *pool) missing() (source, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return source{}, false
	}
	for kind, src := range p.wanted {
		if len(p.ready[kind]) < p.size {
			return src, true
		}
	}
	return source{}, false
}

// vanished forgets a source whose snapshot was removed with its template.
func (p *pool) vanished(src source) bool {
	if _, err := os.Stat(src.snapshot); !errors.Is(err, fs.ErrNotExist) {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.wanted, src.stock())
	return true
}

// add keeps a machine; false when the pool is closed.
func (p *pool) add(b *body) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	p.ready[b.src.stock()] = append(p.ready[b.src.stock()], b)
	close(p.changed)
	p.changed = make(chan struct{})
	return true
}

// drain ends all waiting machines for good.
func (p *pool) drain() {
	p.mu.Lock()
	p.closed = true
	close(p.changed) // who waits for a full pool waits in vain
	p.changed = make(chan struct{})
	ready := p.ready
	p.ready = map[stock][]*body{}
	p.mu.Unlock()
	var wg sync.WaitGroup
	for _, list := range ready {
		for _, b := range list {
			wg.Go(func() { p.m.discard(b) })
		}
	}
	wg.Wait()
}
