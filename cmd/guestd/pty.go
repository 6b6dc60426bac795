package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"assay/internal/fault"
	"assay/internal/guest"
)

// terminalEnv is the environment of a terminal that does not bring its own.
func terminalEnv(shell string) []string {
	env := slices.DeleteFunc(slices.Clone(guest.DefaultEnv), func(kv string) bool { return strings.HasPrefix(kv, "TERM=") })
	return append(env, "TERM=xterm-256color", "SHELL="+shell)
}

// shells are what a terminal without a command starts, the first there is.
var shells = []string{"/bin/bash", "/bin/sh"}

// terminal is a command with a terminal, from start until another terminal
// takes its place.
type terminal struct {
	id     string
	cmd    *command
	master *os.File

	// mu guards what follows; changed tells of new output, its end, and readers
	// that moved.
	mu      sync.Mutex
	changed sync.Cond
	buf     []byte // the last bytes of the output, ending at offset end
	end     int64
	closed  bool
	readers map[*int64]bool // where each attached reader is
	writers map[string]*writer

	keys chan []byte // input on its way to the terminal
}

// terminals are the terminals of a machine by ID.
type terminals struct {
	mu   sync.Mutex
	byID map[string]*terminal
}

func (ts *terminals) find(id string) (*terminal, error) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if t, ok := ts.byID[id]; ok {
		return t, nil
	}
	return nil, fault.Errorf(fault.NotFound, "no terminal with ID %.40q", id)
}

// get finds a terminal or starts it.
func (ts *terminals) get(d *daemon, att guest.TerminalAttach) (*terminal, error) {
	if att.Only {
		return ts.find(att.Spec.ID)
	}
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if t, ok := ts.byID[att.Spec.ID]; ok {
		return t, nil
	}
	if len(ts.byID) >= guest.MaxTerminals && !ts.forgetEnded() {
		return nil, fault.Errorf(fault.Exhausted, "%d terminals are open", len(ts.byID))
	}
	t, err := d.startTerminal(att.Spec)
	if err != nil {
		return nil, err
	}
	if ts.byID == nil {
		ts.byID = map[string]*terminal{}
	}
	ts.byID[t.id] = t
	return t, nil
}

// forgetEnded forgets the terminal that ended first. Caller holds mu.
func (ts *terminals) forgetEnded() bool {
	var oldest *terminal
	for _, t := range ts.byID {
		select {
		case <-t.cmd.done:
			if oldest == nil || t.cmd.started.Before(oldest.cmd.started) {
				oldest = t
			}
		default:
		}
	}
	if oldest == nil {
		return false
	}
	delete(ts.byID, oldest.id)
	return true
}

// openPTY opens a new pseudo-terminal. The master does not block.
func openPTY(f *files) (master, slave *os.File, err error) {
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, fault.Errorf(fault.Exhausted, "open terminal: %w", err)
	}
	if err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		_ = unix.Close(fd)
		return nil, nil, fmt.Errorf("unlock terminal: %w", err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		_ = unix.Close(fd)
		return nil, nil, fmt.Errorf("get number of terminal: %w", err)
	}
	master = os.NewFile(uintptr(fd), "terminal")
	f.add(master)
	slave, err = os.OpenFile("/dev/pts/"+strconv.Itoa(n), unix.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("open terminal's other side: %w", err)
	}
	f.add(slave)
	return master, slave, nil
}

