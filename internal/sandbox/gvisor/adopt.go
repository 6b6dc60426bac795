package gvisor

import (
	"context"
	"errors"
	"net"
	"os"
	"slices"

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/runsc/container"

	"assay/internal/fault"
	"assay/internal/sandbox"
	"assay/internal/sandbox/gvisor/bootfile"
)

var _ sandbox.Adopter = (*Driver)(nil)

// Adopt takes over a machine whose process is gone. gVisor's own state file says
// which process the machine is, and its cgroup that this is still the same one;
// the host's ends of the sockets come out of the boot process, which has kept
// them.
func (d *Driver) Adopt(ctx context.Context, cfg sandbox.MachineConfig) (_ sandbox.Machine, err error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	conf, err := d.conf(cfg)
	if err != nil {
		return nil, err
	}
	m := newMachine(d, cfg, conf)
	m.group = d.tree.At(cfg.ID)
	defer func() {
		if err != nil {
			m.letGo()
		}
	}()
	gone := func(err error) error { return fault.Errorf(fault.NotFound, "machine %s is gone: %w", cfg.ID, err) }
	if _, err := os.Stat(conf.RootDir); err != nil { // the library hides that it is not there
		return nil, gone(err)
	}
	m.cont, err = container.Load(conf.RootDir, container.FullID{SandboxID: cfg.ID, ContainerID: cfg.ID}, container.LoadOpts{Exact: true, SkipCheck: true})
	if err != nil {
		return nil, fault.Errorf(fault.Internal, "adopt machine %s: %w", cfg.ID, err)
	}
	pid := m.cont.SandboxPid()
	if m.pidfd, err = unix.PidfdOpen(pid, 0); err != nil {
		return nil, gone(err)
	}
	if !slices.Contains(m.group.PIDs(), pid) {
		return nil, gone(errors.New("its process ID belongs to another"))
	}
	if m.link, err = m.takeSocket(bootfile.KeptLink); err != nil {
		return nil, fault.Errorf(fault.Internal, "adopt machine %s: take its link: %w", cfg.ID, err)
	}
	wires, err := m.takeSocket(bootfile.KeptWires)
	if err != nil {
		return nil, fault.Errorf(fault.Internal, "adopt machine %s: take its wires: %w", cfg.ID, err)
	}
	var ok bool
	if m.wires, ok = wires.(*net.UnixConn); !ok {
		return nil, fault.Errorf(fault.Internal, "adopt machine %s: its wires are no Unix socket", cfg.ID)
	}
	if m.logs, err = openTail(bootfile.LogPath(m.cont.BundleDir)); err != nil {
		return nil, fault.Errorf(fault.Exhausted, "machine %s: open log: %w", cfg.ID, err)
	}
	if err := m.follow(); err != nil {
		return nil, err
	}
	return m, nil
}

// takeSocket gives a socket that the boot process has kept.
func (m *machine) takeSocket(number int) (net.Conn, error) {
	fd, err := unix.PidfdGetfd(m.pidfd, number, 0)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "guestd")
	defer f.Close()
	return net.FileConn(f)
}

// letGo closes what this process has of a machine.
func (m *machine) letGo() {
	m.closeSockets()
	if m.logs != nil {
		m.logs.close()
	}
	m.closeFDs()
}

// Detach gives the machine up; it goes on, and Adopt finds it.
func (m *machine) Detach() error {
	if m.released < 0 {
		return fault.Errorf(fault.Conflict, "machine %s ends with its process", m.cfg.ID)
	}
	m.destroy.Do(func() {
		m.destroyE = fault.Errorf(fault.Conflict, "machine %s was given up", m.cfg.ID)
		one := [8]byte{1}
		_, _ = unix.Write(m.released, one[:]) // an event takes 2^64 of them
		<-m.watched
		m.letGo()
	})
	return nil
}
