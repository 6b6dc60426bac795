package qemu

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"assay/internal/fault"
	"assay/internal/guest"
	"assay/internal/sandbox"
	"assay/internal/sandbox/cgroup"
)

// machine is one QEMU process and what belongs to it.
type machine struct {
	d      *Driver
	cfg    sandbox.MachineConfig
	group  *cgroup.Group
	memory *template
	link   net.Conn
	qmp    *monitor
	said   *console
	cmd    *exec.Cmd

	ended    chan struct{}
	end      sandbox.Cause // set before ended is closed
	mu       sync.Mutex
	killed   bool
	destroy  sync.Once
	destroyE error
}

var (
	_ sandbox.Machine = (*machine)(nil)
	_ sandbox.Pinner  = (*machine)(nil)
)

// Boot makes a machine from nothing.
func (d *Driver) Boot(ctx context.Context, cfg sandbox.MachineConfig) (sandbox.Machine, error) {
	empty, err := newTemplate(memorySize(cfg.Shape))
	if err != nil {
		return nil, err
	}
	memory := &template{file: empty, users: 1}
	m, err := d.make(ctx, cfg, memory, nil)
	if err != nil {
		return nil, err
	}
	return m, nil
}

// Restore makes a machine from a snapshot.
func (d *Driver) Restore(ctx context.Context, cfg sandbox.MachineConfig, snapshotDir string) (sandbox.Machine, error) {
	state, err := openState(snapshotDir)
	if err != nil {
		return nil, err
	}
	defer state.file.Close()
	if size := memorySize(cfg.Shape); state.meta.Memory != size || state.meta.Identity != d.identity || state.meta.VCPUs != cfg.Shape.VCPUs {
		return nil, fault.Errorf(fault.Invalid, "the snapshot is one of %q with %d vCPUs and %d bytes, this machine is to be %q with %d and %d",
			state.meta.Identity, state.meta.VCPUs, state.meta.Memory, d.identity, cfg.Shape.VCPUs, size).
			WithHint("restore it on a host of the same kind, or make a new one here")
	}
	memory, err := d.templates.use(ctx, snapshotDir, state.meta)
	if err != nil {
		return nil, err
	}
	m, err := d.make(ctx, cfg, memory, state.file)
	if err != nil {
		return nil, err
	}
	return m, nil
}

// make starts QEMU with a memory, which it takes over, and the guest in it:
// from nothing, or from the state of its devices.
func (d *Driver) make(ctx context.Context, cfg sandbox.MachineConfig, memory *template, state *os.File) (_ *machine, err error) {
	m := &machine{d: d, cfg: cfg, memory: memory, said: &console{}, ended: make(chan struct{})}
	defer func() {
		if err != nil {
			m.undo()
		}
	}()
	if cfg.NetNS != "" && cfg.Tap == nil {
		return nil, fault.Errorf(fault.Unsupported, "machines of driver %s take their network as frames, not as a namespace", d.Name()).
			WithHint("use driver gvisor for a sandbox that may reach something")
	}
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	if cfg.Persistent {
		return nil, fault.Errorf(fault.Unsupported, "machines of driver qemu end with their process")
	}
	m.group, err = d.tree.Make(cfg.ID, cgroup.Limits{
		Memory:    memorySize(cfg.Shape) + overhead,
		Processes: hostProcesses + cfg.Shape.VCPUs,
	})
	if err != nil {
		return nil, fault.Errorf(fault.Internal, "machine %s: %w", cfg.ID, err)
	}
	qmp, err := m.start(state != nil)
	if err != nil {
		return nil, fault.Errorf(fault.Internal, "start machine %s: %w", cfg.ID, err)
	}
	if m.qmp, err = openMonitor(ctx, qmp); err == nil && state != nil {
		err = m.load(ctx, state)
	}
	if err == nil {
		err = m.qmp.run(ctx, "cont", nil, nil)
	}
	if err != nil {
		return nil, m.explain(fmt.Errorf("start machine %s: %w", cfg.ID, err))
	}
	return m, nil
}

// explain adds what QEMU and the guest's kernel said.
func (m *machine) explain(err error) error {
	said := m.said.String()
	if said == "" {
		return err
	}
	return fault.Errorf(fault.KindOf(err), "%w; the machine said: %s", err, said)
}

// start starts the process, standing still. The kernel ends it when the thread
// that started it ends: any thread of Go's, which live as long as this process,
// unless a goroutine ends that has locked its thread. Nobody here may do that.
func (m *machine) start(incoming bool) (*net.UnixConn, error) {
	var files fileList
	defer files.close()
	link, theirLink, err := socketPair()
	if err != nil {
		return nil, err
	}
	m.link = link
	qmp, theirQMP, err := socketPair()
	if err != nil {
		_ = theirLink.Close()
		return nil, err
	}
	image, err := os.Open(m.cfg.Image)
	if err != nil {
		_ = errors.Join(theirLink.Close(), theirQMP.Close(), qmp.Close())
		return nil, err
	}
	args := commandLine{d: m.d, shape: m.cfg.Shape, link: files.add(theirLink), qmp: files.add(theirQMP), image: files.add(image)}
	args.memory = files.addKept(m.memory.file)
	if m.cfg.Tap != nil {
		args.tap = files.addKept(m.cfg.Tap)
	}
	if !incoming {
		for path, fd := range map[string]*int{m.d.kernel.image: &args.kernel, m.d.initramfs: &args.initramfs} {
			f, err := os.Open(path)
			if err != nil {
				_ = qmp.Close()
				return nil, err
			}
			*fd = files.add(f)
		}
	}
	root := filepath.Join(m.cfg.Dir, boxDir)
	if err := os.Mkdir(root, 0o755); err != nil {
		_ = qmp.Close()
		return nil, err
	}
	boxed, err := m.box(root).Args(m.d.opts.QEMU, args.list()...)
	if err != nil {
		_ = qmp.Close()
		return nil, err
	}
	m.cmd = exec.Command(m.d.opts.BoxBinary, boxed...)
	m.cmd.ExtraFiles = files.list
	m.cmd.Stdout, m.cmd.Stderr = m.said, m.said
	m.cmd.Env = []string{"PATH=/usr/bin:/bin"}
	m.cmd.Dir = "/"
	m.cmd.SysProcAttr = &syscall.SysProcAttr{
		Pdeathsig:  syscall.SIGKILL,
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS | syscall.CLONE_NEWNET,
	}
	if err := m.cmd.Start(); err != nil {
		m.cmd = nil
		_ = qmp.Close()
		return nil, err
	}
	go m.watch()
	return qmp, nil
}

