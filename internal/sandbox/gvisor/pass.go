package gvisor

import (
	"context"
	"errors"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"assay/internal/fault"
	"assay/internal/guest"
	"assay/internal/sandbox"
)

var _ sandbox.Passer = (*machine)(nil)

// Pass sends files over the second socket that guestd has: gVisor makes
// descriptors of the guest of those that arrive there. A checkpoint cannot hold
// them, and gVisor panics if it must.
func (m *machine) Pass(ctx context.Context, name string, files ...*os.File) error {
	if len(files) != guest.WireFiles || name == "" || len(name) > guest.MaxWireName {
		return fault.Errorf(fault.Invalid, "a wire has a name of 1 to %d bytes and %d files, not %d", guest.MaxWireName, guest.WireFiles, len(files))
	}
	m.passing.Lock()
	defer m.passing.Unlock()
	if err := m.wires.SetDeadline(time.Time{}); err != nil {
		return fault.Errorf(fault.Unavailable, "pass files to machine %s: %w", m.cfg.ID, err)
	}
	defer context.AfterFunc(ctx, func() { _ = m.wires.SetDeadline(time.Unix(1, 0)) })()
	var fds []int
	for _, f := range files {
		fds = append(fds, int(f.Fd()))
	}
	_, _, err := m.wires.WriteMsgUnix([]byte(name), unix.UnixRights(fds...), nil)
	if err == nil {
		err = m.awaitName(name)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		return fault.Errorf(fault.Unavailable, "pass files to machine %s: %w", m.cfg.ID, err)
	}
	return nil
}

// staleNames is how many answers to calls that gave up are skipped.
const staleNames = 64

// awaitName waits for guestd's answer.
func (m *machine) awaitName(name string) error {
	buf := make([]byte, guest.MaxWireName)
	for range staleNames {
		n, err := m.wires.Read(buf)
		if err != nil {
			return err
		}
		if n == 0 {
			return net.ErrClosed
		}
		if string(buf[:n]) == name {
			return nil
		}
	}
	return errors.New("guestd answers with other names")
}
