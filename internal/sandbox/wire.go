package sandbox

import (
	"context"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"assay/internal/fault"
)

// Passer is what a Machine can be besides, when the host's open files can be
// handed to its guestd.
type Passer interface {
	// Pass hands files to guestd under a name, for an exec with ExecSpec.Wire,
	// and returns when guestd has them: the first becomes the program's stdin,
	// the second its stdout. The caller keeps its own copies. Do not take a
	// snapshot of the machine while an exec holds such files.
	Pass(ctx context.Context, name string, files ...*os.File) error
}

// Wire is two pipes between two sandboxes, a and b in the order that they were
// given to Connect: what an exec in the one writes to stdout, the one in the
// other reads on stdin, with nobody in between.
//
// The host keeps all four ends open until it is told otherwise. So the end of
// one program is not seen by the other before the host has heard of it, and who
// ended first is certain: the one whose Exec returned first.
type Wire struct {
	// Name is what ExecSpec.Wire is in both sandboxes.
	Name string

	mu   sync.Mutex
	a, b []*os.File // the host's copies of each side's stdin and stdout

	stop   chan struct{} // closed by Close
	closed sync.Once
	drains sync.WaitGroup
}

// passWait bounds the handing over of one side's ends.
const passWait = 5 * time.Second

// Connect makes a wire between two sandboxes. It serves one exec in each, to be
// started soon: a machine drops ends that no exec took within a minute, and all
// that wait when a snapshot or fork of it is made. While an exec holds a wire,
// snapshots and forks of its sandbox are refused (fault.Conflict).
//
// Close the wire. Errors: fault.Unsupported when the driver cannot,
// fault.Invalid for a sandbox and itself, fault.Conflict for one that is paused
// or has ended, fault.Exhausted when the host has no descriptors left,
// fault.Unavailable when a machine did not take its ends.
func (m *Manager) Connect(ctx context.Context, a, b *Sandbox) (*Wire, error) {
	if a == b {
		return nil, fault.Errorf(fault.Invalid, "a sandbox cannot be connected with itself")
	}
	ctx, leave, err := m.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	first, second := a, b
	if first.info.ID > second.info.ID { // everybody waits in the same order
		first, second = second, first
	}
	for _, s := range []*Sandbox{first, second} {
		end, err := s.alone(ctx, "connect", false) // not during a snapshot
		if err != nil {
			return nil, err
		}
		defer end()
	}
	w, err := newWire()
	if err != nil {
		return nil, err
	}
	for _, side := range []struct {
		s     *Sandbox
		files []*os.File
	}{{a, w.a}, {b, w.b}} {
		if err := side.s.pass(ctx, w.Name, side.files); err != nil {
			w.Close()
			return nil, err
		}
	}
	for _, s := range []*Sandbox{a, b} {
		s.events.add(Event{Kind: "connected", Detail: map[string]any{"wire": w.Name, "a": a.info.ID, "b": b.info.ID}})
	}
	return w, nil
}

// newWire makes the pipes. They block, as a program expects of its stdin.
func newWire() (*Wire, error) {
	var fds [4]int
	for i := 0; i < 4; i += 2 {
		if err := unix.Pipe2(fds[i:i+2], unix.O_CLOEXEC); err != nil {
			for _, fd := range fds[:i] {
				_ = unix.Close(fd)
			}
			return nil, fault.Errorf(fault.Exhausted, "connect sandboxes: make pipe: %w", err)
		}
	}
	f := func(i int) *os.File { return os.NewFile(uintptr(fds[i]), "wire") }
	toA, fromB, toB, fromA := f(0), f(1), f(2), f(3)
	return &Wire{Name: newID(), a: []*os.File{toA, fromA}, b: []*os.File{toB, fromB}, stop: make(chan struct{})}, nil
}

func (s *Sandbox) pass(ctx context.Context, name string, files []*os.File) error {
	p, ok := s.body.machine.(Passer)
	if !ok {
		return fault.Errorf(fault.Unsupported, "driver %s cannot connect sandboxes", s.info.Driver).
			WithHint("use the gvisor driver for programs that talk with each other")
	}
	ctx, cancel := context.WithTimeoutCause(ctx, passWait,
		fault.Errorf(fault.Unavailable, "guestd of sandbox %s did not take the ends of a wire within %v", s.info.ID, passWait))
	defer cancel()
	return s.m.explain(s.body, p.Pass(ctx, name, files...))
}

// ReleaseA lets go of the host's copies of a's ends. Call it when a's exec has
// ended: b then reads the end of its input, after what a wrote, and can write no
// more (EPIPE, SIGPIPE). It is idempotent.
func (w *Wire) ReleaseA() { w.release(&w.a) }

// ReleaseB is ReleaseA for b.
func (w *Wire) ReleaseB() { w.release(&w.b) }

// DrainA is ReleaseA, except that b can write on, to nobody: what it writes is
// read away until it ends or the wire is closed. A program is then never ended
// by a broken pipe that it is not to blame for.
func (w *Wire) DrainA() { w.drain(&w.a) }

// DrainB is DrainA for b.
func (w *Wire) DrainB() { w.drain(&w.b) }

func (w *Wire) release(ends *[]*os.File) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, f := range *ends {
		_ = f.Close()
	}
	*ends = nil
}

func (w *Wire) drain(ends *[]*os.File) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(*ends) != 2 {
		return
	}
	in, out := (*ends)[0], (*ends)[1]
	*ends = nil
	_ = out.Close()
	w.drains.Go(func() {
		defer in.Close()
		buf := make([]byte, 64<<10)
		for w.readAway(in, buf) {
		}
	})
}

// drainPoll is how long Close may have to wait for a drain.
const drainPoll = 20 * time.Millisecond

// readAway reads some bytes, and reports whether there may be more. The machine
// may have made the pipe a non-blocking one, so it waits by itself.
func (w *Wire) readAway(in *os.File, buf []byte) bool {
	select {
	case <-w.stop:
		return false
	default:
	}
	fd := int(in.Fd())
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(drainPoll/time.Millisecond))
	if err != nil && err != unix.EINTR {
		return false
	}
	if n <= 0 {
		return true
	}
	n, err = unix.Read(fd, buf)
	return n > 0 || err == unix.EINTR || err == unix.EAGAIN
}

// Close lets go of all. It is idempotent.
func (w *Wire) Close() {
	w.closed.Do(func() { close(w.stop) })
	w.ReleaseA()
	w.ReleaseB()
	w.drains.Wait()
}

// holdWire keeps snapshots away while an exec holds a wire. release says
// whether the end of the exec is known: otherwise they stay away for good, for
// a machine does not survive one.
func (s *Sandbox) holdWire(ctx context.Context) (release func(known bool), err error) {
	end, err := s.alone(ctx, "exec", false)
	if err != nil {
		return nil, err
	}
	defer end()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wired++
	return func(known bool) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if known {
			s.wired--
		}
	}, nil
}

// unwired refuses what cannot be done while an exec holds a wire.
func (s *Sandbox) unwired(what string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.wired > 0 {
		return fault.Errorf(fault.Conflict, "%s: an exec in sandbox %s is connected with another", what, s.info.ID).
			WithHint("wait for its end")
	}
	return nil
}

// notStarted reports whether guestd refused an exec: then it holds nothing.
func notStarted(err error) bool {
	switch fault.KindOf(err) {
	case fault.Invalid, fault.NotFound, fault.Exhausted:
		return true
	default:
		return false
	}
}
