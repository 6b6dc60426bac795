package netns

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"assay/internal/fault"
	"assay/internal/netguard"
	"assay/internal/require"
)

// outside is a namespace that stands for the world: each address in it is a
// server's, and no route leaves it.
type outside struct {
	fd    int
	names map[string]netip.Addr
}

var (
	web      = netip.MustParseAddr("93.184.215.14")
	metadata = netip.MustParseAddr("169.254.169.254")
	private  = netip.MustParseAddr("10.0.0.5")
	resolver = netip.MustParseAddr("192.168.0.53")
)

// newOutside makes it, with a web server on every address.
func newOutside(t *testing.T) *outside {
	t.Helper()
	o := &outside{names: map[string]netip.Addr{
		"web.example.org": web, "metadata.example.org": metadata, "private.example.org": private, "beside.example.net": web,
		"mapped.example.org": netip.MustParseAddr("::ffff:10.0.0.5"),
	}}
	fd, err := fresh()
	if err != nil {
		t.Fatal(err)
	}
	o.fd = fd
	t.Cleanup(func() { _ = unix.Close(fd) })
	if err := in(fd, func() error {
		nl, err := netlink.NewHandle(unix.NETLINK_ROUTE)
		if err != nil {
			return err
		}
		defer nl.Close()
		lo, err := nl.LinkByName("lo")
		if err != nil {
			return err
		}
		for _, a := range []netip.Addr{web, metadata, private, resolver} {
			if err := nl.AddrAdd(lo, addr(a, 32)); err != nil {
				return err
			}
		}
		return nl.LinkSetUp(lo)
	}); err != nil {
		t.Fatal(err)
	}
	for _, a := range []netip.Addr{web, metadata, private} {
		var ln net.Listener
		if err := in(fd, func() (err error) {
			ln, err = net.Listen("tcp4", netip.AddrPortFrom(a, 80).String())
			return err
		}); err != nil {
			t.Fatal(err)
		}
		srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "this is ", a) })}
		var served sync.WaitGroup
		served.Go(func() { _ = srv.Serve(ln) })
		t.Cleanup(func() { srv.Close(); served.Wait() })
	}
	return o
}

// fresh makes a namespace with nothing in it.
func fresh() (fd int, err error) {
	home, err := openCurrent()
	if err != nil {
		return -1, err
	}
	defer unix.Close(home)
	err = in(home, func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return err
		}
		fd, err = openCurrent()
		return err
	})
	return fd, err
}

func (o *outside) resolve(_ context.Context, name string) ([]netip.Addr, error) {
	if a, ok := o.names[name]; ok {
		return []netip.Addr{a}, nil
	}
	return nil, os.ErrNotExist
}

func (o *outside) dial(_ context.Context, to netip.AddrPort) (net.Conn, error) {
	var c net.Conn
	err := in(o.fd, func() (err error) {
		c, err = net.DialTimeout("tcp4", to.String(), 5*time.Second)
		return err
	})
	return c, err
}

// rig is a yard with a proxy in it that leads to an outside.
type rig struct {
	yard  *Yard
	proxy *netguard.Proxy

	mu    sync.Mutex
	gates map[netip.Addr]*netguard.Gate
	heard chan struct{} // something was dropped
}

// room is one sandbox's namespace with what it tried.
type room struct {
	*Namespace
	gate *netguard.Gate

	mu  sync.Mutex
	log []netguard.Attempt
}

