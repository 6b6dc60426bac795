// Package testgate stands before a server that a test uses, so that the test can
// have the server be gone for a while. Start with New.
//
// It is imported by tests only and must not know what passes.
package testgate

import (
	"io"
	"net"
	"sync"
	"testing"
)

// Gate is a way to a server that can be shut and opened again.
type Gate struct {
	network, server string

	address  string
	listener net.Listener
	wg       sync.WaitGroup

	mu    sync.Mutex
	shut  bool
	conns []net.Conn
}

// New opens a gate on a port of this host, which leads to a server ("tcp" and
// its address, or "unix" and its socket). The test's cleanup shuts it.
func New(t testing.TB, network, server string) *Gate {
	t.Helper()
	g := &Gate{network: network, server: server, address: "127.0.0.1:0"}
	g.Open(t)
	t.Cleanup(g.Shut)
	return g
}

// Address is where it listens, always the same.
func (g *Gate) Address() string { return g.address }

// Open lets everybody pass.
func (g *Gate) Open(t testing.TB) {
	t.Helper()
	l, err := net.Listen("tcp", g.address)
	if err != nil {
		t.Fatal(err)
	}
	g.listener, g.address = l, l.Addr().String()
	g.mu.Lock()
	g.shut = false
	g.mu.Unlock()
	g.wg.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial(g.network, g.server)
			if err != nil {
				t.Error(err)
				in.Close()
				return
			}
			if !g.keep(in, out) { // who came just before it was shut
				in.Close()
				out.Close()
				return
			}
			for _, pair := range [][2]net.Conn{{in, out}, {out, in}} {
				g.wg.Go(func() {
					// However it ends, the other direction ends too.
					_, _ = io.Copy(pair[0], pair[1])
					pair[0].Close()
					pair[1].Close()
				})
			}
		}
	})
}

// keep has Shut cut the connections, unless it did its work already.
func (g *Gate) keep(conns ...net.Conn) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut {
		return false
	}
	g.conns = append(g.conns, conns...)
	return true
}

// Shut cuts all connections and lets nobody in. It may be called again.
func (g *Gate) Shut() {
	g.listener.Close()
	g.mu.Lock()
	g.shut = true
	for _, c := range g.conns {
		c.Close()
	}
	g.conns = nil
	g.mu.Unlock()
	g.wg.Wait()
}
