package image

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"assay/internal/fault"
)

// lockPoll is how often a waiter tries again: flock(2) cannot be cancelled, so
// nobody blocks in it.
const lockPoll = 50 * time.Millisecond

// fileLock is a held flock. It also holds between goroutines of one process,
// since each has a file description of its own; the kernel drops it when the
// process dies.
type fileLock struct{ f *os.File }

// tryLock takes the lock without waiting; nil without an error means that
// somebody else has it. how is unix.LOCK_EX or unix.LOCK_SH.
func tryLock(path string, how int) (*fileLock, error) {
	for {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
		if err != nil {
			return nil, fault.Errorf(kindOfFS(err), "open lock: %w", err)
		}
		if err := unix.Flock(int(f.Fd()), how|unix.LOCK_NB); err != nil {
			f.Close()
			if errors.Is(err, unix.EWOULDBLOCK) {
				return nil, nil
			}
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		// The file may have been removed between open and flock; a lock on a
		// file that nobody else can find protects nothing.
		held, err1 := f.Stat()
		named, err2 := os.Stat(path)
		if err1 == nil && err2 == nil && os.SameFile(held, named) {
			return &fileLock{f}, nil
		}
		f.Close()
	}
}

// lock waits for the lock until ctx ends. waiting is called once if somebody
// else has it.
func lock(ctx context.Context, path string, how int, waiting func()) (*fileLock, error) {
	tick := time.NewTicker(lockPoll)
	defer tick.Stop()
	for {
		l, err := tryLock(path, how)
		if l != nil || err != nil {
			return l, err
		}
		if waiting != nil {
			waiting()
			waiting = nil
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for %s: %w", filepath.Base(path), context.Cause(ctx))
		case <-tick.C:
		}
	}
}

// release lets the lock go. It is idempotent.
func (l *fileLock) release() { l.f.Close() }

func (s *Store) lockPath(kind, digest string) string {
	return s.path(dirLocks, kind+"-"+hexOf(digest)+".lock")
}

// dropLock removes the file of a lock whose thing is gone, so that locks do
// not pile up. Caller holds it exclusively; others find out in tryLock. A file
// that stays is harmless.
func (s *Store) dropLock(kind, digest string) { _ = os.Remove(s.lockPath(kind, digest)) }