// startTerminal starts the command of a spec in a new terminal.
func (d *daemon) startTerminal(spec guest.TerminalSpec) (*terminal, error) {
	if spec.ID == "" {
		return nil, fault.Errorf(fault.Invalid, "terminal has no ID")
	}
	shell := shells[len(shells)-1]
	for _, sh := range shells {
		if _, err := os.Stat(sh); err == nil {
			shell = sh
			break
		}
	}
	if spec.Env == nil {
		spec.Env = terminalEnv(shell)
	}
	if len(spec.Argv) == 0 {
		spec.Argv = []string{shell, "-l"}
	}
	exec := spec.Exec()
	if err := exec.Check(); err != nil {
		return nil, err
	}
	plan, err := d.plan(exec)
	if err != nil {
		return nil, err
	}
	plan.tty = true
	var f files
	defer f.closeAll()
	master, slave, err := openPTY(&f)
	if err != nil {
		return nil, err
	}
	// The program may want to open its terminal by name.
	_ = slave.Chown(int(plan.uid), int(plan.gid))
	_ = slave.Chmod(0o620)
	if err := resize(master, spec.Size); err != nil {
		return nil, err
	}
	c := &command{spec: exec, machineMemory: d.memory, done: make(chan struct{}), stdout: newStream(0, false, nil), stderr: newStream(0, false, nil)}
	if c.group, err = d.groups.take(d.processLimit(exec.Limits.Processes), d.memoryLimit(exec.Limits.Memory)); err != nil {
		return nil, err
	}
	c.diskBefore, c.forkRSS = diskUsed("", nil), d.ownRSS()
	p, err := d.launch(plan, c.group, [3]int{int(slave.Fd()), int(slave.Fd()), int(slave.Fd())})
	if err != nil {
		_ = c.group.remove()
		return nil, err
	}
	c.pid, c.started = p.pid, p.started
	f.keep(master)
	t := &terminal{id: spec.ID, cmd: c, master: master, readers: map[*int64]bool{}, writers: map[string]*writer{}, keys: make(chan []byte)}
	t.changed.L = &t.mu
	go t.typing()
	go d.followTerminal(t, p)
	return t, nil
}

// followTerminal watches the command to its end and files the result.
func (d *daemon) followTerminal(t *terminal, p *process) {
	c := t.cmd
	pumped := make(chan struct{})
	go func() {
		defer close(pumped)
		t.pump()
	}()
	watched, stop := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(watched)
		c.watch(stop)
	}()
	end, err := p.wait(c)
	wall := time.Since(c.started)
	close(stop)
	<-watched
	// Without its terminal nothing of the command can go on; and the output ends
	// when the last process lets go of the terminal.
	c.group.kill()
	<-pumped
	c.fault = err
	if p.failure != nil && err == nil {
		c.notStarted(p.failure)
		t.append(c.stderr.buf)
	}
	c.stdout.total = t.end
	c.stdout.start = t.end // nothing of it was dropped
	c.stdout.end()
	c.stderr.end()
	c.finish(end, p.failure, wall, nil)
	_ = t.master.Close()
	close(c.done)
	t.mu.Lock()
	t.closed = true
	t.changed.Broadcast()
	t.mu.Unlock()
	go d.retire(c)
}

// pump reads the terminal's output until no process has it open any more.
func (t *terminal) pump() {
	buf := make([]byte, 32<<10)
	for {
		n, err := t.master.Read(buf)
		if n > 0 {
			t.append(buf[:n])
		}
		if err != nil {
			return // EIO: the other side is closed
		}
	}
}

// append takes output. While somebody is attached it waits until the fastest
// reader has room for it; without a reader the oldest output gives way.
func (t *terminal) append(p []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for t.behind()+int64(len(p)) > guest.Scrollback {
		t.changed.Wait()
	}
	t.buf = append(t.buf, p...)
	t.end += int64(len(p))
	// In large steps: copying is not free.
	if extra := len(t.buf) - guest.Scrollback; extra >= guest.Scrollback/2 {
		t.buf = t.buf[:copy(t.buf, t.buf[extra:])]
	}
	t.changed.Broadcast()
}

// behind is what the fastest reader has not taken, 0 without one. Caller holds
// mu.
func (t *terminal) behind() int64 {
	least := int64(-1)
	for at := range t.readers {
		if b := t.end - *at; least < 0 || b < least {
			least = b
		}
	}
	return max(least, 0)
}

// kept is where the kept output begins. Caller holds mu.
func (t *terminal) kept() int64 {
	return t.end - int64(min(len(t.buf), guest.Scrollback))
}

// read copies output at *at, or behind it when that is no longer kept, and
// waits for some. It gives 0 at the end, and when ctx ends.
func (t *terminal) read(ctx context.Context, p []byte, at *int64) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	for ctx.Err() == nil {
		*at = min(max(*at, t.kept()), t.end)
		if have := t.end - *at; have > 0 {
			n := copy(p, t.buf[int64(len(t.buf))-have:])
			return n
		}
		if t.closed {
			return 0
		}
		t.changed.Wait()
	}
	return 0
}

// attach counts a reader in or out.
func (t *terminal) attach(at *int64, in bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if in {
		*at = min(max(*at, t.kept()), t.end)
		t.readers[at] = true
	} else {
		delete(t.readers, at)
	}
	t.changed.Broadcast()
}

// moved says that a reader has sent n bytes.
func (t *terminal) moved(at *int64, n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	*at += int64(n)
	t.changed.Broadcast()
}
