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

// Fork makes n children of the sandbox, memory and disk, while the sandbox
// itself goes on. It waits, in order, until the host has room for all of them;
// their state is that of the moment when it has. Each child has an identity of
// its own. spec gives deadline, limits and metadata of the children; its
// Template, Snapshot and Cold are ignored. Its Network is as for a snapshot: at
// most what the sandbox may reach now. The error is about the fork as a
// whole; a child that could not be made has its own.
func (s *Sandbox) Fork(ctx context.Context, n int, spec Spec) ([]Forked, error) {
	began := time.Now()
	if n < 1 || n > MaxFork {
		return nil, fault.Errorf(fault.Invalid, "a fork has 1 to %d children, not %d", MaxFork, n)
	}
	if err := spec.settle(began); err != nil {
		return nil, err
	}
	ctx, leave, err := s.m.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	end, err := s.use("fork", false)
	if err != nil {
		return nil, err
	}
	defer end()
	if err := s.m.mayPersist(s.body.src, spec); err != nil {
		return nil, err
	}
	ctx, cancel := spec.within(ctx)
	defer cancel()
	live, stop := s.whileLive(ctx, "fork")
	reserved, err := s.m.admit(live, s.body.src.shape, spec, n)
	stop()
	if err != nil {
		return nil, err
	}
	children, err := s.fork(ctx, spec, began, reserved)
	if err != nil {
		for _, r := range reserved {
			r.release()
		}
		return nil, err
	}
	ids := []string{}
	for _, c := range children {
		if c.Err == nil {
			ids = append(ids, c.Sandbox.info.ID)
		}
	}
	s.events.add(Event{Kind: "fork", Detail: map[string]any{"children": ids, "asked": n}})
	return children, nil
}

// fork freezes the sandbox and makes a child for each reservation.
func (s *Sandbox) fork(ctx context.Context, spec Spec, began time.Time, reserved []*reservation) ([]Forked, error) {
	home, err := os.MkdirTemp(s.m.journal.dir, "fork-*.tmp") // the dead's is removed with their journal
	if err != nil {
		return nil, fault.Errorf(fault.Internal, "fork sandbox %s: %w", s.info.ID, err)
	}
	defer os.RemoveAll(home)
	src := s.body.src
	src.snapshot, src.pooled, src.policy, src.persistent = filepath.Join(home, "state"), false, s.Info().Network, spec.Persistent
	if err := src.inherit(spec.Network); err != nil {
		return nil, err
	}
	if err := s.checkpoint(ctx, "fork", src.snapshot); err != nil {
		return nil, err
	}
	children := make([]Forked, len(reserved))
	var wg sync.WaitGroup
	for i, r := range reserved {
		wg.Go(func() { children[i].Sandbox, children[i].Err = s.m.child(ctx, src, spec, began, r) })
	}
	wg.Wait()
	return children, nil
}

func (m *Manager) child(ctx context.Context, src source, spec Spec, began time.Time, r *reservation) (s *Sandbox, err error) {
	defer func() {
		if err != nil {
			m.observe.made(src.name, "", time.Since(began), err)
		}
	}()
	b, err := m.make(ctx, src)
	if err != nil {
		r.release()
		return nil, err
	}
	return m.handOut(b, spec, BootFork, began, r)
}
