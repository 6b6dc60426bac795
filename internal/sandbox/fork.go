package sandbox

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"time"

	"assay/internal/fault"
)

// MaxFork is how many children one fork may have.
const MaxFork = 64

// Forked is one child of a fork: a sandbox, or why there is none.
type Forked struct {
	Sandbox *Sandbox
	Err     error
}

// Fork makes n children of the sandbox, memory and disk as they are now, while
// the sandbox itself goes on. Each child has an identity of its own. spec gives
// deadline, limits and metadata of the children; its Template and Snapshot are
// ignored. The error is about the fork as a whole; a child that could not be
// made has its own.
func (s *Sandbox) Fork(ctx context.Context, n int, spec Spec) ([]Forked, error) {
	if n < 1 || n > MaxFork {
		return nil, fault.Errorf(fault.Invalid, "a fork has 1 to %d children, not %d", MaxFork, n)
	}
	end, err := s.use("fork")
	if err != nil {
		return nil, err
	}
	defer end()
	home, err := os.MkdirTemp(s.m.journal.dir, "fork-*.tmp")
	if err != nil {
		return nil, fault.Errorf(fault.Internal, "fork sandbox %s: %w", s.info.ID, err)
	}
	defer os.RemoveAll(home)
	began := time.Now()
	state := filepath.Join(home, "state")
	if err := s.m.checkpoint(ctx, s.body, state); err != nil {
		return nil, err
	}
	src := s.body.src
	src.snapshot, src.pooled = state, false
	children := make([]Forked, n)
	var wg sync.WaitGroup
	for i := range children {
		wg.Go(func() { children[i].Sandbox, children[i].Err = s.m.child(ctx, src, spec, began) })
	}
	wg.Wait()
	ids := []string{}
	for _, c := range children {
		if c.Err == nil {
			ids = append(ids, c.Sandbox.info.ID)
		}
	}
	s.events.add(Event{Kind: "fork", Detail: map[string]any{"children": ids, "asked": n}})
	return children, nil
}

func (m *Manager) child(ctx context.Context, src source, spec Spec, began time.Time) (*Sandbox, error) {
	release, err := m.admission.reserve(ctx, src.shape, spec.Dedicated, spec.Queued)
	if err != nil {
		return nil, err
	}
	b, err := m.make(ctx, src)
	if err != nil {
		release()
		return nil, err
	}
	return m.handOut(b, spec, BootFork, began, release)
}
