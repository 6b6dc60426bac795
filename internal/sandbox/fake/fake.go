// Package fake is a driver whose machines are values in this process: guestd's
// real wire over a pipe, and a handful of programs with true limits, usage,
// snapshots and ends, in whatever time the clock of the process shows. Tests of
// the manager use it, also inside testing/synctest bubbles: it makes no socket
// and no process, and after Destroy no goroutine is left. Start with New.
//
// It passes the same suite as every driver (package drivertest) and is never
// used in production. It must not know what runs above the engine.
package fake

import (
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"assay/internal/fault"
	"assay/internal/guest"
	"assay/internal/sandbox"
)

// Faults are what goes wrong, or is slow, on purpose. The functions may be nil.
type Faults struct {
	// Boot, Restore and Snapshot are asked before the work; an error is given
	// to the caller. id is the machine's.
	Boot, Restore, Snapshot func(id string) error
	// BootTime and RestoreTime are how long these take.
	BootTime, RestoreTime time.Duration
	// Silent says that guestd of this machine never answers.
	Silent func(id string) bool
}

// Driver makes fake machines. It implements sandbox.Driver.
type Driver struct {
	mu        sync.Mutex
	faults    Faults
	machines  map[string]*machine
	snapshots map[string]*state
	ports     func(port int) (net.Conn, error)
}

var (
	_ sandbox.Driver  = (*Driver)(nil)
	_ sandbox.Adopter = (*Driver)(nil)
)

// New makes a driver without faults. Snapshots live as long as it does.
func New() *Driver {
	return &Driver{machines: map[string]*machine{}, snapshots: map[string]*state{}}
}

// Name is "fake".
func (d *Driver) Name() string { return "fake" }

// Identity is the same for every fake driver.
func (d *Driver) Identity() string { return "fake 1" }

// SetFaults changes what goes wrong from now on.
func (d *Driver) SetFaults(f Faults) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.faults = f
}

// Crash ends a machine as an accident would, for a cause (MachineLost, or
// MemoryLimit), and waits for its end. An unknown machine is no error.
func (d *Driver) Crash(id string, cause sandbox.Cause) {
	d.mu.Lock()
	m := d.machines[id]
	d.mu.Unlock()
	if m != nil {
		m.die(cause)
		<-m.ended
	}
}

// Machines are the IDs of the machines that live.
func (d *Driver) Machines() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var ids []string
	for id := range d.machines {
		ids = append(ids, id)
	}
	return ids
}

// markName is a file in a machine's directory: proof of what was left behind.
const markName = "fake-machine"

// Boot makes a machine from nothing.
func (d *Driver) Boot(ctx context.Context, cfg sandbox.MachineConfig) (sandbox.Machine, error) {
	d.mu.Lock()
	f := d.faults
	d.mu.Unlock()
	if err := wait(ctx, f.BootTime, f.Boot, cfg.ID); err != nil {
		return nil, err
	}
	return d.make(cfg, newState(), f)
}

// snapshotName is the file in a snapshot's directory that names its state.
const snapshotName = "fake-snapshot"

// Restore makes a machine from a snapshot that this driver took.
func (d *Driver) Restore(ctx context.Context, cfg sandbox.MachineConfig, snapshotDir string) (sandbox.Machine, error) {
	d.mu.Lock()
	f := d.faults
	d.mu.Unlock()
	if err := wait(ctx, f.RestoreTime, f.Restore, cfg.ID); err != nil {
		return nil, err
	}
	name, err := os.ReadFile(filepath.Join(snapshotDir, snapshotName))
	if err != nil {
		return nil, fault.Errorf(fault.Internal, "read snapshot: %w", err)
	}
	d.mu.Lock()
	st := d.snapshots[string(name)]
	d.mu.Unlock()
	if st == nil {
		return nil, fault.Errorf(fault.Invalid, "snapshot in %s is of another driver", snapshotDir)
	}
	return d.make(cfg, st.clone(), f)
}

// keep files a state and marks the directory with its name.
func (d *Driver) keep(st *state, dir string) error {
	name := rand.Text()
	if err := os.WriteFile(filepath.Join(dir, snapshotName), []byte(name), 0o600); err != nil {
		return fault.Errorf(fault.Internal, "write snapshot: %w", err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.snapshots[name] = st
	return nil
}

func (d *Driver) make(cfg sandbox.MachineConfig, st *state, f Faults) (sandbox.Machine, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.machines[cfg.ID] != nil {
		return nil, fault.Errorf(fault.Internal, "machine %s exists", cfg.ID)
	}
	if err := os.WriteFile(filepath.Join(cfg.Dir, markName), nil, 0o600); err != nil {
		return nil, fault.Errorf(fault.Internal, "make machine %s: %w", cfg.ID, err)
	}
	m := newMachine(d, cfg, st)
	d.machines[cfg.ID] = m
	m.start(f.Silent != nil && f.Silent(cfg.ID))
	return m, nil
}

// Adopt gives a machine that lives.
func (d *Driver) Adopt(_ context.Context, cfg sandbox.MachineConfig) (sandbox.Machine, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	m := d.machines[cfg.ID]
	if m == nil || !m.cfg.Persistent {
		return nil, fault.Errorf(fault.NotFound, "no persistent machine %s", cfg.ID)
	}
	return m, nil
}

// Reclaim ends a machine with this ID, if there is one, and removes its files.
func (d *Driver) Reclaim(_ context.Context, id, dir string) error {
	d.Crash(id, guest.MachineLost)
	d.mu.Lock()
	delete(d.machines, id)
	d.mu.Unlock()
	if err := os.Remove(filepath.Join(dir, markName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fault.Errorf(fault.Internal, "reclaim machine %s: %w", id, err)
	}
	return nil
}

// wait takes the time and the fault that somebody wished.
func wait(ctx context.Context, d time.Duration, f func(string) error, id string) error {
	if d > 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
		}
	}
	if err := context.Cause(ctx); err != nil {
		return err
	}
	if f != nil {
		return f(id)
	}
	return nil
}
