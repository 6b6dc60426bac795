package sandbox

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"assay/internal/fault"
)

// Snapshot is the frozen state of one sandbox, memory and disk.
type Snapshot struct {
	ID           string `json:"id"`
	Sandbox      string `json:"sandbox"`
	Template     string `json:"template_digest"`
	TemplateName string `json:"template"`
	Image        string `json:"image"`
	Shape        Shape  `json:"shape"`
	// Driver is the name of the one that took it; snapshots that name none are the
	// manager's own.
	Driver string `json:"driver,omitempty"`
	// Identity is what a host must be to restore it: see Driver.Identity.
	Identity string    `json:"driver_identity"`
	Taken    time.Time `json:"taken"`
	// Expires is when it is deleted; zero is never.
	Expires time.Time `json:"expires,omitzero"`
	Bytes   int64     `json:"bytes"`
	// Network is what its sandbox could reach; nil when it had no interface.
	Network *NetworkPolicy `json:"network,omitempty"`

	dir string // the checkpoint
}

// What a snapshot's directory holds.
const (
	snapshotMeta = "snapshot.json"
	stateDir     = "state"
)

// Snapshot freezes the sandbox and lets it go on. The snapshot is deleted
// after retention; zero keeps it until RemoveSnapshot.
func (s *Sandbox) Snapshot(ctx context.Context, retention time.Duration) (Snapshot, error) {
	if retention < 0 {
		return Snapshot{}, fault.Errorf(fault.Invalid, "retention is negative")
	}
	ctx, leave, err := s.m.enter(ctx)
	if err != nil {
		return Snapshot{}, err
	}
	defer leave()
	end, err := s.use("snapshot", false)
	if err != nil {
		return Snapshot{}, err
	}
	defer end()
	// It is made in the manager's own directory: what a crash leaves there is
	// removed at the next start.
	home, err := os.MkdirTemp(s.m.journal.dir, "snapshot-*.tmp")
	if err != nil {
		return Snapshot{}, fault.Errorf(fault.Internal, "snapshot sandbox %s: %w", s.info.ID, err)
	}
	defer os.RemoveAll(home)
	snap := Snapshot{
		ID: newID(), Sandbox: s.info.ID, Template: s.body.src.template, TemplateName: s.body.src.name, Image: s.body.src.image,
		Shape: s.body.src.shape, Driver: s.body.src.driver.Name(), Identity: s.body.src.driver.Identity(), Taken: time.Now(),
		Network: s.Info().Network,
	}
	if retention > 0 {
		snap.Expires = snap.Taken.Add(retention)
	}
	state := filepath.Join(home, stateDir)
	if err := s.checkpoint(ctx, "snapshot", state); err != nil {
		return Snapshot{}, err
	}
	snap.Bytes = dirBytes(state)
	if err := writeMeta(home, snap); err != nil {
		return Snapshot{}, err
	}
	if err := os.Rename(home, s.m.snapshotHome(snap.ID)); err != nil { // from here on it is a snapshot
		return Snapshot{}, fault.Errorf(fault.Internal, "snapshot sandbox %s: %w", s.info.ID, err)
	}
	snap.dir = filepath.Join(s.m.snapshotHome(snap.ID), stateDir)
	s.m.expireBy(snap.Expires)
	s.events.add(Event{Kind: "snapshot", Detail: map[string]any{"snapshot": snap.ID, "bytes": snap.Bytes}})
	return snap, nil
}

// checkpoint freezes the sandbox's machine into dir, which must not exist.
func (s *Sandbox) checkpoint(ctx context.Context, what, dir string) error {
	end, err := s.alone(ctx, what, false)
	if err != nil {
		return err
	}
	defer end()
	if err := s.unwired(what); err != nil {
		return err
	}
	return s.m.checkpoint(ctx, s.body, dir)
}

func (m *Manager) snapshotHome(id string) string { return filepath.Join(m.dir, "snapshots", id) }

func writeMeta(home string, snap Snapshot) error {
	b, err := json.MarshalIndent(snap, "", "  ")
	if err == nil {
		err = os.WriteFile(filepath.Join(home, snapshotMeta), b, 0o600)
	}
	if err != nil {
		return fault.Errorf(fault.Internal, "write snapshot %s: %w", snap.ID, err)
	}
	return nil
}

func readMeta(home string) (Snapshot, error) {
	var snap Snapshot
	b, err := os.ReadFile(filepath.Join(home, snapshotMeta))
	if err != nil {
		return snap, err
	}
	snap.dir = filepath.Join(home, stateDir)
	return snap, json.Unmarshal(b, &snap)
}

// dirBytes is the space that a directory's files take.
func dirBytes(dir string) (sum int64) {
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil //nolint:nilerr // a size that misses a file is better than none
		}
		if info, err := d.Info(); err == nil && info.Mode().IsRegular() {
			sum += info.Size()
		}
		return nil
	})
	return sum
}

// Snapshot finds a snapshot by its ID, or gives fault.NotFound.
func (m *Manager) Snapshot(id string) (Snapshot, error) {
	snap, err := m.findSnapshot(id)
	if err == nil && snap.expired(time.Now()) {
		return Snapshot{}, fault.Errorf(fault.NotFound, "snapshot %s was kept until %s", id, snap.Expires.Format(time.DateTime))
	}
	return snap, err
}

func (s Snapshot) expired(now time.Time) bool { return !s.Expires.IsZero() && !now.Before(s.Expires) }

