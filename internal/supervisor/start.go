package supervisor

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"assay/internal/fault"
	"assay/internal/guest"
)

// Start says how to connect.
type Start struct {
	DataDir string
	// Command starts a supervisor of DataDir: it inherits the lock as LockFD and
	// the pipe on which it says that it is ready as ReadyFD.
	Command []string
	// Started, if set, is told when a supervisor had to be started.
	Started func(Hello)
	// Attr is how the supervisor's process is made, for example in a user
	// namespace; nil is as any other.
	Attr *syscall.SysProcAttr
}

// The descriptors that a supervisor started by Connect inherits.
const (
	LockFD  = 3
	ReadyFD = 4
)

const (
	// startWait bounds how long a supervisor may take to be ready, or an ending
	// one to be gone: it may have many machines to remove.
	startWait = 2 * time.Minute
	// lookEvery is how often to look whether another process is done with it.
	lookEvery = 20 * time.Millisecond
)

// Connect gives a client of the supervisor of a data directory, which it starts
// if none lives. Many may do so at once: one supervisor comes of it.
func Connect(ctx context.Context, s Start) (*Client, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, startWait,
		fault.Errorf(fault.Unavailable, "the supervisor of %s did not answer within %v", s.DataDir, startWait).
			WithHint("look into %s; if it hangs, kill the process that holds %s", LogPath(s.DataDir), lockName))
	defer cancel()
	if err := makeDataDir(s.DataDir); err != nil {
		return nil, err
	}
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for {
		c, err := dial(ctx, s.DataDir)
		if err == nil {
			return c, nil
		}
		if errors.Is(err, fs.ErrPermission) {
			return nil, fault.Errorf(fault.Denied, "the supervisor's socket in %s belongs to another user", s.DataDir).WithHint("%s", ownerHint)
		}
		// Nobody listens, or it ended before it had answered: both do no harm.
		if !errors.Is(err, errBroken) {
			return nil, err
		}
		lock, err := takeLock(s.DataDir)
		if err != nil {
			return nil, err
		}
		if lock != nil {
			if err := s.start(ctx, lock); err != nil {
				return nil, err
			}
			continue
		}
		select { // somebody starts or ends one
		case <-look.C:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// ready is what a supervisor says when it listens, or why it never will.
type ready struct {
	Hello Hello            `json:"hello"`
	Error *guest.WireFault `json:"error,omitempty"`
}

// start starts a supervisor that owns the lock and waits until it is ready.
func (s Start) start(ctx context.Context, lock *os.File) error {
	owned := true // by this process
	defer func() {
		if owned {
			_ = dropLock(s.DataDir, lock)
		}
	}()
	log, err := openLog(s.DataDir)
	if err != nil {
		return err
	}
	defer log.Close()
	r, w, err := os.Pipe()
	if err != nil {
		return fault.Errorf(fault.Exhausted, "make pipe: %w", err)
	}
	defer r.Close()
	cmd := exec.Command(s.Command[0], s.Command[1:]...) // lives longer than ctx
	cmd.Dir, cmd.Stderr = "/", log
	cmd.ExtraFiles = []*os.File{lock, w}
	attr := syscall.SysProcAttr{}
	if s.Attr != nil {
		attr = *s.Attr
	}
	attr.Setsid = true // no terminal, no Ctrl-C
	cmd.SysProcAttr = &attr
	err = cmd.Start()
	_ = w.Close()
	if err != nil {
		return fault.Errorf(fault.Internal, "start the supervisor: %w", err)
	}
	owned = false
	_ = lock.Close() // the supervisor has it now, and removes it at its end
	go func() { _ = cmd.Wait() }()

	stop := context.AfterFunc(ctx, func() { _ = r.Close() })
	defer stop()
	var said ready
	if err := json.NewDecoder(r).Decode(&said); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return fault.Errorf(fault.Unavailable, "the supervisor ended before it was ready").WithHint("its last words are in %s", LogPath(s.DataDir))
	}
	if said.Error != nil {
		return unwire(*said.Error)
	}
	if s.Started != nil {
		s.Started(said.Hello)
	}
	return nil
}

// SayReady tells the process that started this supervisor how that went, and
// closes the pipe.
func SayReady(pipe io.WriteCloser, h Hello, err error) error {
	said := ready{Hello: h}
	if err != nil {
		w := guest.ToWire(err)
		said.Error = &w
	}
	return errors.Join(json.NewEncoder(pipe).Encode(said), pipe.Close())
}

// Inherited gives the lock and the pipe of a supervisor that Connect started.
func Inherited() (lock, pipe *os.File) {
	unix.CloseOnExec(LockFD)
	unix.CloseOnExec(ReadyFD)
	return os.NewFile(LockFD, lockName), os.NewFile(ReadyFD, "ready")
}

// maxLog is when a log is begun anew, in bytes.
const maxLog = 1 << 20

func openLog(dataDir string) (*os.File, error) {
	flags := os.O_WRONLY | os.O_CREATE | os.O_APPEND
	if info, err := os.Stat(LogPath(dataDir)); err == nil && info.Size() > maxLog {
		flags |= os.O_TRUNC
	}
	f, err := os.OpenFile(LogPath(dataDir), flags, 0o600)
	if err != nil {
		return nil, fault.Errorf(kindOf(err), "open the supervisor's log: %w", err).WithHint("%s", ownerHint)
	}
	return f, nil
}

// DropEmptyLog removes the log if nothing was written to it.
func DropEmptyLog(dataDir string) error {
	info, err := os.Stat(LogPath(dataDir))
	if err != nil || info.Size() > 0 {
		return nil //nolint:nilerr // no log, or one that somebody wants to read
	}
	return os.Remove(LogPath(dataDir))
}
