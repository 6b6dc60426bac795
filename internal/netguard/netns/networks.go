package netns

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"

	"assay/internal/fault"
	"assay/internal/netguard"
)

// Networks gives machines their networks: a yard with the proxy in it, opened
// when the first machine needs it. All methods may be called at the same time.
type Networks struct {
	o     Options
	proxy *netguard.Proxy
	caps  netguard.Caps

	mu     sync.Mutex
	yard   *Yard
	stop   context.CancelFunc
	served chan error
	gates  map[netip.Addr]*netguard.Gate // by the guest's address
	closed bool
}

// NewNetworks makes it; nothing is opened yet. o.Dropped is set by it. Close it
// when all machines have ended.
func NewNetworks(o Options, proxy *netguard.Proxy, caps netguard.Caps) *Networks {
	n := &Networks{o: o, proxy: proxy, caps: caps, gates: map[netip.Addr]*netguard.Gate{}}
	n.o.Dropped = n.dropped
	return n
}

// Network is the network of one machine.
type Network struct {
	space *Namespace
	n     *Networks
	proxy netip.AddrPort

	once sync.Once
	mu   sync.Mutex
	gate *netguard.Gate // nil before Open
}

// Make gives a network that reaches nothing. Errors: fault.Unsupported where
// this host cannot, fault.Exhausted when the pool is used up.
func (n *Networks) Make(ctx context.Context) (*Network, error) {
	y, err := n.open()
	if err != nil {
		return nil, err
	}
	space, err := y.Make(ctx)
	if err != nil {
		return nil, err
	}
	return &Network{space: space, n: n, proxy: y.Proxy()}, nil
}

func (n *Networks) open() (*Yard, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return nil, errClosed
	}
	if n.yard != nil {
		return n.yard, nil
	}
	y, err := Open(n.o)
	if err != nil {
		return nil, err
	}
	ln, err := y.Listen()
	if err != nil {
		return nil, errors.Join(err, y.Close())
	}
	ctx, stop := context.WithCancel(context.Background())
	n.yard, n.stop, n.served = y, stop, make(chan error, 1)
	go func() { n.served <- n.proxy.Serve(ctx, ln, n.gateOf) }() // Close waits for it
	return y, nil
}

// gateOf knows whose a connection is: the filter lets no address through but
// that of the interface.
func (n *Networks) gateOf(c net.Conn) *netguard.Gate {
	from, ok := c.RemoteAddr().(*net.TCPAddr)
	if !ok {
		return nil
	}
	return n.find(from.AddrPort().Addr())
}

func (n *Networks) find(guest netip.Addr) *netguard.Gate {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.gates[guest.Unmap()]
}

func (n *Networks) dropped(from netip.Addr, to netip.AddrPort, protocol string) {
	if g := n.find(from); g != nil {
		g.Tell(netguard.Attempt{How: "direct", Method: protocol, Target: to.String(), Why: netguard.NotProxy})
	}
}

// Close gives all up.
func (n *Networks) Close() error {
	n.mu.Lock()
	y := n.yard
	n.closed = true
	n.mu.Unlock()
	if y == nil {
		return nil
	}
	n.stop()
	err := <-n.served
	return errors.Join(err, y.Close())
}

// Namespace is the path of the namespace to start the machine in.
func (w *Network) Namespace() string { return w.space.Path() }

// Proxy is what programs in the machine use as their proxy.
func (w *Network) Proxy() netip.AddrPort { return w.proxy }

// Open lets the machine reach what the policy permits; tell hears of attempts.
func (w *Network) Open(policy netguard.Policy, tell func(netguard.Attempt)) error {
	gate, err := w.n.proxy.NewGate(policy, w.n.caps, tell)
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.gate != nil {
		gate.Close()
		return fault.Errorf(fault.Conflict, "the network of the machine is open already")
	}
	w.gate = gate
	w.n.mu.Lock()
	w.n.gates[w.space.Guest()] = gate
	w.n.mu.Unlock()
	return w.doorFor(policy)
}

// doorFor shuts the door of who may reach nothing, so that not even the proxy
// hears of it.
func (w *Network) doorFor(policy netguard.Policy) error {
	if len(policy.Allow) == 0 {
		return w.space.Shut()
	}
	return w.space.Open()
}

// Set changes the policy of a network after Open.
func (w *Network) Set(policy netguard.Policy) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.gate == nil {
		return fault.Errorf(fault.Conflict, "the network of the machine is not open")
	}
	if err := w.gate.Set(policy); err != nil {
		return err
	}
	return w.doorFor(policy)
}

// Usage is what went through so far.
func (w *Network) Usage() netguard.Usage {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.gate == nil {
		return netguard.Usage{}
	}
	return w.gate.Usage()
}

// Close cuts everything and gives the namespace back. It is idempotent.
func (w *Network) Close() {
	w.once.Do(func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.gate != nil {
			w.n.mu.Lock()
			delete(w.n.gates, w.space.Guest())
			w.n.mu.Unlock()
			w.gate.Close()
		}
		w.space.Close()
	})
}