// findSnapshot finds expired ones as well.
func (m *Manager) findSnapshot(id string) (Snapshot, error) {
	if id != filepath.Base(id) || id == "." || id == ".." {
		return Snapshot{}, fault.Errorf(fault.NotFound, "no snapshot %q", id)
	}
	snap, err := readMeta(m.snapshotHome(id))
	if err != nil {
		return Snapshot{}, fault.Errorf(fault.NotFound, "no snapshot %q", id).WithHint("list them: assay sandbox ls --snapshots")
	}
	return snap, nil
}

// openSnapshot gives a snapshot as the source of a machine. It is not removed
// before done was called.
func (m *Manager) openSnapshot(ctx context.Context, id string) (_ source, done func(), err error) {
	snap, err := m.Snapshot(id)
	if err != nil {
		return source{}, nil, err
	}
	d, err := m.drivers.named(snap.Driver)
	if err != nil {
		return source{}, nil, fault.Errorf(fault.KindOf(err), "snapshot %s is of driver %s: %w", id, snap.Driver, err)
	}
	if own := d.Identity(); snap.Identity != own {
		return source{}, nil, fault.Errorf(fault.Invalid, "snapshot %s was taken elsewhere: it needs %q, this host is %q", id, snap.Identity, own).
			WithHint("restore it on a host of the same kind, or make a new one here")
	}
	if _, err := os.Stat(snap.Image); err != nil {
		return source{}, nil, fault.Errorf(fault.NotFound, "the image of snapshot %s is gone: %w", id, err).WithHint("build template %s again", snap.TemplateName)
	}
	done, err = m.lockSnapshot(ctx, id, unix.LOCK_SH)
	if err != nil {
		return source{}, nil, err
	}
	return source{template: snap.Template, name: snap.TemplateName, image: snap.Image, shape: snap.Shape, driver: d, snapshot: snap.dir, policy: snap.Network}, done, nil
}

// lockSnapshot keeps a snapshot from being removed, or restored: LOCK_SH for
// who restores it, LOCK_EX for who removes it, in whichever process.
func (m *Manager) lockSnapshot(ctx context.Context, id string, how int) (unlock func(), err error) {
	f, err := os.Open(m.snapshotHome(id))
	if err != nil {
		return nil, fault.Errorf(fault.NotFound, "no snapshot %q", id)
	}
	if err := lockWait(ctx, f, how); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("wait for snapshot %s: %w", id, err)
	}
	if _, err := m.findSnapshot(id); err != nil { // removed while we waited
		_ = f.Close()
		return nil, err
	}
	return func() { _ = f.Close() }, nil
}

// Snapshots gives all snapshots, oldest first.
func (m *Manager) Snapshots() ([]Snapshot, error) {
	list, err := m.allSnapshots()
	now := time.Now()
	return slices.DeleteFunc(list, func(s Snapshot) bool { return s.expired(now) }), err
}

// allSnapshots gives expired ones as well.
func (m *Manager) allSnapshots() ([]Snapshot, error) {
	dirs, err := os.ReadDir(filepath.Join(m.dir, "snapshots"))
	if err != nil {
		return nil, fault.Errorf(fault.Internal, "list snapshots: %w", err)
	}
	var list []Snapshot
	for _, d := range dirs {
		if snap, err := readMeta(m.snapshotHome(d.Name())); err == nil {
			list = append(list, snap)
		}
	}
	slices.SortFunc(list, func(a, b Snapshot) int { return cmp.Or(a.Taken.Compare(b.Taken), strings.Compare(a.ID, b.ID)) })
	return list, nil
}

// RemoveSnapshot deletes a snapshot. Sandboxes made from it have read it whole
// and go on; it waits, for a while, for those that are just being made. Errors:
// fault.NotFound, and fault.Conflict when they took too long.
func (m *Manager) RemoveSnapshot(id string) error {
	ctx, leave, err := m.enter(context.Background())
	if err != nil {
		return err
	}
	defer leave()
	ctx, cancel := context.WithTimeoutCause(ctx, endWait, fault.Errorf(fault.Conflict, "snapshot %s is being restored", id))
	defer cancel()
	if _, err := m.findSnapshot(id); err != nil {
		return err
	}
	unlock, err := m.lockSnapshot(ctx, id, unix.LOCK_EX)
	if err != nil {
		return err
	}
	defer unlock()
	// It stops being a snapshot at once, and what a crash leaves of it lies where
	// the next start cleans.
	gone := filepath.Join(m.journal.dir, "removed-"+id+".tmp")
	if err := errors.Join(os.Rename(m.snapshotHome(id), gone), os.RemoveAll(gone)); err != nil {
		return fault.Errorf(fault.Internal, "remove snapshot %s: %w", id, err)
	}
	return nil
}

// expireBy makes the sweep look for expired snapshots at a time, if not before.
func (m *Manager) expireBy(at time.Time) {
	if at.IsZero() {
		return
	}
	m.mu.Lock()
	sooner := at.Before(m.expire)
	if sooner {
		m.expire = at
	}
	m.mu.Unlock()
	if sooner {
		m.wake()
	}
}

// expireSnapshots begins to delete what is past its retention date, in the
// group, and says when to look again.
func (m *Manager) expireSnapshots(now time.Time, started *sync.WaitGroup) time.Time {
	m.mu.Lock()
	m.expire = now.Add(sweepEvery) // other processes take snapshots too
	m.mu.Unlock()
	list, err := m.allSnapshots()
	if err != nil {
		m.log.Error("expire snapshots", "err", err)
	}
	for _, s := range list {
		if !s.expired(now) {
			m.expireBy(s.Expires)
			continue
		}
		started.Go(func() {
			if err := m.RemoveSnapshot(s.ID); err != nil && !fault.Is(err, fault.NotFound) {
				m.log.Error("expire snapshot", "snapshot", s.ID, "err", err)
			}
		})
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.expire
}
