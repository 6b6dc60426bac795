package netns

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"assay/internal/fault"
)

// Namespace is the network of one sandbox: a loopback interface that is down,
// which a guest brings up itself, and eth0.
type Namespace struct {
	y     *Yard
	index int
	fd    int
	link  int // the number of the yard's end
	guest netip.Addr

	mu     sync.Mutex
	open   bool
	closed bool
}

// make makes a namespace with both ends of its interface.
func (y *Yard) make() (*Namespace, error) {
	index, err := y.take()
	if err != nil {
		return nil, err
	}
	n := &Namespace{y: y, index: index, fd: -1}
	var gateway netip.Addr
	gateway, n.guest = y.network(index)
	err = y.keep.do(func() error { return n.make(gateway) })
	if err != nil {
		if n.fd >= 0 {
			_ = unix.Close(n.fd)
		}
		y.giveBack(index)
		return nil, fault.Errorf(fault.Internal, "make a sandbox's network namespace: %w", err)
	}
	return n, nil
}

// make runs on the keeper's thread and comes back to the yard.
func (n *Namespace) make(gateway netip.Addr) error {
	y := n.y
	// An earlier user of the index may be on its way out still.
	if old, err := y.nl.LinkByName(name(n.index)); err == nil {
		if err := y.nl.LinkDel(old); err != nil && !errors.Is(err, unix.ENODEV) {
			return fmt.Errorf("remove an interface that was left: %w", err)
		}
	}
	err := unix.Unshare(unix.CLONE_NEWNET)
	if err == nil {
		err = n.inside(gateway)
	}
	if back := unix.Setns(y.fd, unix.CLONE_NEWNET); back != nil {
		return errors.Join(err, fmt.Errorf("come back: %w", back))
	}
	if err != nil {
		return err
	}
	link, err := y.nl.LinkByName(name(n.index))
	if err == nil {
		n.link = link.Attrs().Index
		y.owners.Store(n.link, n.guest)
		err = y.nl.AddrAdd(link, addr(gateway, 30))
	}
	if err == nil {
		err = y.nl.QdiscAdd(y.shaper(link))
	}
	if err == nil {
		err = y.nl.LinkSetUp(link)
	}
	return err
}

// inside sets up the sandbox's end; the calling thread is in its namespace.
func (n *Namespace) inside(gateway netip.Addr) (err error) {
	if n.fd, err = openCurrent(); err != nil {
		return err
	}
	if err := quiet(false); err != nil {
		return err
	}
	nl, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	defer nl.Close()
	link := &netlink.Veth{
		LinkAttrs: netlink.LinkAttrs{Name: "eth0", HardwareAddr: mac(n.guest), TxQLen: 1000},
		PeerName:  name(n.index), PeerNamespace: netlink.NsFd(n.y.fd), PeerHardwareAddr: mac(gateway), PeerTxQLen: 1000,
	}
	if err := nl.LinkAdd(link); err != nil {
		return fmt.Errorf("add interface pair: %w", err)
	}
	eth, err := nl.LinkByName("eth0")
	if err == nil {
		err = nl.AddrAdd(eth, addr(n.guest, 30))
	}
	if err == nil {
		err = nl.QdiscAdd(n.y.shaper(eth))
	}
	if err == nil {
		err = nl.LinkSetUp(eth)
	}
	if err == nil {
		// A way for everything, so that what is not for the proxy is seen and
		// dropped in the yard instead of failing unseen.
		err = nl.RouteAdd(&netlink.Route{LinkIndex: eth.Attrs().Index, Gw: gateway.AsSlice()})
	}
	return err
}

// mac follows from the address: a locally administered one.
func mac(a netip.Addr) net.HardwareAddr {
	b := a.As4()
	return net.HardwareAddr{0x02, 0xa5, b[0], b[1], b[2], b[3]}
}

// burst is what may pass at once: 1 MB, or what the rate gives in a tenth of a
// second if that is more.
const burst = 1 << 20

// shaper bounds the rate at which an interface sends.
func (y *Yard) shaper(l netlink.Link) *netlink.Tbf {
	size := max(burst, y.o.Rate/10)
	ticks := float64(size) / float64(y.o.Rate) * 1e6 * netlink.TickInUsec()
	return &netlink.Tbf{
		QdiscAttrs: netlink.QdiscAttrs{LinkIndex: l.Attrs().Index, Handle: netlink.MakeHandle(1, 0), Parent: netlink.HANDLE_ROOT},
		Rate:       y.o.Rate, Buffer: uint32(ticks), Limit: uint32(2 * size),
	}
}

// Path names the namespace for who starts a process in it, as long as this
// process has it open.
func (n *Namespace) Path() string { return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), n.fd) }

// Guest is the sandbox's address, by which the proxy knows it.
func (n *Namespace) Guest() netip.Addr { return n.guest }

// Open lets the sandbox reach the proxy; Shut ends it, for connections that are
// open as well. Both are idempotent.
func (n *Namespace) Open() error { return n.set(true) }

// Shut is the reverse of Open.
func (n *Namespace) Shut() error { return n.set(false) }

func (n *Namespace) set(open bool) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed || n.open == open {
		return nil
	}
	if err := n.y.doors.set(name(n.index), n.guest, open); err != nil {
		return fault.Errorf(fault.Internal, "change the packet filter of a sandbox: %w", err)
	}
	n.open = open
	return nil
}

// Counts is what the kernel counted on the interface, in bytes with all headers.
type Counts struct{ Sent, Received uint64 }

// Counts reads them; zero when the namespace is closed.
func (n *Namespace) Counts() (Counts, error) {
	link, err := n.y.nl.LinkByName(name(n.index))
	if err != nil {
		return Counts{}, fault.Errorf(fault.Unavailable, "count bytes of a sandbox: %w", err)
	}
	s := link.Attrs().Statistics // of the yard's end
	return Counts{Sent: s.RxBytes, Received: s.TxBytes}, nil
}

// Close shuts the door and lets go of the namespace; the kernel takes it away
// when the machine in it has ended. It is idempotent.
func (n *Namespace) Close() {
	if err := n.Shut(); err != nil {
		// The name in the filter then stays until the yard goes; the interface
		// of that name gets it back with the same address only.
		n.y.o.Log.Error("shut the door of a sandbox", "err", err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return
	}
	n.closed = true
	n.y.owners.CompareAndDelete(n.link, n.guest)
	_ = unix.Close(n.fd)
	n.y.giveBack(n.index)
}
