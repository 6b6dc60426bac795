package sandboxes

import (
	"context"
	"sync"

	"assay/internal/account"
	"assay/internal/fault"
	"assay/internal/sandbox"
)

// ForkRequest asks for children of a sandbox. Count is 1 to sandbox.MaxFork.
type ForkRequest struct {
	Count int
	Terms
	// Key makes a repeated request give the first one's children; "" is none.
	Key string `json:"-"`
}

// Child is one child of a fork: a sandbox, or why there is none.
type Child struct {
	Sandbox *Record
	Problem string
}

// Fork makes children of a sandbox, memory and disk, while it goes on. They are
// the actor's.
func (s *Service) Fork(ctx context.Context, id string, req ForkRequest) ([]Child, error) {
	actor := account.ActorOf(ctx)
	if err := account.May(actor, account.Create, account.Thing{Kind: account.SandboxThing}); err != nil {
		return nil, err
	}
	if _, err := s.find(ctx, account.Use, id); err != nil {
		return nil, err
	}
	return once(ctx, s, "fork:"+id, req.Key, req, func(ctx context.Context) ([]Child, error) { return s.fork(ctx, actor, id, req) })
}

func (s *Service) fork(ctx context.Context, actor account.Actor, id string, req ForkRequest) ([]Child, error) {
	leave, err := s.enter()
	if err != nil {
		return nil, err
	}
	defer leave()
	if req.Count < 1 || req.Count > sandbox.MaxFork {
		return nil, fault.Errorf(fault.Invalid, "a fork has 1 to %d children, not %d", sandbox.MaxFork, req.Count)
	}
	spec, err := s.spec(req.Terms)
	if err != nil {
		return nil, err
	}
	l, err := s.alive(ctx, account.Use, id)
	if err != nil {
		return nil, err
	}
	promised, err := s.promise(ctx, actor, Held{Sandboxes: req.Count, DiskBytes: int64(req.Count) * l.rec.Shape.Disk})
	if err != nil {
		return nil, err
	}
	defer promised()
	var forked []sandbox.Forked
	err = s.queued(ctx, &spec, func(ctx context.Context) (err error) {
		forked, err = l.sb.Fork(ctx, req.Count, spec)
		return err
	})
	if err != nil {
		return nil, err
	}
	children := make([]Child, len(forked))
	for i, f := range forked {
		children[i] = s.child(ctx, actor, f.Sandbox, f.Err, Record{Name: req.Name, Parent: id, Snapshot: l.rec.Snapshot})
	}
	return children, nil
}

// child makes a row of a sandbox that was made as one of several, or says why
// there is none.
func (s *Service) child(ctx context.Context, actor account.Actor, sb *sandbox.Sandbox, err error, r Record) Child {
	if err == nil {
		if r, err = s.adopt(ctx, actor, sb, r); err == nil {
			return Child{Sandbox: &r}
		}
	}
	if fault.Is(err, fault.Internal) {
		s.o.Log.Error("make one of several sandboxes", "parent", r.Parent, "snapshot", r.Snapshot, "err", err)
		return Child{Problem: "internal error"}
	}
	return Child{Problem: err.Error()}
}

// ForkSnapshot makes sandboxes of a snapshot, as Fork does of a sandbox.
func (s *Service) ForkSnapshot(ctx context.Context, id string, req ForkRequest) ([]Child, error) {
	actor := account.ActorOf(ctx)
	if err := account.May(actor, account.Create, account.Thing{Kind: account.SandboxThing}); err != nil {
		return nil, err
	}
	snap, err := s.findSnapshot(ctx, account.Use, id)
	if err != nil {
		return nil, err
	}
	return once(ctx, s, "fork-snapshot:"+id, req.Key, req, func(ctx context.Context) ([]Child, error) { return s.forkSnapshot(ctx, actor, snap, req) })
}

func (s *Service) forkSnapshot(ctx context.Context, actor account.Actor, snap Snapshot, req ForkRequest) ([]Child, error) {
	leave, err := s.enter()
	if err != nil {
		return nil, err
	}
	defer leave()
	if req.Count < 1 || req.Count > sandbox.MaxFork {
		return nil, fault.Errorf(fault.Invalid, "a fork has 1 to %d children, not %d", sandbox.MaxFork, req.Count)
	}
	promised, err := s.promise(ctx, actor, Held{Sandboxes: req.Count, DiskBytes: int64(req.Count) * snap.Shape.Disk})
	if err != nil {
		return nil, err
	}
	defer promised()
	children := make([]Child, req.Count)
	var making sync.WaitGroup
	for i := range children {
		making.Go(func() {
			var sb *sandbox.Sandbox
			spec, err := s.spec(req.Terms)
			if err == nil {
				spec.Snapshot = snap.ID
				err = s.queued(ctx, &spec, func(ctx context.Context) (err error) {
					sb, err = s.o.Machines.Create(ctx, spec)
					return err
				})
			}
			children[i] = s.child(ctx, actor, sb, err, Record{Name: req.Name, Snapshot: snap.ID})
		})
	}
	making.Wait()
	return children, nil
}
