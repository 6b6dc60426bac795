package supervisor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"assay/internal/fault"
)

// The files of a supervisor in its data directory. Socket and lock are gone
// when it has ended; the log is kept when there is something in it.
const (
	socketName = "supervisor.sock"
	lockName   = "supervisor.lock"
	logName    = "supervisor.log"
)

// LogPath is where the supervisor of a data directory writes what went wrong.
func LogPath(dataDir string) string { return filepath.Join(dataDir, logName) }

// maxSocketPath is the longest path a Unix socket can have on Linux, in bytes.
const maxSocketPath = 107

// atSocket calls f with a path of the data directory's socket that is short
// enough for the kernel: a long one is reached through a descriptor of its
// directory, so no second place has to be agreed on and protected.
func atSocket(dataDir string, f func(path string) error) error {
	path := filepath.Join(dataDir, socketName)
	if len(path) <= maxSocketPath {
		return f(path)
	}
	fd, err := unix.Open(dataDir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return f(filepath.Join("/proc/self/fd", strconv.Itoa(fd), socketName))
}

// dialSocket connects to the supervisor's socket.
func dialSocket(ctx context.Context, dataDir string) (conn net.Conn, err error) {
	err = atSocket(dataDir, func(path string) error {
		var d net.Dialer
		conn, err = d.DialContext(ctx, "unix", path)
		return err
	})
	return conn, err
}

// Listener is the place of a data directory's supervisor: its lock and its
// socket. Whoever has it is the only one. Close it.
type Listener struct {
	net.Listener
	dataDir string
	lock    *os.File
}

// Listen takes the place of the supervisor of a data directory. inherited is
// the lock that the starting process handed over, or nil to take it, which is
// fault.Conflict when a supervisor lives already.
func Listen(dataDir string, inherited *os.File) (_ *Listener, err error) {
	lock := inherited
	if lock == nil {
		if lock, err = takeLock(dataDir); err != nil {
			return nil, err
		}
		if lock == nil {
			return nil, fault.Errorf(fault.Conflict, "a supervisor of %s lives already", dataDir)
		}
	} else {
		unix.CloseOnExec(int(lock.Fd())) // no machine may inherit it
	}
	l := &Listener{dataDir: dataDir, lock: lock}
	// What is there belongs to a dead supervisor: the lock is ours.
	if err := l.removeSocket(); err != nil {
		return nil, errors.Join(fault.Errorf(kindOf(err), "remove the socket of a dead supervisor: %w", err), l.unlock())
	}
	err = atSocket(dataDir, func(path string) error {
		// Nobody else may connect, not even between bind and chmod.
		defer unix.Umask(unix.Umask(0o177))
		ul, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
		if err != nil {
			return err
		}
		ul.SetUnlinkOnClose(false) // the path may be gone by then; Close removes it
		l.Listener = ul
		return nil
	})
	if err != nil {
		return nil, errors.Join(fault.Errorf(kindOf(err), "listen on the supervisor's socket: %w", err), l.unlock())
	}
	return l, nil
}

// Retire removes the socket and stops listening, so that nobody new comes; the
// lock stays until Close.
func (l *Listener) Retire() error {
	err := l.removeSocket()
	if cerr := l.Listener.Close(); !errors.Is(cerr, net.ErrClosed) {
		err = errors.Join(err, cerr)
	}
	return err
}

// Close gives the place up. What the supervisor held must be gone by then.
func (l *Listener) Close() error { return errors.Join(l.Retire(), l.unlock()) }

func (l *Listener) removeSocket() error {
	err := os.Remove(filepath.Join(l.dataDir, socketName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// unlock removes the lock file before it lets go of it: see takeLock.
func (l *Listener) unlock() error { return dropLock(l.dataDir, l.lock) }

func dropLock(dataDir string, lock *os.File) error {
	return errors.Join(os.Remove(filepath.Join(dataDir, lockName)), lock.Close())
}

// takeLock locks the supervisor's lock file. It gives nil if somebody else
// holds it.
func takeLock(dataDir string) (*os.File, error) {
	path := filepath.Join(dataDir, lockName)
	for {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return nil, fault.Errorf(kindOf(err), "open the supervisor's lock: %w", err).WithHint("%s", ownerHint)
		}
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if errors.Is(err, unix.EWOULDBLOCK) {
			_ = f.Close()
			return nil, nil
		}
		if err != nil {
			_ = f.Close()
			return nil, fault.Errorf(fault.Internal, "lock %s: %w", path, err)
		}
		// The last holder may have removed the file between open and lock; then
		// the lock is on a file that nobody finds any more.
		same, err := sameFile(f, path)
		if err == nil && same {
			return f, nil
		}
		_ = f.Close()
		if err != nil {
			return nil, fault.Errorf(fault.Internal, "look at the supervisor's lock: %w", err)
		}
	}
}

func sameFile(f *os.File, path string) (bool, error) {
	held, err := f.Stat()
	if err != nil {
		return false, err
	}
	named, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return os.SameFile(held, named), nil
}

const ownerHint = "sandboxes of a data directory belong to the user who made it: use that user, or another --data-dir"

// kindOf gives the kind of what the host's files answered.
func kindOf(err error) fault.Kind {
	switch {
	case errors.Is(err, fs.ErrPermission), errors.Is(err, unix.EROFS):
		return fault.Denied
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		return fault.Exhausted
	case errors.Is(err, fs.ErrNotExist):
		return fault.NotFound
	case errors.Is(err, unix.ENOTDIR):
		return fault.Invalid
	}
	return fault.Internal
}

// makeDataDir makes the data directory. Its mode is that of the templates in
// it, which an unprivileged builder must be able to reach; what is private lies
// deeper.
func makeDataDir(dataDir string) error {
	if err := os.MkdirAll(dataDir, 0o755); err != nil {
		return fault.Errorf(kindOf(err), "make data directory: %w", err).WithHint("give another one with --data-dir")
	}
	info, err := os.Stat(dataDir)
	if err != nil {
		return fmt.Errorf("look at data directory: %w", err)
	}
	if !info.IsDir() {
		return fault.Errorf(fault.Invalid, "%s is not a directory", dataDir)
	}
	return nil
}
