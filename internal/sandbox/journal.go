package sandbox

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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
// reclaimed. The process ID in it only says whether it is worth to wait a
// little for the lock. Nothing is
// synced to disk: after a crash of the host the machines are gone anyway, and
// a directory without a journal entry is reclaimed as well.
type journal struct {
	driver    Driver
	others    map[string]Reclaim
	dir       string
	lock      *os.File
	reclaimed int

	mu   sync.Mutex
	live map[string]entry
}

// Reclaim removes what a machine left, as Driver.Reclaim does.
type Reclaim func(ctx context.Context, id, dir string) error

// entry is a machine's record.
type entry struct {
	ID       string    `json:"id"`
	Driver   string    `json:"driver"`
	Began    time.Time `json:"began"`
	Deadline time.Time `json:"deadline,omitzero"`
}

// openJournal reclaims what the dead left and opens a directory of its own.
func openJournal(ctx context.Context, root string, d Driver, others map[string]Reclaim, log *slog.Logger) (*journal, error) {
	if err := os.MkdirAll(root, 0o700); err != nil {
		return nil, fault.Errorf(fault.Internal, "open journal: %w", err)
	}
	j := &journal{driver: d, others: others, live: map[string]entry{}}
	dirs, err := os.ReadDir(root)
	if err != nil {
		return nil, fault.Errorf(fault.Internal, "read journal: %w", err)
	}
	for _, dir := range dirs {
		if !dir.IsDir() || strings.HasPrefix(dir.Name(), freshPrefix) {
			continue
		}
		n, err := j.reclaim(ctx, filepath.Join(root, dir.Name()))
		j.reclaimed += n
		if err != nil {
			// The leftovers stay journalled: the next start tries again. This one
			// can work beside them.
			log.Error("reclaim machines of an earlier life", "dir", dir.Name(), "err", err)
		}
	}
	return j, j.open(ctx, root)
}

// open makes the manager's own directory. It is locked before it stands where
// others look for the dead. While one manager makes its own, no other does, so
// that a half-made one that is found is a dead one's.
func (j *journal) open(ctx context.Context, root string) error {
	one, err := os.OpenFile(filepath.Join(root, lockName), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fault.Errorf(fault.Internal, "open journal: %w", err)
	}
	defer one.Close()
	if err := lockWait(ctx, one, unix.LOCK_EX); err != nil {
		return fmt.Errorf("open journal: %w", err)
	}
	dirs, err := os.ReadDir(root)
	for _, d := range dirs {
		if strings.HasPrefix(d.Name(), freshPrefix) {
			err = errors.Join(err, os.RemoveAll(filepath.Join(root, d.Name())))
		}
	}
	j.dir = filepath.Join(root, newID())
	fresh := filepath.Join(root, freshPrefix+newID())
	err = errors.Join(err, os.Mkdir(fresh, 0o700))
	if err == nil {
		j.lock, err = lockFile(ctx, filepath.Join(fresh, lockName))
	}
	if err == nil {
		err = os.Rename(fresh, j.dir)
	}
	if err != nil {
		return errors.Join(fault.Errorf(fault.Internal, "open journal: %w", err), os.RemoveAll(fresh))
	}
	return nil
}

const (
	// lockName is a manager's lock in its directory.
	lockName = "lock"
	// freshPrefix begins the name of a directory that is being made.
	freshPrefix = "fresh-"
)

// deadLock is how long reclaim waits for the lock of a process that is gone. A
// child that it was just starting has the lock, too, until it runs its program.
const deadLock = 10 * time.Second

// lockFile opens and locks a file and writes down who has it, or gives
// EWOULDBLOCK where somebody has who lives.
func lockFile(ctx context.Context, path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) && !holderLives(f) {
		ctx, cancel := context.WithTimeout(ctx, deadLock)
		defer cancel()
		if err = lockWait(ctx, f, unix.LOCK_EX); errors.Is(err, context.DeadlineExceeded) {
			err = unix.EWOULDBLOCK
		}
	}
	if err == nil {
		err = f.Truncate(0)
	}
	if err == nil {
		_, err = f.WriteAt([]byte(processStamp(os.Getpid())), 0)
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// holderLives reads who has a lock. Who cannot be known counts as alive.
func holderLives(f *os.File) bool {
	b := make([]byte, 64)
	n, err := f.ReadAt(b, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return true
	}
	var pid int
	if _, err := fmt.Sscan(string(b[:n]), &pid); err != nil {
		return true
	}
	return processStamp(pid) == string(b[:n])
}

// processStamp tells a process from all others: its ID and when it began, in
// ticks since the host did. One that has ended has none.
func processStamp(pid int) string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	// The name in parentheses may hold anything.
	fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	if len(fields) < 20 || fields[0] == "Z" || fields[0] == "X" {
		return ""
	}
	return fmt.Sprintf("%d %s", pid, fields[19])
}

