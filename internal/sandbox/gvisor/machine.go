package gvisor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/state/statefile"
	"gvisor.dev/gvisor/runsc/config"
	"gvisor.dev/gvisor/runsc/container"
	gsandbox "gvisor.dev/gvisor/runsc/sandbox"

	"assay/internal/fault"
	"assay/internal/guest"
	"assay/internal/sandbox"
	"assay/internal/sandbox/cgroup"
	"assay/internal/sandbox/gvisor/bootfile"
)

// machine is one boot process and what belongs to it.
type machine struct {
	d     *Driver
	cfg   sandbox.MachineConfig
	conf  *config.Config
	group *cgroup.Group
	link  net.Conn
	wires *net.UnixConn
	// released is an event with which watch ends before the machine does; -1 for
	// a machine that cannot be given up.
	released int
	// passing is held while files are passed: an answer belongs to one call.
	passing sync.Mutex
	logs    *tail
	pidfd   int
	cont    *container.Container

	watched  chan struct{} // closed when watch has returned
	ended    chan struct{}
	end      sandbox.Cause // set before ended is closed
	mu       sync.Mutex    // guards the verbs below: one at a time
	killed   bool
	destroy  sync.Once
	destroyE error
}

var (
	_ sandbox.Machine  = (*machine)(nil)
	_ sandbox.Pinner   = (*machine)(nil)
	_ sandbox.Detacher = (*machine)(nil)
)

// make boots a machine, or restores it when snapshotDir is not empty.
func (d *Driver) make(ctx context.Context, cfg sandbox.MachineConfig, snapshotDir string) (_ *machine, err error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	conf, err := d.conf(cfg)
	if err != nil {
		return nil, err
	}
	m := newMachine(d, cfg, conf)
	if cfg.Persistent && !d.tree.Usable() {
		return nil, fault.Errorf(fault.Unsupported, "a persistent machine needs cgroups: without them nobody could end it after its process").
			WithHint("run as root on a host with cgroups, or create the sandbox without persistence")
	}
	m.group, err = d.tree.Make(cfg.ID, cgroup.Limits{
		Memory:    cfg.Shape.Memory + cfg.Shape.Disk + overhead,
		Processes: hostProcesses(cfg.Shape),
	})
	if err != nil {
		return nil, fault.Errorf(fault.Internal, "machine %s: %w", cfg.ID, err)
	}
	defer func() {
		if err != nil {
			m.undo()
		}
	}()
	bundle := filepath.Join(cfg.Dir, "bundle")
	spec, err := writeBundle(bundle, cfg, m.group, d.filter)
	if err != nil {
		return nil, fault.Errorf(fault.Internal, "machine %s: write bundle: %w", cfg.ID, err)
	}
	if m.logs, err = openTail(bootfile.LogPath(bundle)); err != nil {
		return nil, fault.Errorf(fault.Exhausted, "machine %s: open log: %w", cfg.ID, err)
	}
	pass, err := m.openSockets()
	defer closeAll(pass)
	if err != nil {
		return nil, fault.Errorf(fault.Exhausted, "machine %s: open link: %w", cfg.ID, err)
	}
	if err := m.start(ctx, conf, container.Args{
		ID: cfg.ID, Spec: spec, BundleDir: bundle, Attached: !cfg.Persistent, PassFiles: pass,
	}, snapshotDir); err != nil {
		return nil, fault.Errorf(fault.Internal, "start machine %s: %w%s%s", cfg.ID, err, m.lastStatus(), m.logs.suffix())
	}
	if err := m.follow(); err != nil {
		return nil, err
	}
	return m, nil
}

func newMachine(d *Driver, cfg sandbox.MachineConfig, conf *config.Config) *machine {
	return &machine{d: d, cfg: cfg, conf: conf, ended: make(chan struct{}), watched: make(chan struct{}), pidfd: -1, released: -1}
}

// start has the library start the boot process, and the guest in it. The kernel
// ends the boot process when the thread that started it ends: the library starts
// it on any thread of Go's, and Go keeps those as long as this process lives,
// unless a goroutine ends that has locked its thread. Nobody here may do that.
func (m *machine) start(ctx context.Context, conf *config.Config, args container.Args, snapshotDir string) (err error) {
	select {
	case m.d.starting <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-m.d.starting }()
	if m.cont, err = container.New(conf, args); err != nil {
		return err
	}
	if m.pidfd, err = unix.PidfdOpen(m.cont.SandboxPid(), 0); err != nil {
		return err
	}
	_ = slowMonitor(m.cont.SandboxPid())
	if snapshotDir == "" {
		return m.cont.Start(conf)
	}
	return m.cont.Restore(conf, snapshotDir, false /* direct */, false /* background */, nil)
}

