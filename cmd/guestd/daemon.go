package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"assay/internal/fault"
	"assay/internal/guest"
)

// daemon is guestd's state: what outlives a session.
type daemon struct {
	log    *slog.Logger
	reaper *reaper
	nsinit *os.File
	memory int64 // of the machine, in bytes
	disk   int64
	limits machineLimits
	groups cgroups
	null   int // /dev/null, as stdin of commands without input
	statm  int // this process's own memory

	terminals terminals
	watches   fileWatches
	wires     wires
	network   network

	mu         sync.Mutex
	session    guest.Session
	commands   map[string]*command
	settled    []*command // of them, those whose result was sent, oldest first
	generation int64
}

// maxCommands is how many commands may run or wait for a reader at once.
const maxCommands = 1024

func newDaemon(log *slog.Logger) (*daemon, error) {
	limits := readLimits()
	if err := mountCgroups(limits); err != nil {
		return nil, err
	}
	nsinit, err := openNSInit()
	if err != nil {
		return nil, err
	}
	d := &daemon{log: log, nsinit: nsinit, reaper: newReaper(), commands: map[string]*command{}, limits: limits}
	d.groups.processes = d.processLimit(0)
	if d.null, err = unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
		return nil, fmt.Errorf("open /dev/null: %w", err)
	}
	if d.statm, err = unix.Open("/proc/self/statm", unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
		return nil, fmt.Errorf("open /proc/self/statm: %w", err)
	}
	if err := d.groups.prepare(); err != nil {
		return nil, err
	}
	d.wires = wires{log: log, waiting: map[string]*wire{}}
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return nil, err
	}
	d.memory = int64(info.Totalram) * int64(max(info.Unit, 1))
	if limits.kernel {
		d.memory = limits.memory // the rest is the kernel's, and the filesystems'
	}
	var st unix.Statfs_t
	if err := unix.Statfs("/", &st); err != nil {
		return nil, err
	}
	d.disk = int64(st.Blocks) * st.Bsize
	return d, nil
}

func (d *daemon) setSession(c guest.Session) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.session = c
}

// routes are all requests of a session.
func (d *daemon) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+guest.PathHello, d.hello)
	mux.HandleFunc("POST "+guest.PathIdentity, d.identity)
	mux.HandleFunc("POST "+guest.PathQuiesce, d.quiesce)
	mux.HandleFunc("POST "+guest.PathExec, d.exec)
	mux.HandleFunc("POST "+guest.PathKill, d.kill)
	d.fileRoutes(mux)
	d.terminalRoutes(mux)
	d.watchRoutes(mux)
	mux.HandleFunc("POST "+guest.PathPort, d.port)
	return mux
}

func reply(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // a broken session has nobody to tell
}

func (d *daemon) hello(w http.ResponseWriter, _ *http.Request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	reply(w, guest.Hello{Version: guest.Version, Generation: d.generation, Now: time.Now()})
}

// quiesce prepares the end of the session: when the host then asks, nothing of
// the session reads from the link any more, and main waits for the next. A
// snapshot may follow, which no wire survives.
func (d *daemon) quiesce(w http.ResponseWriter, _ *http.Request) {
	d.mu.Lock()
	d.session.EndWhenAsked()
	d.mu.Unlock()
	d.wires.drop()
	if err := d.groups.drop(); err != nil {
		d.log.Warn("remove the spare cgroup", "err", err)
	}
	w.WriteHeader(http.StatusNoContent)
}

// identity makes a restored machine unlike its siblings.
func (d *daemon) identity(w http.ResponseWriter, r *http.Request) {
	var id guest.Identity
	if err := json.NewDecoder(io.LimitReader(r.Body, 64<<10)).Decode(&id); err != nil {
		guest.WriteFault(w, fault.Errorf(fault.Invalid, "decode identity: %w", err))
		return
	}
	err := setIdentity(id)
	if err == nil && id.Interface != nil {
		err = d.network.set(*id.Interface)
	}
	if err != nil {
		guest.WriteFault(w, err)
		return
	}
	d.mu.Lock()
	d.generation = id.Generation
	d.mu.Unlock()
	w.WriteHeader(http.StatusNoContent)
}

