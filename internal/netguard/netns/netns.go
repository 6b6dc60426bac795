// Package netns makes the network namespaces of sandboxes. Start with Open; Make
// gives a namespace with one interface, behind which there is nothing but the
// proxy's address and port.
//
// All of it lives in a namespace of its own, the yard, which has no way out:
//
//	sandbox's namespace        yard (no uplink, forwards nothing)      host
//	  eth0 10.192.3.6/30 ────── as929 10.192.3.5/30
//	                            lo    10.192.0.1  ◀── proxy listens ──▶ its process dials
//
// No packet of a sandbox is ever in the host's own namespace: what carries bytes
// from one to the other is the proxy, a process that has a socket in each. The
// yard's filter drops whatever is not for the proxy from the address that belongs
// to the interface. No namespace has a name or a mount: the yard is held by the
// process that made it, a sandbox's by that process and by the machine in it,
// which ends with the process. So the kernel frees all of them with the last
// process, however it ended, and no start has anything to reclaim.
//
// It knows no driver and no sandbox.
package netns

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"sync"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"assay/internal/fault"
)

// Options are the settings of a yard. The zero value is usable.
type Options struct {
	// Pool is cut into networks of four addresses, the first of them for the
	// proxy. Default 10.192.0.0/16: 16,383 sandboxes. Nobody else sees the
	// addresses, so all processes of a host may use the same.
	Pool netip.Prefix
	// Ready is how many namespaces wait to be used. Zero is none.
	Ready int
	// Rate bounds what a sandbox sends and what it is sent, in bytes a second
	// each. Zero is DefaultRate.
	Rate uint64
	// Dropped hears of packets that the filter dropped, as many of them as the
	// kernel tells (its bound: dropsPerSecond): the address of the sandbox that
	// sent it, whatever the packet says, where to,
	// and the protocol ("tcp", "udp", "icmp", or its number). It must not block.
	Dropped func(from netip.Addr, to netip.AddrPort, protocol string)
	Log     *slog.Logger
}

// DefaultRate is 50 MB a second, each way.
const DefaultRate = 50_000_000

// ProxyPort is where the proxy listens in the yard.
const ProxyPort = 3128

// Yard is the namespace that all sandboxes' interfaces end in. All methods may be
// called at the same time.
type Yard struct {
	o     Options
	keep  *keeper
	nl    *netlink.Handle // works in the yard
	fd    int             // the yard
	proxy netip.Addr
	doors *doors
	drops *drops

	// owners are the sandboxes' addresses by the number of their interface.
	owners sync.Map

	work  sync.WaitGroup
	wants chan struct{}
	stop  context.CancelFunc

	mu     sync.Mutex
	next   int   // the first index that was never used
	free   []int // oldest first: the kernel may still be taking an interface away
	ready  []*Namespace
	closed bool
}

// Open makes a yard. It fails with fault.Unsupported, the reason and the remedy
// where this host or user cannot have one. Close it.
func Open(o Options) (_ *Yard, err error) {
	if !o.Pool.IsValid() {
		o.Pool = netip.MustParsePrefix("10.192.0.0/16")
	}
	if o.Pool = o.Pool.Masked(); !o.Pool.Addr().Is4() || o.Pool.Bits() > 28 {
		return nil, fault.Errorf(fault.Invalid, "the pool of sandbox addresses %s is not an IPv4 network of 16 addresses or more", o.Pool).
			WithHint("give one like 10.192.0.0/14")
	}
	if o.Rate == 0 {
		o.Rate = DefaultRate
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	y := &Yard{o: o, fd: -1, proxy: o.Pool.Addr().Next(), next: 1, wants: make(chan struct{}, 1)}
	if y.keep, err = newKeeper(); err != nil {
		return nil, unsupported("enter the host's network namespace", err)
	}
	defer func() {
		if err != nil {
			_ = y.release() // the first error says more
		}
	}()
	if err := y.keep.do(y.open); err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	y.stop = stop
	y.work.Go(func() { y.fill(ctx) })
	y.work.Go(y.drops.run)
	return y, nil
}

func unsupported(what string, err error) error {
	f := fault.Errorf(fault.Unsupported, "this host cannot give sandboxes a network: %s: %w", what, err)
	switch {
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES), errors.Is(err, unix.EROFS):
		return f.WithHint("run as root of the host (not of a user namespace) with CAP_SYS_ADMIN and CAP_NET_ADMIN; sandboxes without a network policy need neither")
	case errors.Is(err, unix.ENOSPC):
		return f.WithHint("raise user.max_net_namespaces")
	default:
		return f.WithHint("the kernel needs network namespaces, veth, nf_tables (inet, log, reject) and sch_tbf")
	}
}

