package account

import (
	"context"
	"sync"
)

// auditGroup writes entries of many requests in one transaction: each returns
// when its own are kept, but a busy server does not wait for the disk once for
// every request. Whoever comes first writes what has gathered meanwhile, then
// hands on to the next.
type auditGroup struct {
	write func(ctx context.Context, entries []Entry) error

	mu sync.Mutex
	// waiting are in the order in which they came; the first of them writes.
	waiting []*auditWait
	busy    bool
}

type auditWait struct {
	entries []Entry
	// written is told what became of them, turn that it is theirs to write.
	written chan error
	turn    chan struct{}
}

// groupMost bounds the entries of one transaction.
const groupMost = 200

// add keeps entries, also when ctx has ended: somebody else's may be with them.
// Each write may take auditLimit, which begins with its turn.
func (g *auditGroup) add(ctx context.Context, entries []Entry) error {
	w := &auditWait{entries: entries, written: make(chan error, 1), turn: make(chan struct{}, 1)}
	g.mu.Lock()
	g.waiting = append(g.waiting, w)
	first := !g.busy
	g.busy = true
	g.mu.Unlock()
	if !first {
		select {
		case err := <-w.written:
			return err
		case <-w.turn:
		}
	}
	g.mu.Lock()
	n, all := 0, []Entry(nil)
	for n < len(g.waiting) && (n == 0 || len(all)+len(g.waiting[n].entries) <= groupMost) {
		all = append(all, g.waiting[n].entries...)
		n++
	}
	others := g.waiting[1:n:n]
	g.waiting = g.waiting[n:]
	g.mu.Unlock()

	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), auditLimit)
	defer cancel()
	err := g.write(ctx, all)
	for _, o := range others {
		o.written <- err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.waiting) > 0 {
		g.waiting[0].turn <- struct{}{}
	} else {
		g.busy, g.waiting = false, nil
	}
	return err
}