// reclaim removes a dead manager's machines and then its directory. It gives
// how many it removed, 0 for a manager that lives.
func (j *journal) reclaim(ctx context.Context, dir string) (int, error) {
	lock, err := lockFile(ctx, filepath.Join(dir, lockName))
	if errors.Is(err, unix.EWOULDBLOCK) || errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer lock.Close()
	files, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil // another start has done it between our two steps
	}
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
	done := 0
	for id := range ids {
		e := entry{Driver: j.driver.Name()}
		if b, err := os.ReadFile(filepath.Join(dir, id+".json")); err == nil {
			_ = json.Unmarshal(b, &e) // half-written: there is a directory, or nothing
		}
		remove := j.driver.Reclaim
		if other, ok := j.others[e.Driver]; ok && e.Driver != j.driver.Name() {
			remove = other
		} else if e.Driver != j.driver.Name() {
			errs = append(errs, fmt.Errorf("machine %s belongs to driver %s", id, e.Driver))
			continue
		}
		if err := remove(ctx, id, filepath.Join(dir, id)); err != nil {
			errs = append(errs, fmt.Errorf("machine %s: %w", id, err))
			continue
		}
		if err := errors.Join(os.RemoveAll(filepath.Join(dir, id)), removeFile(filepath.Join(dir, id+".json"))); err != nil {
			errs = append(errs, err)
			continue
		}
		done++
	}
	if err := errors.Join(errs...); err != nil {
		return done, err
	}
	return done, os.RemoveAll(dir)
}

// machineOf gives the machine that a name in a journal's directory stands for.
func machineOf(name string) (string, bool) {
	switch {
	case name == lockName:
		return "", false
	case filepath.Ext(name) == ".json":
		return name[:len(name)-len(".json")], true
	case filepath.Ext(name) == "":
		return name, true
	}
	return "", false
}

func removeFile(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// begin records a machine and gives the empty directory it may fill. If it
// fails, there is no record.
func (j *journal) begin(id string) (string, error) {
	e := entry{ID: id, Driver: j.driver.Name(), Began: time.Now()}
	dir := filepath.Join(j.dir, id)
	err := j.write(e)
	if err == nil {
		err = os.Mkdir(dir, 0o700)
	}
	if err != nil {
		err = journalFault(id, err)
		if left := removeFile(j.path(id)); left != nil { // a full disk leaves half a record
			err = errors.Join(err, left)
		}
		return "", err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.live[id] = e
	return dir, nil
}

func (j *journal) path(id string) string { return filepath.Join(j.dir, id+".json") }

func (j *journal) write(e entry) error {
	b, err := json.Marshal(e)
	if err != nil {
		return err
	}
	return os.WriteFile(j.path(e.ID), b, 0o600)
}

func journalFault(id string, err error) error {
	if errors.Is(err, unix.ENOSPC) {
		return fault.Errorf(fault.Exhausted, "journal machine %s: %w", id, err).WithHint("free some disk space in the data directory")
	}
	return fault.Errorf(fault.Internal, "journal machine %s: %w", id, err)
}

// deadline adds a machine's deadline to its record, for people who look. A
// failure is no harm: the sweep has it in memory, and a dead manager's
// machines are reclaimed whatever their deadline.
func (j *journal) deadline(id string, at time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	e, ok := j.live[id]
	if !ok {
		return // gone in the meantime: its record must not come back
	}
	e.Deadline = at
	j.live[id] = e
	_ = j.write(e)
}

// end forgets a machine that is gone. What the driver could not remove stays
// recorded.
func (j *journal) end(id string) error {
	if err := os.RemoveAll(filepath.Join(j.dir, id)); err != nil {
		return fault.Errorf(fault.Internal, "remove directory of machine %s: %w", id, err)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	delete(j.live, id)
	if err := removeFile(j.path(id)); err != nil {
		return fault.Errorf(fault.Internal, "forget machine %s: %w", id, err)
	}
	return nil
}

// close gives up the directory; it is removed if nothing is left in it.
func (j *journal) close() error {
	err := removeFile(filepath.Join(j.dir, lockName))
	if rm := os.Remove(j.dir); rm != nil && !errors.Is(rm, unix.ENOTEMPTY) && !errors.Is(rm, fs.ErrNotExist) {
		err = errors.Join(err, rm)
	}
	return errors.Join(err, j.lock.Close())
}
