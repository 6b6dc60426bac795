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
// whose lock can be had belongs to the dead. Machines of the dead are
// reclaimed, but for persistent sandboxes: a manager of the same keeper adopts
// those, and takes over the directory that they are in until the last of them
// ends; other managers leave them until their deadline. The process ID in the
// lock only says whether it is worth to wait a little for it. Nothing is
// synced to disk: after a crash of the host the machines are gone anyway, and
// a directory without a journal entry is reclaimed as well.
type journal struct {
	drivers   *drivers
	others    map[string]Reclaim
	keeper    string // of persistent sandboxes; "" adopts none
	log       *slog.Logger
	dir       string
	lock      *os.File
	reclaimed int
	orphans   []orphan // to be adopted

	mu    sync.Mutex
	live  map[string]entry
	homes map[string]*home // directories taken over, by path
}

// home is a dead manager's directory that machines go on in.
type home struct {
	lock     *os.File
	machines int // that live in it
}

// Reclaim removes what a machine left, as Driver.Reclaim does.
type Reclaim func(ctx context.Context, id, dir string) error

// entry is a machine's record.
type entry struct {
	ID       string    `json:"id"`
	Driver   string    `json:"driver"`
	Began    time.Time `json:"began"`
	Deadline time.Time `json:"deadline,omitzero"`
	// Kept is there for a persistent sandbox, from the moment that somebody has
	// it until its end begins: what another process needs to adopt it.
	Kept *kept `json:"kept,omitempty"`

	home string // the directory that its record is in
}

// openJournal reclaims what the dead left, but for orphans, and opens a
// directory of its own.
func openJournal(ctx context.Context, root string, o Options) (*journal, error) {
	if err := os.MkdirAll(root, 0o700); err != nil {
		return nil, fault.Errorf(fault.Internal, "open journal: %w", err)
	}
	j := &journal{drivers: newDrivers(o.Driver, o.Drivers), others: o.Others, keeper: o.Keeper, log: o.Log, live: map[string]entry{}, homes: map[string]*home{}}
	if err := j.reclaimAll(ctx, root); err != nil {
		return nil, err
	}
	return j, j.open(ctx, root)
}

// reclaimAll goes through the directories of the dead. A manager that adopts
// waits for others that just do so: they hold the locks of the dead, who would
// look alive.
func (j *journal) reclaimAll(ctx context.Context, root string) error {
	pass, err := os.OpenFile(filepath.Join(root, passName), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fault.Errorf(fault.Internal, "open journal: %w", err)
	}
	defer pass.Close()
	how := unix.LOCK_SH
	if j.keeper != "" {
		how = unix.LOCK_EX
	}
	if err := lockWait(ctx, pass, how); err != nil {
		return fmt.Errorf("open journal: %w", err)
	}
	dirs, err := os.ReadDir(root)
	if err != nil {
		return fault.Errorf(fault.Internal, "read journal: %w", err)
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
			j.log.Error("reclaim machines of an earlier life", "dir", dir.Name(), "err", err)
		}
	}
	return nil
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
	// passName is the lock of those who go through the directories of the dead.
	passName = "pass"
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

// reclaim removes a dead manager's machines and then its directory, unless
// persistent sandboxes are in it. It gives how many it removed, 0 for a manager
// that lives.
func (j *journal) reclaim(ctx context.Context, dir string) (int, error) {
	lock, err := lockFile(ctx, filepath.Join(dir, lockName))
	if errors.Is(err, unix.EWOULDBLOCK) || errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	h := &home{lock: lock}
	defer func() {
		if h.machines == 0 {
			_ = lock.Close()
		}
	}()
	files, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil // another start has done it between our two steps
	}
	if err != nil {
		return 0, err
	}
	ids := map[string]bool{}
	var errs []error
	for _, f := range files {
		if id, ok := machineOf(f.Name()); ok {
			ids[id] = true
		} else if filepath.Ext(f.Name()) == ".tmp" {
			errs = append(errs, os.RemoveAll(filepath.Join(dir, f.Name())))
		}
	}
	done, left := 0, 0
	for id := range ids {
		e := entry{Driver: j.drivers.main.Name()}
		if b, err := os.ReadFile(filepath.Join(dir, id+".json")); err == nil {
			_ = json.Unmarshal(b, &e) // half-written: there is a directory, or nothing
		}
		e.ID, e.home = id, dir
		switch {
		case j.adopts(e):
			h.machines++
			j.orphans = append(j.orphans, orphan{e})
			continue
		case e.waits(j.keeper, time.Now()):
			left++
			continue
		}
		if err := j.remove(ctx, e); err != nil {
			errs = append(errs, err)
			continue
		}
		done++
	}
	if h.machines > 0 {
		j.homes[dir] = h
	}
	if err := errors.Join(errs...); err != nil || h.machines+left > 0 {
		return done, err
	}
	return done, os.RemoveAll(dir)
}