// load gives the guest the state of its devices and waits until it is there.
func (m *machine) load(ctx context.Context, state *os.File) error {
	if err := m.qmp.run(ctx, "getfd", map[string]any{"fdname": "state"}, nil, state); err != nil {
		return err
	}
	if err := m.qmp.run(ctx, "migrate-incoming", map[string]any{"uri": "fd:state"}, nil); err != nil {
		return err
	}
	for {
		status, err := m.qmp.status(ctx)
		if err != nil {
			return err
		}
		switch status {
		case "inmigrate":
		case "paused", "prelaunch":
			return nil
		default:
			return fault.Errorf(fault.Internal, "QEMU is %s and not paused after loading a state", status)
		}
		select {
		case <-time.After(loadPoll):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// loadPoll is how often QEMU is asked whether it has loaded a state, which
// takes some tens of milliseconds.
const loadPoll = 2 * time.Millisecond

func socketPair() (*net.UnixConn, *os.File, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "machine"), os.NewFile(uintptr(fds[1]), "machine")
	defer ours.Close()
	conn, err := net.FileConn(ours)
	if err != nil {
		_ = theirs.Close()
		return nil, nil, err
	}
	return conn.(*net.UnixConn), theirs, nil // the pair is AF_UNIX
}

// undo removes what a failed make left.
func (m *machine) undo() {
	ctx, cancel := context.WithTimeout(context.Background(), undoTimeout)
	defer cancel()
	_ = m.finish(ctx) // the journal knows of what this leaves
}

const undoTimeout = 20 * time.Second

// watch waits for QEMU to end, by whatever cause.
func (m *machine) watch() {
	if err := m.cmd.Wait(); err != nil {
		fmt.Fprintf(m.said, "QEMU: %v\n", err)
	}
	m.mu.Lock()
	switch {
	case m.killed:
		m.end = sandbox.Cause(guest.Killed)
	case m.group.OutOfMemory():
		m.end = sandbox.Cause(guest.MemoryLimit)
	default:
		m.end = sandbox.Cause(guest.MachineLost)
	}
	m.mu.Unlock()
	close(m.ended)
}

func (m *machine) Link() net.Conn         { return m.link }
func (m *machine) Ended() <-chan struct{} { return m.ended }

func (m *machine) End() sandbox.Cause {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.end
}

func (m *machine) Pause(ctx context.Context) error {
	if err := m.qmp.run(ctx, "stop", nil, nil); err != nil {
		return fault.Errorf(fault.Conflict, "pause machine %s: %w", m.cfg.ID, err)
	}
	return nil
}

func (m *machine) Resume(ctx context.Context) error {
	if err := m.qmp.run(ctx, "cont", nil, nil); err != nil {
		return fault.Errorf(fault.Conflict, "resume machine %s: %w", m.cfg.ID, err)
	}
	return nil
}

func (m *machine) Usage() (sandbox.HostUsage, error) {
	u, err := m.group.Usage()
	if err != nil {
		return sandbox.HostUsage{}, fmt.Errorf("machine %s: %w", m.cfg.ID, err)
	}
	return sandbox.HostUsage(u), nil
}

// Pin binds QEMU's threads.
func (m *machine) Pin(cores []int) error {
	if err := m.group.Pin(cores); err != nil {
		return fmt.Errorf("machine %s: %w", m.cfg.ID, err)
	}
	return nil
}

func (m *machine) Processes() []int { return m.group.PIDs() }

// Destroy kills QEMU and everything in the machine's cgroups.
func (m *machine) Destroy(ctx context.Context) error {
	m.destroy.Do(func() {
		m.mu.Lock()
		select {
		case <-m.ended:
		default:
			m.killed = true
		}
		m.mu.Unlock()
		if err := m.finish(ctx); err != nil {
			m.destroyE = fault.Errorf(fault.Internal, "destroy machine %s: %w", m.cfg.ID, err)
		}
	})
	return m.destroyE
}

// finish ends the process and lets everything go, of a machine in any state.
func (m *machine) finish(ctx context.Context) (err error) {
	if m.cmd != nil {
		_ = m.cmd.Process.Kill() // ended already is as good
		<-m.ended
	}
	if m.group != nil {
		err = m.group.Remove(ctx)
	}
	if m.qmp != nil {
		m.qmp.close()
	}
	if m.link != nil {
		_ = m.link.Close()
	}
	m.d.templates.release(m.memory)
	return errors.Join(err, removeFiles(m.cfg.Dir))
}