// lastStatus says how the boot process ended, if it did by itself: a crash of
// gVisor, or its own system call filter (SIGSYS).
func (m *machine) lastStatus() string {
	if m.pidfd < 0 {
		return ""
	}
	fds := []unix.PollFd{{Fd: int32(m.pidfd), Events: unix.POLLIN}}
	if n, err := unix.Poll(fds, 100); n == 0 || err != nil {
		return ""
	}
	var status unix.WaitStatus
	if pid, err := unix.Wait4(m.cont.SandboxPid(), &status, unix.WNOHANG, nil); err != nil || pid == 0 {
		return ""
	}
	if status.Signaled() {
		return fmt.Sprintf("; the boot process was ended by %v", status.Signal())
	}
	return fmt.Sprintf("; the boot process ended with code %d", status.ExitStatus())
}

// undo removes what a failed make left.
func (m *machine) undo() {
	if m.cont != nil {
		_ = m.cont.Destroy() // the cgroup below takes what this leaves
	}
	ctx, cancel := context.WithTimeout(context.Background(), undoTimeout)
	defer cancel()
	_ = m.group.Remove(ctx)
	m.closeSockets()
	if m.logs != nil {
		m.logs.close()
	}
	m.closeFDs()
	_ = removeFiles(m.cfg.Dir)
}

func (m *machine) closeFDs() {
	for _, fd := range []int{m.pidfd, m.released} {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
}

const undoTimeout = 20 * time.Second

// openSockets makes the two socket pairs with guestd and gives what the boot
// process is started with: guestd's ends, and this process's own if the machine
// outlives it. The caller closes them, also after an error.
func (m *machine) openSockets() (pass map[int]*os.File, err error) {
	pass = map[int]*os.File{}
	if m.link, err = m.socketPair(unix.SOCK_STREAM, pass, guest.LinkFD, bootfile.KeptLink); err != nil {
		return pass, err
	}
	conn, err := m.socketPair(unix.SOCK_SEQPACKET, pass, guest.WiresFD, bootfile.KeptWires)
	if err == nil {
		m.wires = conn.(*net.UnixConn) // the pair is AF_UNIX
	}
	return pass, err
}

func (m *machine) socketPair(kind int, pass map[int]*os.File, theirs, kept int) (net.Conn, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, kind|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	ours := os.NewFile(uintptr(fds[0]), "guestd")
	pass[theirs] = os.NewFile(uintptr(fds[1]), "guestd")
	if m.cfg.Persistent {
		// As a file it is made now: one made of a socket that does not block would
		// make it block for us, too, when it is passed.
		fd, err := unix.FcntlInt(uintptr(fds[0]), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			return nil, errors.Join(err, ours.Close())
		}
		pass[kept] = os.NewFile(uintptr(fd), "guestd")
	}
	conn, err := net.FileConn(ours)
	return conn, errors.Join(err, ours.Close())
}

func closeAll(files map[int]*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}

func (m *machine) closeSockets() {
	if m.link != nil {
		_ = m.link.Close()
	}
	if m.wires != nil {
		_ = m.wires.Close()
	}
}

// writeBundle writes what the boot process reads.
func writeBundle(bundle string, cfg sandbox.MachineConfig, g *cgroup.Group, filter string) (*specs.Spec, error) {
	// gVisor wants a directory for the root, which the image then hides.
	if err := os.MkdirAll(filepath.Join(bundle, "rootfs"), 0o700); err != nil {
		return nil, err
	}
	spec := machineSpec(bundle, cfg)
	b, err := json.Marshal(spec)
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(bundle, "config.json"), b, 0o600); err != nil {
		return nil, err
	}
	return spec, bootfile.File{
		Procs: g.Procs(), Memory: cfg.Shape.Memory, CPUs: cfg.Shape.VCPUs, Filter: filter, Persistent: cfg.Persistent,
	}.Write(bundle)
}

// guestCaps are guestd's capabilities in the guest, where they reach nothing
// of the host: it makes namespaces, mounts, cgroups and other users' processes.
var guestCaps = []string{
	"CAP_SYS_ADMIN", "CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP", "CAP_KILL", "CAP_CHOWN", "CAP_DAC_OVERRIDE",
	"CAP_FOWNER", "CAP_FSETID", "CAP_SYS_RESOURCE", "CAP_SYS_PTRACE", "CAP_SYS_CHROOT", "CAP_NET_BIND_SERVICE",
}