func setIdentity(id guest.Identity) error {
	if err := unix.Sethostname([]byte(id.Hostname)); err != nil {
		return fault.Errorf(fault.Internal, "set hostname: %w", err)
	}
	// Each file is replaced, not rewritten: a reader sees the old or the new.
	for name, content := range map[string]string{
		"/etc/hostname":        id.Hostname + "\n",
		"/etc/machine-id":      id.MachineID + "\n",
		runDir + "/generation": strconv.FormatInt(id.Generation, 10) + "\n",
		"/etc/hosts":           "127.0.0.1 localhost " + id.Hostname + "\n::1 localhost\n",
	} {
		if err := replaceFile(name, content); err != nil {
			return err
		}
	}
	// Where the guest's kernel keeps its own pool and clock (a real kernel in a
	// virtual machine) both are stale after a restore; gVisor takes the host's.
	if pool, err := os.OpenFile("/dev/urandom", os.O_WRONLY, 0); err == nil {
		_, _ = pool.Write(id.Entropy)
		// What was written is used from the next time on that the kernel seeds its
		// generator: now.
		_, _, _ = unix.Syscall(unix.SYS_IOCTL, pool.Fd(), rndReseedCRNG, 0)
		_ = pool.Close()
	}
	if off := time.Since(id.Now); off > time.Second || off < -time.Second {
		tv := unix.NsecToTimeval(id.Now.UnixNano())
		if err := unix.Settimeofday(&tv); err != nil && !errors.Is(err, unix.EPERM) && !errors.Is(err, unix.ENOSYS) {
			return fault.Errorf(fault.Internal, "set clock: %w", err)
		}
	}
	return nil
}

// rndReseedCRNG is the request of random(4) that x/sys/unix has no name for.
const rndReseedCRNG = 0x5207

func replaceFile(name, content string) error {
	tmp := filepath.Join(filepath.Dir(name), ".assay-"+filepath.Base(name))
	if err := os.WriteFile(tmp, []byte(content), 0o644); err != nil {
		return fault.Errorf(fault.Internal, "write %s: %w", name, err)
	}
	if err := os.Rename(tmp, name); err != nil {
		return fault.Errorf(fault.Internal, "replace %s: %w", name, err)
	}
	return nil
}

// lookup finds a command, or starts it.
func (d *daemon) lookup(att guest.Attach) (*command, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if c, ok := d.commands[att.Spec.Key]; ok {
		return c, nil
	}
	if att.Only {
		return nil, fault.Errorf(fault.NotFound, "no command with key %s", att.Spec.Key)
	}
	if running := len(d.commands) - len(d.settled); running >= maxCommands {
		return nil, fault.Errorf(fault.Exhausted, "%d commands are running", running)
	}
	c, err := d.start(att.Spec, att.NoInput)
	if err != nil {
		return nil, err
	}
	d.commands[att.Spec.Key] = c
	return c, nil
}

// What is kept of commands whose result was sent: their number, and the bytes
// of their output.
const (
	settledMost  = 32
	settledBytes = 4 << 20
)

// settle keeps a command whose result was sent for a little longer: the session
// may have broken with the result under way.
func (d *daemon) settle(c *command) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if slices.Contains(d.settled, c) {
		return
	}
	d.settled = append(d.settled, c)
	var held int64
	for i := len(d.settled) - 1; i >= 0; i-- {
		held += d.settled[i].stdout.held() + d.settled[i].stderr.held()
		if held > settledBytes || len(d.settled)-i > settledMost {
			for _, old := range d.settled[:i+1] {
				delete(d.commands, old.spec.Key)
			}
			d.settled = slices.Delete(d.settled, 0, i+1)
			break
		}
	}
}

// exec starts a command or attaches to it, and streams both ways.
func (d *daemon) exec(w http.ResponseWriter, r *http.Request) {
	in := guest.NewFrameReader(bufio.NewReaderSize(r.Body, 64<<10))
	t, p, err := in.Next()
	if err != nil || t != guest.FrameSpec {
		guest.WriteFault(w, fault.Errorf(fault.Invalid, "exec stream does not begin with its spec"))
		return
	}
	var att guest.Attach
	if err := json.Unmarshal(p, &att); err != nil {
		guest.WriteFault(w, fault.Errorf(fault.Invalid, "decode exec: %w", err))
		return
	}
	c, err := d.lookup(att)
	if err != nil {
		guest.WriteFault(w, err)
		return
	}
	out := &frameWriter{w: w, rc: http.NewResponseController(w)}
	c.feeding.Lock()
	started := out.jsonLater
	if att.Tell {
		started = out.json
	}
	if started(guest.FrameStarted, guest.Started{PID: c.pid, Stdin: c.fed}) != nil {
		c.feeding.Unlock()
		return
	}
	if c.stdin != nil {
		// A program that waits for its output to be read does not read its input.
		// When this session has broken, the next one must not wait for both.
		context.AfterFunc(r.Context(), func() { _ = c.stdin.SetWriteDeadline(time.Unix(1, 0)) })
		go func() {
			defer c.feeding.Unlock()
			feed(r.Context(), in, c)
		}()
	} else {
		c.feeding.Unlock()
	}
	d.deliver(r, c, att, out)
}

