// Command guestd is Assay's process inside every sandbox: the guest's init. It
// runs commands, moves files, and gives terminals, file watches and ports to
// the host over one inherited byte stream. Start with daemon and, for the other
// side of the link, package guest.
//
// It trusts the host and nothing else. Commands run as another user, in cgroups
// of their own, and never hold a descriptor of guestd. It must stay small: its
// memory is in every snapshot.
package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"runtime/debug"
	"syscall"

	"golang.org/x/sys/unix"

	"assay/internal/guest"
)

func main() {
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	if err := run(log); err != nil {
		log.Error("guestd ends", "err", err)
		os.Exit(1)
	}
}

func run(log *slog.Logger) error {
	if os.Getenv(guest.VMEnv) == guest.VMBoot {
		return bootVM()
	}
	// A small heap is worth more here than few collections: it is copied into
	// each snapshot and read back by each restore.
	debug.SetGCPercent(50)
	wiresSocket := openWires()
	link, err := openLink()
	if err != nil {
		return err
	}
	if err := errors.Join(standApart(), protectOwnFiles()); err != nil {
		return err
	}
	d, err := newDaemon(log)
	if err != nil {
		return err
	}
	if err := d.network.keepModules(os.Getenv(guest.VMLater)); err != nil {
		return err
	}
	go d.reaper.run()
	if wiresSocket != nil {
		go d.wires.receive(wiresSocket)
	}
	handler := d.routes()
	asked := false
	for {
		conn, err := guest.Accept(link, asked)
		if errors.Is(err, io.EOF) {
			return nil // the host is gone, and the machine with us
		}
		if err != nil {
			return err
		}
		d.setSession(conn)
		asked = guest.Serve(conn, handler)
		debug.FreeOSMemory() // what a session left need not be in a snapshot
	}
}

// apartID is a user ID that nothing else in the guest has.
const apartID = 65500

// standApart takes the real and saved user ID away from root's, and keeps the
// effective one: a command that runs as root, and has lost the capabilities
// that reach others, may then neither signal nor trace this process.
func standApart() error {
	if err := syscall.Setresuid(apartID, 0, apartID); err != nil {
		return fmt.Errorf("leave root's user ID: %w", err)
	}
	return nil
}

// openLink gives the stream that the driver handed over.
func openLink() (net.Conn, error) {
	if err := unix.SetNonblock(guest.LinkFD, true); err != nil {
		return nil, err
	}
	unix.CloseOnExec(guest.LinkFD)
	return fileConn{os.NewFile(guest.LinkFD, "link")}, nil
}

// fileConn makes a connection of an open file, whatever it is: a socket, or a
// character device in a virtual machine.
type fileConn struct{ *os.File }

func (fileConn) LocalAddr() net.Addr  { return linkAddr{} }
func (fileConn) RemoteAddr() net.Addr { return linkAddr{} }

type linkAddr struct{}

func (linkAddr) Network() string { return "link" }
func (linkAddr) String() string  { return "link" }

var _ net.Conn = fileConn{}
