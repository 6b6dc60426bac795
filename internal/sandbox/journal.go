package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"assay/internal/fault"
)

// journal knows every machine before it exists. It is a directory for each
// manager that ever lived, locked while the manager does:
//
//	run/<manager>/lock
//	run/<manager>/<machine>.json     written before anything else of the machine
//	run/<manager>/<machine>/         the machine's own directory
//
// The kernel gives up the lock of a process however it dies, so a directory
// whose lock can be had belongs to the dead, and all its machines are
// reclaimed. There is no process ID to be mistaken for another's. Nothing is
// synced to disk: after a crash of the host the machines are gone anyway, and
// a directory without a journal entry is reclaimed as well.
type journal struct {
	driver    Driver
	dir       string
	lock      *os.File
	reclaimed int

	mu sync.Mutex
}

// entry is a machine's record.
type entry struct {
	ID       string    `json:"id"`
	Driver   string    `json:"driver"`
	Began    time.Time `json:"began"`
	Deadline time.Time `json:"deadline,omitzero"`
}

// openJournal reclaims what the dead left and opens a directory of its own.
func openJournal(ctx context.Context, root string, d Driver, log *slog.Logger) (*journal, error) {
	if err := os.MkdirAll(root, 0o700); err != nil {
		return nil, fault.Errorf(fault.Internal, "open journal: %w", err)
	}
	j := &journal{driver: d}
	dirs, err := os.ReadDir(root)
	if err != nil {
		return nil, fault.Errorf(fault.Internal, "read journal: %w", err)
	}
	for _, dir := range dirs {
		if strings.HasPrefix(dir.Name(), freshPrefix) {
			continue
		}
		n, err := reclaim(ctx, filepath.Join(root, dir.Name()), d)
		j.reclaimed += n
		if err != nil {
			// The leftovers stay journalled: the next start tries again. This one
			// can work beside them.
			log.Error("reclaim machines of an earlier life", "dir", dir.Name(), "err", err)
		}
	}
	// Locked before it stands where others look for the dead.
	j.dir = filepath.Join(root, newID())
	fresh := filepath.Join(root, freshPrefix+newID())
	if err := os.Mkdir(fresh, 0o700); err != nil {
		return nil, fault.Errorf(fault.Internal, "open journal: %w", err)
	}
	if j.lock, err = lockFile(filepath.Join(fresh, "lock")); err == nil {
		err = os.Rename(fresh, j.dir)
	}
	if err != nil {
		return nil, errors.Join(fault.Errorf(fault.Internal, "open journal: %w", err), os.RemoveAll(fresh))
	}
	return j, nil
}

// freshPrefix begins the name of a directory that is being made.
const freshPrefix = "fresh-"

// lockFile opens and locks a file, or gives EWOULDBLOCK.
func lockFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// reclaim removes a dead manager's machines and then its directory. It gives
// how many there were, 0 for a manager that lives.
func reclaim(ctx context.Context, dir string, d Driver) (int, error) {
	lock, err := lockFile(filepath.Join(dir, "lock"))
	if errors.Is(err, unix.EWOULDBLOCK) || errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer lock.Close()
	files, err := os.ReadDir(dir)
	if err != nil {
		return 0, err
	}
	ids := map[string]bool{}
	for _, f := range files {
		if id, ok := machineOf(f.Name()); ok {
			ids[id] = true
		}
	}
	var errs []error
	for id := range ids {
		e := entry{Driver: d.Name()}
		if b, err := os.ReadFile(filepath.Join(dir, id+".json")); err == nil {
			_ = json.Unmarshal(b, &e) // half-written: there is a directory, or nothing
		}
		if e.Driver != d.Name() {
			errs = append(errs, fmt.Errorf("machine %s belongs to driver %s", id, e.Driver))
			continue
		}
		if err := d.Reclaim(ctx, id, filepath.Join(dir, id)); err != nil {
			errs = append(errs, fmt.Errorf("machine %s: %w", id, err))
			continue
		}
		errs = append(errs, os.RemoveAll(filepath.Join(dir, id)), remove(filepath.Join(dir, id+".json")))
	}
	if err := errors.Join(errs...); err != nil {
		return len(ids), err
	}
	return len(ids), os.RemoveAll(dir)
}

// machineOf gives the machine that a name in a journal's directory stands for.
func machineOf(name string) (string, bool) {
	switch {
	case name == "lock":
		return "", false
	case filepath.Ext(name) == ".json":
		return name[:len(name)-len(".json")], true
	case filepath.Ext(name) == "":
		return name, true
	}
	return "", false
}

func remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// begin records a machine and gives the empty directory it may fill.
func (j *journal) begin(id string) (string, error) {
	if err := j.write(entry{ID: id, Driver: j.driver.Name(), Began: time.Now()}); err != nil {
		return "", err
	}
	dir := filepath.Join(j.dir, id)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", fault.Errorf(fault.Internal, "make directory of machine %s: %w", id, err)
	}
	return dir, nil
}

func (j *journal) write(e entry) error {
	b, err := json.Marshal(e)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(j.dir, e.ID+".json"), b, 0o600); err != nil {
		kind := fault.Internal
		if errors.Is(err, unix.ENOSPC) {
			kind = fault.Exhausted
		}
		return fault.Errorf(kind, "journal machine %s: %w", e.ID, err).WithHint("free some disk space in the data directory")
	}
	return nil
}

// deadline adds a machine's deadline to its record, for people who look. A
// failure is no harm: the sweep has it in memory, and a dead manager's
// machines are reclaimed whatever their deadline.
func (j *journal) deadline(id string, at time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	_ = j.write(entry{ID: id, Driver: j.driver.Name(), Began: time.Now(), Deadline: at})
}

// end forgets a machine that is gone. What the driver could not remove stays
// recorded.
func (j *journal) end(id string) error {
	if err := os.RemoveAll(filepath.Join(j.dir, id)); err != nil {
		return fault.Errorf(fault.Internal, "remove directory of machine %s: %w", id, err)
	}
	if err := remove(filepath.Join(j.dir, id+".json")); err != nil {
		return fault.Errorf(fault.Internal, "forget machine %s: %w", id, err)
	}
	return nil
}

// close gives up the directory; it is removed if nothing is left in it.
func (j *journal) close() error {
	err := remove(filepath.Join(j.dir, "lock"))
	if rm := os.Remove(j.dir); rm != nil && !errors.Is(rm, unix.ENOTEMPTY) && !errors.Is(rm, fs.ErrNotExist) {
		err = errors.Join(err, rm)
	}
	return errors.Join(err, j.lock.Close())
}