// feed gives a command its input. A program that does not read it, or ends
// before the end of it, is no error. Caller holds c.feeding: the stream of a
// session that broke must be done before the next one says where it goes on.
func feed(ctx context.Context, in *guest.FrameReader, c *command) {
	for {
		t, p, err := in.Next()
		if err != nil {
			return // the session broke: the command goes on, its input pauses
		}
		switch t {
		case guest.FrameStdin:
			for len(p) > 0 {
				n, err := c.stdin.Write(p)
				c.fed += int64(n)
				p = p[n:]
				if errors.Is(err, os.ErrDeadlineExceeded) && ctx.Err() == nil {
					err = c.stdin.SetWriteDeadline(time.Time{}) // it was another session's
				}
				if err != nil {
					return
				}
			}
		case guest.FrameEOF:
			_ = c.stdin.Close()
			return
		}
	}
}

// deliver sends a command's output and result to the reader.
func (d *daemon) deliver(r *http.Request, c *command, att guest.Attach, out *frameWriter) {
	gone := func() bool { return r.Context().Err() != nil }
	defer context.AfterFunc(r.Context(), func() {
		c.stdout.wake()
		c.stderr.wake()
	})()
	var copies sync.WaitGroup
	if att.Tell {
		copies.Go(func() {
			select {
			case <-c.ran:
				_ = out.frame(guest.FrameEnded, nil) // what follows shows a broken session
			case <-r.Context().Done():
			}
		})
	}
	var lost [2]bool
	copies.Go(func() { lost[0] = !out.copy(c.stdout, att.StdoutFrom, guest.FrameStdout, gone) })
	lost[1] = !out.copy(c.stderr, att.StderrFrom, guest.FrameStderr, gone)
	copies.Wait()
	if gone() {
		return
	}
	<-c.done
	// The last frame leaves with the end of the answer, which follows at once.
	if lost[0] || lost[1] {
		_ = out.jsonLater(guest.FrameFault, guest.ToWire(fault.Errorf(fault.Unavailable, "output before the given offset is no longer kept")))
		return
	}
	var err error
	if c.fault != nil {
		err = out.jsonLater(guest.FrameFault, guest.ToWire(c.fault))
	} else {
		err = out.jsonLater(guest.FrameResult, c.result)
	}
	if err == nil {
		d.settle(c)
	}
}

// frameWriter writes frames of several goroutines to one answer.
type frameWriter struct {
	mu sync.Mutex
	w  io.Writer
	rc *http.ResponseController
}

func (f *frameWriter) frame(t guest.FrameType, p []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := guest.WriteFrame(f.w, t, p); err != nil {
		return err
	}
	return f.rc.Flush()
}

func (f *frameWriter) json(t guest.FrameType, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return f.frame(t, b)
}

// jsonLater writes a frame that leaves with the next one, or with the end of the
// answer.
func (f *frameWriter) jsonLater(t guest.FrameType, v any) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return guest.WriteJSON(f.w, t, v)
}

// copy sends a stream from an offset to its end; false means that it could not.
func (f *frameWriter) copy(s *stream, from int64, t guest.FrameType, gone func() bool) bool {
	buf := make([]byte, 64<<10)
	for {
		n, end, ok := s.read(buf, from, gone)
		if !ok || end {
			return ok
		}
		if f.frame(t, buf[:n]) != nil {
			return false
		}
		from += int64(n)
	}
}

func (d *daemon) kill(w http.ResponseWriter, r *http.Request) {
	key := r.URL.Query().Get("key")
	d.mu.Lock()
	c, ok := d.commands[key]
	d.mu.Unlock()
	if !ok {
		guest.WriteFault(w, fault.Errorf(fault.NotFound, "no command with key %s", key))
		return
	}
	select {
	case <-c.done:
	default:
		c.end(guest.Killed)
	}
	w.WriteHeader(http.StatusNoContent)
}