func newRig(t *testing.T, o Options, out *outside) *rig {
	t.Helper()
	r := &rig{gates: map[netip.Addr]*netguard.Gate{}, heard: make(chan struct{}, 1)}
	o.Dropped = func(from netip.Addr, to netip.AddrPort, protocol string) {
		r.mu.Lock()
		g := r.gates[from]
		r.mu.Unlock()
		if g != nil {
			g.Tell(netguard.Attempt{How: "direct", Method: protocol, Target: to.String(), Why: netguard.NotProxy})
		}
		select {
		case r.heard <- struct{}{}:
		default:
		}
	}
	r.yard = openYard(t, o)
	ln, err := r.yard.Listen()
	if err != nil {
		t.Fatal(err)
	}
	opts := netguard.Options{}
	if out != nil {
		opts.Resolve, opts.Dial = out.resolve, out.dial
	}
	r.proxy = netguard.NewProxy(opts)
	ctx, cancel := context.WithCancel(context.Background())
	var served sync.WaitGroup
	served.Go(func() {
		if err := r.proxy.Serve(ctx, ln, func(c net.Conn) *netguard.Gate {
			from := c.RemoteAddr().(*net.TCPAddr).AddrPort().Addr()
			r.mu.Lock()
			defer r.mu.Unlock()
			return r.gates[from]
		}); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { cancel(); served.Wait() })
	return r
}

// openYard opens a yard, or leaves the test to hosts that can have one.
func openYard(t testing.TB, o Options) *Yard {
	t.Helper()
	require.Root(t)
	y, err := Open(o)
	if err != nil {
		t.Fatalf("open yard (%v): %v", fault.KindOf(err), err)
	}
	t.Cleanup(func() {
		if err := y.Close(); err != nil {
			t.Error(err)
		}
	})
	return y
}

// room makes a namespace with a policy and an open door.
func (r *rig) room(t *testing.T, allow ...string) *room {
	t.Helper()
	n, err := r.yard.Make(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	m := &room{Namespace: n}
	m.gate, err = r.proxy.NewGate(netguard.Policy{Allow: allow}, netguard.Caps{}, func(a netguard.Attempt) {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.log = append(m.log, a)
	})
	if err != nil {
		t.Fatal(err)
	}
	r.mu.Lock()
	r.gates[n.Guest()] = m.gate
	r.mu.Unlock()
	if err := n.Open(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.gate.Close(); n.Close() })
	return m
}

// inside does something as a program in the room would, with all the rights of
// the host's root: more than any sandbox has.
func (m *room) inside(f func() error) error { return in(m.fd, f) }

// ask sends a request to the proxy and gives the start of the answer.
func (m *room) ask(t *testing.T, proxy netip.AddrPort, request string) (string, error) {
	t.Helper()
	var got string
	err := m.inside(func() error {
		c, err := net.DialTimeout("tcp4", proxy.String(), 2*time.Second)
		if err != nil {
			return err
		}
		defer c.Close()
		if err := c.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
			return err
		}
		if _, err := c.Write([]byte(request)); err != nil {
			return err
		}
		b := make([]byte, 1024)
		n, err := c.Read(b)
		got = string(b[:n])
		return err
	})
	return got, err
}

func (m *room) logged(how, target string, why netguard.Why) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.ContainsFunc(m.log, func(a netguard.Attempt) bool {
		return a.How == how && (target == "" || a.Target == target) && a.Why == why
	})
}

// waitLogged waits until the kernel's word of a dropped packet has come.
func (r *rig) waitLogged(t *testing.T, m *room, how, target string) {
	t.Helper()
	late := time.After(5 * time.Second)
	for !m.logged(how, target, netguard.NotProxy) {
		select {
		case <-r.heard:
		case <-late:
			m.mu.Lock()
			defer m.mu.Unlock()
			t.Errorf("the log has no word of %s; it has %v", target, m.log)
			return
		}
	}
}

// refused says that nothing answered.
func refused(err error) bool {
	return errors.Is(err, unix.EHOSTUNREACH) || errors.Is(err, unix.ENETUNREACH) || errors.Is(err, unix.ECONNREFUSED) ||
		errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) || errors.Is(err, unix.EADDRNOTAVAIL) ||
		errors.Is(err, unix.EAFNOSUPPORT) || errors.Is(err, os.ErrDeadlineExceeded)
}
