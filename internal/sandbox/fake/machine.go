package fake

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"assay/internal/fault"
	"assay/internal/guest"
	"assay/internal/sandbox"
)

// state is all that a snapshot freezes. It is guarded by its machine's mu.
type state struct {
	files     map[string][]byte
	left      map[string]bool // traces outside of files: IPC, sockets
	commands  map[string]*command
	lastPID   int
	hostname  string
	machineID string
	// generation is the Identity's last set.
	generation int64
}

func newState() *state {
	return &state{
		files: map[string][]byte{"/etc/machine-id": []byte("0\n")}, left: map[string]bool{},
		commands: map[string]*command{}, lastPID: 1, hostname: "assay",
	}
}

// clone copies everything; the copy's processes do not run yet.
func (s *state) clone() *state {
	c := *s
	c.files, c.left = cloneFiles(s.files), cloneSet(s.left)
	c.commands = map[string]*command{}
	for key, cmd := range s.commands {
		c.commands[key] = cmd.clone()
	}
	return &c
}

// machine is one fake machine. It implements sandbox.Machine.
type machine struct {
	d            *Driver
	cfg          sandbox.MachineConfig
	link, inside net.Conn
	ended        chan struct{}
	running      sync.WaitGroup // everything that runs for the machine
	destroy      sync.Once

	mu      sync.Mutex
	changed sync.Cond // on mu: anything below, or time, has changed
	*state
	session guest.Session
	paused  bool
	dead    bool
	end     sandbox.Cause
	cpu     time.Duration
	peak    int64
}

var (
	_ sandbox.Machine  = (*machine)(nil)
	_ sandbox.Detacher = (*machine)(nil)
)

func newMachine(d *Driver, cfg sandbox.MachineConfig, st *state) *machine {
	m := &machine{d: d, cfg: cfg, ended: make(chan struct{}), state: st}
	m.changed.L = &m.mu
	m.link, m.inside = net.Pipe()
	return m
}

// start lets guestd and the processes of a snapshot run.
func (m *machine) start(silent bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range m.commands {
		c.resume(m)
	}
	m.running.Go(func() {
		if silent {
			m.swallow()
			return
		}
		m.guestd()
	})
	go func() {
		m.running.Wait()
		m.d.mu.Lock()
		if m.d.machines[m.cfg.ID] == m {
			delete(m.d.machines, m.cfg.ID)
		}
		m.d.mu.Unlock()
		close(m.ended)
	}()
}

// swallow takes what the host says and answers nothing.
func (m *machine) swallow() {
	buf := make([]byte, 4<<10)
	for {
		if _, err := m.inside.Read(buf); err != nil {
			return
		}
	}
}

// wake lets everybody who waits look again. It is also what timers call.
func (m *machine) wake() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.changed.Broadcast()
}

// die ends the machine; the first cause stays.
func (m *machine) die(cause sandbox.Cause) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dieLocked(cause)
}

func (m *machine) dieLocked(cause sandbox.Cause) {
	if m.dead {
		return
	}
	m.dead, m.end = true, cause
	m.changed.Broadcast()
	_ = m.inside.Close()
}

func (m *machine) Link() net.Conn         { return m.link }
func (m *machine) Ended() <-chan struct{} { return m.ended }

// Processes is empty: a fake machine has none.
func (m *machine) Processes() []int { return nil }

func (m *machine) End() sandbox.Cause {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.end
}

func (m *machine) Snapshot(ctx context.Context, dir string) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	m.d.mu.Lock()
	f := m.d.faults.Snapshot
	m.d.mu.Unlock()
	if f != nil {
		if err := f(m.cfg.ID); err != nil {
			return err
		}
	}
	m.mu.Lock()
	if err := m.gone(); err != nil {
		m.mu.Unlock()
		return err
	}
	st := m.clone()
	m.mu.Unlock()
	return m.d.keep(st, dir)
}

// gone is the error of a call on a machine that has ended. Caller holds mu.
func (m *machine) gone() error {
	if m.dead {
		return fault.Errorf(fault.Conflict, "machine %s has ended", m.cfg.ID)
	}
	return nil
}

func (m *machine) Pause(context.Context) error  { return m.setPaused(true) }
func (m *machine) Resume(context.Context) error { return m.setPaused(false) }

func (m *machine) setPaused(paused bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.gone(); err != nil {
		return err
	}
	if m.paused == paused {
		return fault.Errorf(fault.Conflict, "machine %s: paused is %v already", m.cfg.ID, paused)
	}
	m.paused = paused
	m.changed.Broadcast()
	return nil
}

// ownMemory is what a machine holds before any program runs, in bytes.
const ownMemory = 8 << 20

// memory is what the machine holds now. Caller holds mu.
func (m *machine) memory() int64 {
	sum := int64(ownMemory) + m.disk()
	for _, c := range m.commands {
		sum += c.memory()
	}
	return sum
}

// disk is what lies in files. Caller holds mu.
func (m *machine) disk() int64 {
	var sum int64
	for _, b := range m.files {
		sum += int64(len(b))
	}
	for _, c := range m.commands {
		for _, b := range c.files {
			sum += int64(len(b))
		}
	}
	return sum
}

// account notes the machine's peak and ends it when it holds more than its
// shape allows, as the host's wall would. Caller holds mu.
func (m *machine) account() {
	now := m.memory()
	m.peak = max(m.peak, now)
	if limit := m.cfg.Shape.Memory + m.cfg.Shape.Disk; limit > 0 && now > limit+ownMemory {
		m.dieLocked(guest.MemoryLimit)
	}
}

func (m *machine) Usage() (sandbox.HostUsage, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.dead {
		return sandbox.HostUsage{}, fault.Errorf(fault.Unavailable, "machine %s has ended", m.cfg.ID)
	}
	now := m.memory()
	m.peak = max(m.peak, now)
	return sandbox.HostUsage{CPU: m.cpu, Memory: now, MemoryPeak: m.peak}, nil
}

// Detach leaves the machine as it is: the next manager of the same process
// adopts it.
func (m *machine) Detach() error {
	if !m.cfg.Persistent {
		return fault.Errorf(fault.Conflict, "machine %s ends with its process", m.cfg.ID)
	}
	return nil
}

func (m *machine) Destroy(context.Context) error {
	m.destroy.Do(func() {
		m.die(guest.Killed)
		<-m.ended
		_ = m.link.Close()
		_ = os.Remove(filepath.Join(m.cfg.Dir, markName)) // Reclaim may have been first
	})
	<-m.ended
	return nil
}
