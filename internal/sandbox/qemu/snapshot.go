package qemu

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"assay/internal/fault"
)

// What a snapshot's directory holds.
const (
	metaFile    = "qemu.json"
	memoryFile  = "memory"
	devicesFile = "devices"
)

// meta describes a snapshot.
type meta struct {
	Identity string `json:"identity"`
	VCPUs    int    `json:"vcpus"`
	Memory   int64  `json:"memory_bytes"`
	// Digest is of the memory's pages and where they lie.
	Digest string `json:"memory_digest"`
}

// state is a snapshot without its memory.
type state struct {
	meta meta
	file *os.File
}

func openState(dir string) (state, error) {
	var s state
	b, err := os.ReadFile(filepath.Join(dir, metaFile))
	if err == nil {
		err = json.Unmarshal(b, &s.meta)
	}
	if err == nil {
		s.file, err = os.Open(filepath.Join(dir, devicesFile))
	}
	if err != nil {
		return s, fault.Errorf(fault.Invalid, "%s is no snapshot of this driver: %w", dir, err).WithHint("remove it and take a new one")
	}
	return s, nil
}

// Snapshot writes memory and devices; the guest stands still meanwhile.
//
// QEMU's own way to write a state also writes the memory, unless that is
// shared: but then a machine could not have been made from a template that
// others use. So it is asked for the devices alone, by the command that Xen has
// for it, and what is the machine's own of its memory is read from outside.
func (m *machine) Snapshot(ctx context.Context, dir string) (err error) {
	before, err := m.qmp.status(ctx)
	if err == nil && before == "running" {
		if err = m.qmp.run(ctx, "stop", nil, nil); err == nil {
			defer func() {
				// Whatever became of the snapshot, and of the caller: the machine goes on.
				ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), monitorWait)
				defer cancel()
				if contErr := m.qmp.run(ctx, "cont", nil, nil); contErr != nil && err == nil {
					err = fault.Errorf(fault.Internal, "snapshot machine %s: %w", m.cfg.ID, contErr)
				}
			}()
		}
	}
	if err == nil {
		err = m.freeze(ctx, dir)
	}
	if err != nil {
		return fault.Errorf(fault.KindOf(err), "snapshot machine %s: %w", m.cfg.ID, err)
	}
	return nil
}

func (m *machine) freeze(ctx context.Context, dir string) error {
	if err := m.saveDevices(ctx, filepath.Join(dir, devicesFile)); err != nil {
		return err
	}
	digest, err := saveMemory(ctx, filepath.Join(dir, memoryFile), m.cmd.Process.Pid, m.memory.file)
	if err != nil {
		return err
	}
	b, err := json.Marshal(meta{Identity: m.d.identity, VCPUs: m.cfg.Shape.VCPUs, Memory: memorySize(m.cfg.Shape), Digest: digest})
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, metaFile), b, 0o600)
	}
	if err != nil {
		return fault.Errorf(fault.Internal, "describe snapshot: %w", err)
	}
	return nil
}

// saveDevices has QEMU write the state of all devices into a file that it is
// handed.
func (m *machine) saveDevices(ctx context.Context, path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fault.Errorf(fault.Internal, "write devices of a snapshot: %w", err)
	}
	defer f.Close()
	const set = 2
	if err := m.qmp.run(ctx, "add-fd", map[string]any{"fdset-id": set}, nil, f); err != nil {
		return err
	}
	err = m.qmp.run(ctx, "xen-save-devices-state", map[string]any{"filename": "/dev/fdset/2", "live": false}, nil)
	return errors.Join(err, m.qmp.run(ctx, "remove-fd", map[string]any{"fdset-id": set}, nil))
}

// template is a memory that machines are made of.
type template struct {
	key   templateKey
	file  *os.File
	users int
	idle  time.Time // since when nobody uses it

	once sync.Once
	err  error
}

// templateKey tells a snapshot's memory from all others.
type templateKey struct {
	device, inode uint64
	digest        string
}

// templates are the memories of snapshots that were restored lately: loaded
// and checked once, however many machines are made of each.
type templates struct {
	mu   sync.Mutex
	list map[templateKey]*template
}

// idleMost is how many memories are kept that no machine uses.
const idleMost = 2

// use gives the memory of a snapshot. Give it back with release.
func (ts *templates) use(ctx context.Context, dir string, about meta) (*template, error) {
	path := filepath.Join(dir, memoryFile)
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return nil, fault.Errorf(fault.Invalid, "find memory of the snapshot in %s: %w", dir, err).
			WithHint("remove the snapshot and take a new one")
	}
	key := templateKey{device: st.Dev, inode: st.Ino, digest: about.Digest}
	ts.mu.Lock()
	if ts.list == nil {
		ts.list = map[templateKey]*template{}
	}
	t, ok := ts.list[key]
	if !ok {
		t = &template{key: key}
		ts.list[key] = t
	}
	t.users++
	ts.mu.Unlock()
	// Who comes first loads it for all who come meanwhile: it takes as long for
	// each, and none may leave the others without.
	t.once.Do(func() { t.file, t.err = loadTemplate(context.WithoutCancel(ctx), path, about.Memory, about.Digest) })
	if t.err != nil {
		ts.release(t)
		return nil, t.err
	}
	return t, nil
}

// release gives a memory back.
func (ts *templates) release(t *template) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	t.users--
	if t.users > 0 {
		return
	}
	t.idle = time.Now()
	if ts.list[t.key] != t || t.err != nil {
		ts.drop(t)
		return
	}
	var oldest *template
	idle := 0
	for _, other := range ts.list {
		if other.users == 0 {
			idle++
			if oldest == nil || other.idle.Before(oldest.idle) {
				oldest = other
			}
		}
	}
	if idle > idleMost {
		ts.drop(oldest)
	}
}

// drop lets a memory go. Caller holds mu.
func (ts *templates) drop(t *template) {
	if ts.list[t.key] == t {
		delete(ts.list, t.key)
	}
	if t.file != nil {
		_ = t.file.Close()
	}
}