// open makes the yard. It runs on the keeper's thread, which stays there.
func (y *Yard) open() (err error) {
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return unsupported("make a network namespace", err)
	}
	if y.fd, err = openCurrent(); err != nil {
		return unsupported("open a network namespace", err)
	}
	if err := quiet(true); err != nil {
		return unsupported("set up a network namespace", err)
	}
	if y.nl, err = netlink.NewHandle(unix.NETLINK_ROUTE); err != nil {
		return unsupported("open netlink", err)
	}
	lo, err := y.nl.LinkByName("lo")
	if err == nil {
		err = y.nl.AddrAdd(lo, addr(y.proxy, 32))
	}
	if err == nil {
		err = y.nl.LinkSetUp(lo)
	}
	if err != nil {
		return unsupported("set up the loopback interface", err)
	}
	if y.doors, err = openDoors(y.proxy); err != nil {
		return unsupported("make packet filter rules", err)
	}
	if y.drops, err = openDrops(y.o.Dropped, y.whose, y.o.Log); err != nil {
		return unsupported("listen to the packet filter's log", err)
	}
	return nil
}

// Proxy is the address and port that sandboxes reach the proxy at: the same in
// each of them, so a fork or a file in a template has it right.
func (y *Yard) Proxy() netip.AddrPort { return netip.AddrPortFrom(y.proxy, ProxyPort) }

// Listen opens the proxy's listener in the yard.
func (y *Yard) Listen() (net.Listener, error) {
	var ln net.Listener
	err := y.keep.do(func() (err error) {
		ln, err = net.Listen("tcp4", y.Proxy().String())
		return err
	})
	if err != nil {
		return nil, fault.Errorf(fault.Internal, "listen for sandboxes: %w", err)
	}
	return ln, nil
}

// capacity is how many sandboxes the pool has addresses for.
func (y *Yard) capacity() int { return 1<<(30-y.o.Pool.Bits()) - 1 }

// network gives the addresses of an index, 1 and up: both ends of its /30.
func (y *Yard) network(index int) (gateway, guest netip.Addr) {
	b := y.o.Pool.Addr().As4()
	n := uint32(b[0])<<24 | uint32(b[1])<<16 | uint32(b[2])<<8 | uint32(b[3])
	n += uint32(index) * 4
	at := func(n uint32) netip.Addr {
		return netip.AddrFrom4([4]byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)})
	}
	return at(n + 1), at(n + 2)
}

// take gives an index that nobody uses.
func (y *Yard) take() (int, error) {
	y.mu.Lock()
	defer y.mu.Unlock()
	switch {
	case y.closed:
		return 0, errClosed
	case y.next <= y.capacity():
		y.next++
		return y.next - 1, nil
	case len(y.free) > 0:
		i := y.free[0]
		y.free = y.free[1:]
		return i, nil
	}
	return 0, fault.Errorf(fault.Exhausted, "all %d networks of the pool %s are in use", y.capacity(), y.o.Pool).WithHint("end sandboxes, or give a larger pool")
}

// whose gives the address that belongs to an interface.
func (y *Yard) whose(iface uint32) (netip.Addr, bool) {
	a, ok := y.owners.Load(int(iface))
	if !ok {
		return netip.Addr{}, false
	}
	return a.(netip.Addr), true // nothing else is stored
}

var errClosed = fault.Errorf(fault.Unavailable, "the sandboxes' network is shutting down")

func (y *Yard) giveBack(index int) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.free = append(y.free, index)
}

// Make gives a namespace, one that waits or a new one. Its door is shut.
func (y *Yard) Make(ctx context.Context) (*Namespace, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	y.mu.Lock()
	var n *Namespace
	if len(y.ready) > 0 {
		n, y.ready = y.ready[0], y.ready[1:]
	}
	y.mu.Unlock()
	select {
	case y.wants <- struct{}{}:
	default:
	}
	if n != nil {
		return n, nil
	}
	return y.make()
}

// fill keeps namespaces ready until ctx ends.
func (y *Yard) fill(ctx context.Context) {
	for {
		y.mu.Lock()
		missing := !y.closed && len(y.ready) < y.o.Ready
		y.mu.Unlock()
		if missing {
			n, err := y.make()
			if err == nil {
				y.mu.Lock()
				y.ready = append(y.ready, n)
				y.mu.Unlock()
				continue
			}
			y.o.Log.Warn("make a network namespace ahead", "err", err) // Make will say it to somebody
		}
		select {
		case <-ctx.Done():
			return
		case <-y.wants:
		}
	}
}

// Close gives up the yard. Namespaces in it have no way to the proxy any more.
func (y *Yard) Close() error {
	y.mu.Lock()
	if y.closed {
		y.mu.Unlock()
		return nil
	}
	y.closed = true
	y.mu.Unlock()
	y.stop()
	_ = y.drops.close()
	y.work.Wait()
	for _, n := range y.ready {
		n.Close()
	}
	return y.release()
}

func (y *Yard) release() error {
	if y.doors != nil {
		y.doors.close()
	}
	if y.nl != nil {
		y.nl.Close()
	}
	if y.fd >= 0 {
		_ = unix.Close(y.fd)
	}
	if err := y.keep.close(); err != nil {
		return fault.Errorf(fault.Internal, "leave the sandboxes' network namespace: %w", err)
	}
	return nil
}

func addr(a netip.Addr, bits int) *netlink.Addr {
	return &netlink.Addr{IPNet: &net.IPNet{IP: a.AsSlice(), Mask: net.CIDRMask(bits, 32)}}
}

func name(index int) string { return fmt.Sprintf("as%d", index) }