// machineSpec describes the machine in OCI's terms.
func machineSpec(bundle string, cfg sandbox.MachineConfig) *specs.Spec {
	nofile := specs.POSIXRlimit{Type: "RLIMIT_NOFILE", Hard: 1 << 16, Soft: 1 << 16}
	return &specs.Spec{
		Version:  specs.Version,
		Root:     &specs.Root{Path: filepath.Join(bundle, "rootfs")},
		Hostname: "assay",
		Process: &specs.Process{
			Args: []string{guest.InitPath},
			Cwd:  "/",
			Env:  []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "GOMAXPROCS=2", "GODEBUG=madvdontneed=1", guest.ProcessesEnv + "=" + strconv.Itoa(cfg.Shape.Processes)},
			Capabilities: &specs.LinuxCapabilities{
				Bounding: guestCaps, Effective: guestCaps, Permitted: guestCaps, Inheritable: guestCaps,
			},
			Rlimits: []specs.POSIXRlimit{nofile},
		},
		Mounts: []specs.Mount{
			{Destination: "/proc", Type: "proc", Source: "proc"},
			{Destination: "/sys", Type: "sysfs", Source: "sysfs", Options: []string{"ro", "nosuid", "nodev", "noexec"}},
			{Destination: "/dev", Type: "tmpfs", Source: "tmpfs"},
			{Destination: "/dev/pts", Type: "devpts", Source: "devpts"},
			{Destination: "/dev/shm", Type: "tmpfs", Source: "tmpfs", Options: []string{"mode=1777", fmt.Sprintf("size=%d", cfg.Shape.Disk)}},
			{Destination: "/tmp", Type: "tmpfs", Source: "tmpfs", Options: []string{"mode=1777", fmt.Sprintf("size=%d", cfg.Shape.Disk)}},
		},
		Annotations: map[string]string{
			"dev.gvisor.spec.rootfs.source":  cfg.Image,
			"dev.gvisor.spec.rootfs.type":    "erofs",
			"dev.gvisor.spec.rootfs.overlay": "memory",
			"dev.gvisor.spec.rootfs.options": "size=" + fmt.Sprint(cfg.Shape.Disk),
		},
		Linux: &specs.Linux{
			Namespaces: []specs.LinuxNamespace{
				{Type: specs.PIDNamespace},
				{Type: specs.NetworkNamespace, Path: cfg.NetNS},
				{Type: specs.IPCNamespace},
				{Type: specs.UTSNamespace},
				{Type: specs.MountNamespace},
			},
		},
	}
}

// follow begins to watch a machine that runs.
func (m *machine) follow() (err error) {
	if m.cfg.Persistent {
		if m.released, err = unix.Eventfd(0, unix.EFD_CLOEXEC); err != nil {
			return fault.Errorf(fault.Exhausted, "watch machine %s: %w", m.cfg.ID, err)
		}
	}
	go m.watch()
	return nil
}

// watch waits for the boot process to end, by whatever cause, or for the machine
// to be given up.
func (m *machine) watch() {
	defer close(m.watched)
	fds := []unix.PollFd{{Fd: int32(m.pidfd), Events: unix.POLLIN}, {Fd: int32(m.released), Events: unix.POLLIN}}
	for {
		if _, err := unix.Poll(fds, -1); !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if fds[0].Revents == 0 {
		return
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

// Snapshot writes a checkpoint; the guest stands still meanwhile.
func (m *machine) Snapshot(ctx context.Context, dir string) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	err := m.cont.Checkpoint(m.conf, dir, gsandbox.CheckpointOpts{
		Compression: statefile.CompressionLevelNone, Resume: true, ExcludeCommittedZeroPages: true,
	})
	if err != nil {
		return fault.Errorf(fault.Internal, "snapshot machine %s: %w%s", m.cfg.ID, err, m.logs.suffix())
	}
	return nil
}

func (m *machine) Pause(context.Context) error {
	if err := m.cont.Pause(); err != nil {
		return fault.Errorf(fault.Conflict, "pause machine %s: %w", m.cfg.ID, err)
	}
	return nil
}

func (m *machine) Resume(context.Context) error {
	if err := m.cont.Resume(); err != nil {
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

// Pin binds the boot process and all it has started or will start.
func (m *machine) Pin(cores []int) error {
	if err := m.group.Pin(cores); err != nil {
		return fmt.Errorf("machine %s: %w", m.cfg.ID, err)
	}
	return nil
}

func (m *machine) Processes() []int { return m.group.PIDs() }

// Destroy kills the boot process and everything in the machine's cgroups.
func (m *machine) Destroy(ctx context.Context) error {
	m.destroy.Do(func() {
		m.mu.Lock()
		select {
		case <-m.ended:
		default:
			m.killed = true
		}
		m.mu.Unlock()
		// Straight to SIGKILL: gVisor's own orderly stop waits in steps of 100 ms,
		// and nothing in the machine is worth an orderly end.
		_ = unix.PidfdSendSignal(m.pidfd, unix.SIGKILL, nil, 0)
		err := m.group.Remove(ctx)
		m.reap()
		<-m.ended
		m.closeFDs()
		m.closeSockets()
		m.logs.close()
		err = errors.Join(err, removeFiles(m.cfg.Dir))
		if err != nil {
			m.destroyE = fault.Errorf(fault.Internal, "destroy machine %s: %w", m.cfg.ID, err)
		}
	})
	return m.destroyE
}

// removeFiles removes what the driver keeps in a machine's directory.
func removeFiles(dir string) error {
	return errors.Join(os.RemoveAll(filepath.Join(dir, "state")), os.RemoveAll(filepath.Join(dir, "bundle")))
}

// reap takes the exit status of the boot process, which is our child.
func (m *machine) reap() {
	for {
		_, err := unix.Wait4(m.cont.SandboxPid(), nil, 0, nil)
		if !errors.Is(err, unix.EINTR) {
			return // reaped, or reaped by the library already
		}
	}
}
