package sandboxes

import (
	"context"
	"maps"
	"time"

	"assay/internal/account"
	"assay/internal/fault"
)

// SnapshotRequest asks for a snapshot of a sandbox.
type SnapshotRequest struct {
	// Keep is for how long it is kept; zero is until it is removed.
	Keep   time.Duration
	Name   string
	Labels map[string]string
	// Key makes a repeated request give the first one's snapshot; "" is none.
	Key string `json:"-"`
}

func (s Snapshot) thing() account.Thing {
	return account.Thing{Kind: account.SnapshotThing, ID: s.ID, Owner: s.Owner}
}

// Snapshot freezes a sandbox, memory and disk, and lets it go on. The snapshot
// is the sandbox's owner's.
func (s *Service) Snapshot(ctx context.Context, id string, req SnapshotRequest) (Snapshot, error) {
	if _, err := s.find(ctx, account.Use, id); err != nil {
		return Snapshot{}, err
	}
	if req.Keep < 0 {
		return Snapshot{}, fault.Errorf(fault.Invalid, "the time to keep a snapshot must not be negative")
	}
	if _, err := s.spec(Terms{Name: req.Name, Labels: req.Labels}); err != nil {
		return Snapshot{}, err
	}
	return once(ctx, s, "snapshot:"+id, req.Key, req, func(ctx context.Context) (Snapshot, error) { return s.snapshot(ctx, id, req) })
}

func (s *Service) snapshot(ctx context.Context, id string, req SnapshotRequest) (Snapshot, error) {
	leave, err := s.enter()
	if err != nil {
		return Snapshot{}, err
	}
	defer leave()
	l, err := s.alive(ctx, account.Use, id)
	if err != nil {
		return Snapshot{}, err
	}
	promised, err := s.promise(ctx, l.by, Held{Snapshots: 1})
	if err != nil {
		return Snapshot{}, err
	}
	defer promised()
	taken, err := l.sb.Snapshot(ctx, req.Keep)
	if err != nil {
		return Snapshot{}, err
	}
	snap := Snapshot{
		ID: taken.ID, Owner: l.rec.Owner, Node: s.o.Node, Name: req.Name, Labels: maps.Clone(req.Labels), Sandbox: id,
		Template: taken.TemplateName, Shape: taken.Shape, Bytes: taken.Bytes, Taken: taken.Taken, Expires: taken.Expires,
	}
	if err = context.Cause(ctx); err == nil {
		err = s.o.Store.AddSnapshot(ctx, snap)
	}
	if err != nil { // without a row it would be nobody's
		if rerr := s.o.Machines.RemoveSnapshot(snap.ID); rerr != nil {
			s.o.Log.Error("remove a snapshot that has no row", "snapshot", snap.ID, "err", rerr)
		}
		return Snapshot{}, err
	}
	l.mu.Lock()
	l.frozen += snap.Bytes
	l.mu.Unlock()
	used := Used{Sandbox: id, Owner: l.rec.Owner, Day: dayOf(snap.Taken), SnapshotBytes: snap.Bytes}
	if err := s.o.Store.AddUsage(ctx, []Used{used}); err != nil {
		s.o.Log.Error("keep account of a snapshot", "snapshot", snap.ID, "err", err)
	}
	return snap, nil
}

// findSnapshot gives a snapshot that the actor may do something with.
func (s *Service) findSnapshot(ctx context.Context, do account.Action, id string) (Snapshot, error) {
	actor := account.ActorOf(ctx)
	snap, err := s.o.Store.Snapshot(ctx, id)
	if err == nil && !snap.Expires.IsZero() && !time.Now().Before(snap.Expires) {
		err = fault.Errorf(fault.NotFound, "there is no snapshot %.64s", id)
	}
	if fault.Is(err, fault.NotFound) {
		if err := account.May(actor, account.List, account.Thing{Kind: account.SnapshotThing}); err != nil {
			return snap, err
		}
		return snap, fault.Errorf(fault.NotFound, "there is no snapshot %.64s", id)
	}
	if err != nil {
		return snap, err
	}
	if err := account.May(actor, do, snap.thing()); err != nil {
		return snap, err
	}
	if snap.Node != s.o.Node && do != account.Read {
		return snap, fault.Errorf(fault.Conflict, "snapshot %s is on node %s", id, snap.Node).WithHint("send the request to that node")
	}
	return snap, nil
}

// GetSnapshot gives a snapshot.
func (s *Service) GetSnapshot(ctx context.Context, id string) (Snapshot, error) {
	return s.findSnapshot(ctx, account.Read, id)
}

// Snapshots lists what the actor may see, as Sandboxes does.
func (s *Service) Snapshots(ctx context.Context, q Query) ([]Snapshot, error) {
	actor := account.ActorOf(ctx)
	if err := account.May(actor, account.List, account.Thing{Kind: account.SnapshotThing}); err != nil {
		return nil, err
	}
	if err := settleQuery(actor, account.SnapshotThing, &q); err != nil {
		return nil, err
	}
	q.Live = true
	return s.o.Store.Snapshots(ctx, q)
}

// RemoveSnapshot deletes a snapshot. Sandboxes made of it go on.
func (s *Service) RemoveSnapshot(ctx context.Context, id string) error {
	if _, err := s.findSnapshot(ctx, account.Delete, id); err != nil {
		return err
	}
	if err := s.o.Machines.RemoveSnapshot(id); err != nil && !fault.Is(err, fault.NotFound) {
		return err
	}
	return s.o.Store.EndSnapshot(ctx, id, time.Now())
}

// repairSnapshots writes which snapshots of this node are gone: the engine
// deletes what has expired.
func (s *Service) repairSnapshots(ctx context.Context) error {
	rows, err := s.o.Store.Snapshots(ctx, Query{Node: s.o.Node, Live: true})
	if err != nil {
		return err
	}
	for _, r := range rows {
		if _, err := s.o.Machines.Snapshot(r.ID); !fault.Is(err, fault.NotFound) {
			continue
		}
		if err := s.o.Store.EndSnapshot(ctx, r.ID, time.Now()); err != nil {
			return err
		}
	}
	return nil
}
