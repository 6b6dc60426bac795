package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"time"

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
	// Identity is what a host must be to restore it: see Driver.Identity.
	Identity string    `json:"driver_identity"`
	Taken    time.Time `json:"taken"`
	// Expires is when it is deleted; zero is never.
	Expires time.Time `json:"expires,omitzero"`
	Bytes   int64     `json:"bytes"`

	dir string // the checkpoint
}

const snapshotMeta = "snapshot.json"

// Snapshot freezes the sandbox and lets it go on. The snapshot is deleted
// after retention; zero keeps it until RemoveSnapshot.
func (s *Sandbox) Snapshot(ctx context.Context, retention time.Duration) (Snapshot, error) {
	if retention < 0 {
		return Snapshot{}, fault.Errorf(fault.Invalid, "retention is negative")
	}
	end, err := s.use("snapshot")
	if err != nil {
		return Snapshot{}, err
	}
	defer end()
	id := newID()
	home := filepath.Join(s.m.dir, "snapshots", id)
	if err := os.Mkdir(home, 0o700); err != nil {
		return Snapshot{}, fault.Errorf(fault.Internal, "snapshot sandbox %s: %w", s.info.ID, err)
	}
	snap := Snapshot{
		ID: id, Sandbox: s.info.ID, Template: s.body.src.template, TemplateName: s.body.src.name, Image: s.body.src.image,
		Shape: s.body.src.shape, Identity: s.m.driver.Identity(), Taken: time.Now(), dir: filepath.Join(home, "state"),
	}
	if retention > 0 {
		snap.Expires = snap.Taken.Add(retention)
	}
	err = s.m.checkpoint(ctx, s.body, snap.dir)
	if err == nil {
		snap.Bytes = dirBytes(snap.dir)
		err = writeMeta(home, snap) // from here on it is a snapshot
	}
	if err != nil {
		_ = os.RemoveAll(home)
		return Snapshot{}, err
	}
	s.events.add(Event{Kind: "snapshot", Detail: map[string]any{"snapshot": id, "bytes": snap.Bytes}})
	return snap, nil
}

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
	snap.dir = filepath.Join(home, "state")
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
	if id != filepath.Base(id) || id == "." || id == ".." {
		return Snapshot{}, fault.Errorf(fault.NotFound, "no snapshot %q", id)
	}
	snap, err := readMeta(filepath.Join(m.dir, "snapshots", id))
	if err != nil {
		return Snapshot{}, fault.Errorf(fault.NotFound, "no snapshot %s", id).WithHint("list them: assay sandbox ls --snapshots")
	}
	return snap, nil
}

// Snapshots gives all snapshots, oldest first.
func (m *Manager) Snapshots() ([]Snapshot, error) {
	dirs, err := os.ReadDir(filepath.Join(m.dir, "snapshots"))
	if err != nil {
		return nil, fault.Errorf(fault.Internal, "list snapshots: %w", err)
	}
	var list []Snapshot
	for _, d := range dirs {
		if snap, err := readMeta(filepath.Join(m.dir, "snapshots", d.Name())); err == nil {
			list = append(list, snap)
		}
	}
	sort.Slice(list, func(i, j int) bool { return list[i].Taken.Before(list[j].Taken) })
	return list, nil
}

// RemoveSnapshot deletes a snapshot. Sandboxes made from it have read it whole
// and go on.
func (m *Manager) RemoveSnapshot(id string) error {
	if _, err := m.Snapshot(id); err != nil {
		return err
	}
	home := filepath.Join(m.dir, "snapshots", id)
	// The meta file first: what is left of a removal cut short is no snapshot.
	if err := errors.Join(remove(filepath.Join(home, snapshotMeta)), os.RemoveAll(home)); err != nil {
		return fault.Errorf(fault.Internal, "remove snapshot %s: %w", id, err)
	}
	return nil
}

// expireSnapshots deletes what is past its retention date.
func (m *Manager) expireSnapshots(now time.Time) {
	list, err := m.Snapshots()
	if err != nil {
		m.log.Error("expire snapshots", "err", err)
		return
	}
	for _, s := range list {
		if s.Expires.IsZero() || s.Expires.After(now) {
			continue
		}
		if err := m.RemoveSnapshot(s.ID); err != nil {
			m.log.Error("expire snapshot", "snapshot", s.ID, "err", err)
		}
	}
}