// remove removes a dead manager's machine and its record.
func (j *journal) remove(ctx context.Context, e entry) error {
	remove := j.drivers.main.Reclaim
	if other, ok := j.others[e.Driver]; ok && e.Driver != j.drivers.main.Name() {
		remove = other
	} else if e.Driver != j.drivers.main.Name() {
		return fmt.Errorf("machine %s belongs to driver %s", e.ID, e.Driver)
	}
	if err := remove(ctx, e.ID, e.dir()); err != nil {
		return fmt.Errorf("machine %s: %w", e.ID, err)
	}
	return errors.Join(os.RemoveAll(e.dir()), removeFile(e.path()))
}

func (e entry) dir() string  { return filepath.Join(e.home, e.ID) }
func (e entry) path() string { return filepath.Join(e.home, e.ID+".json") }

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

// begin records a machine of a driver and gives the empty directory it may
// fill. If it fails, there is no record.
func (j *journal) begin(id, driver string) (string, error) {
	e := entry{ID: id, Driver: driver, Began: time.Now(), home: j.dir}
	err := e.write()
	if err == nil {
		err = os.Mkdir(e.dir(), 0o700)
	}
	if err != nil {
		err = journalFault(id, err)
		if left := removeFile(e.path()); left != nil { // a full disk leaves half a record
			err = errors.Join(err, left)
		}
		return "", err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.live[id] = e
	return e.dir(), nil
}

// write writes the record. One that a sandbox is adopted by is replaced in one
// step: half of it would end the sandbox.
func (e entry) write() error {
	b, err := json.Marshal(e)
	if err != nil {
		return err
	}
	if e.Kept == nil {
		return os.WriteFile(e.path(), b, 0o600)
	}
	tmp := e.path() + ".tmp"
	if err := os.WriteFile(tmp, b, 0o600); err != nil {
		return errors.Join(err, removeFile(tmp))
	}
	return os.Rename(tmp, e.path())
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
	_ = e.write()
}

// keep writes down what a persistent sandbox is adopted by, or, with nil, that
// it is not to be adopted any more.
func (j *journal) keep(id string, k *kept) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	e, ok := j.live[id]
	if !ok {
		return nil // gone in the meantime: its record must not come back
	}
	e.Kept = k
	if k != nil {
		e.Deadline = k.Info.Deadline
	}
	if err := e.write(); err != nil {
		return journalFault(id, err)
	}
	j.live[id] = e
	return nil
}

// end forgets a machine that is gone. What the driver could not remove stays
// recorded.
func (j *journal) end(id string) error {
	j.mu.Lock()
	e, ok := j.live[id]
	j.mu.Unlock()
	if !ok {
		return nil
	}
	if err := os.RemoveAll(e.dir()); err != nil {
		return fault.Errorf(fault.Internal, "remove directory of machine %s: %w", id, err)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if _, ok := j.live[id]; !ok {
		return nil // somebody else was first
	}
	delete(j.live, id)
	if err := removeFile(e.path()); err != nil {
		return fault.Errorf(fault.Internal, "forget machine %s: %w", id, err)
	}
	return j.leaveHome(e.home)
}

// leaveHome counts one machine less in a directory taken over, and removes it
// with the last. Caller holds mu.
func (j *journal) leaveHome(dir string) error {
	h := j.homes[dir]
	if h == nil {
		return nil // the manager's own
	}
	if h.machines--; h.machines > 0 {
		return nil
	}
	delete(j.homes, dir)
	return errors.Join(giveUp(dir), h.lock.Close())
}

// giveUp removes a directory unless machines are left in it.
func giveUp(dir string) error {
	err := removeFile(filepath.Join(dir, lockName))
	if rm := os.Remove(dir); rm != nil && !errors.Is(rm, unix.ENOTEMPTY) && !errors.Is(rm, fs.ErrNotExist) {
		err = errors.Join(err, rm)
	}
	return err
}

// close gives up the directories; each is removed if nothing is left in it.
func (j *journal) close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	err := errors.Join(giveUp(j.dir), j.lock.Close())
	for dir, h := range j.homes {
		err = errors.Join(err, giveUp(dir), h.lock.Close())
	}
	j.homes = map[string]*home{}
	return err
}
