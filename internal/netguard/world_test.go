package netguard

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"sync"
	"testing"
	"time"
)

// world is an outside with one web server: names and their addresses, which
// only this test's own listeners stand for.
type world struct {
	t     *testing.T
	proxy *Proxy
	gate  *Gate
	addr  string // of the proxy
	own   netip.Addr

	mu       sync.Mutex
	names    map[string][]netip.Addr
	resolved map[string]int
	// next, if set, is what a name resolves to from its second time on.
	next     map[string][]netip.Addr
	servers  map[netip.AddrPort]string
	dialled  []netip.AddrPort
	attempts []Attempt
}

var (
	webAddr  = netip.MustParseAddr("93.184.215.14")
	nextAddr = netip.MustParseAddr("93.184.215.15")
)

func newWorld(t *testing.T, policy Policy, caps Caps) *world {
	t.Helper()
	w := &world{
		t: t, own: netip.MustParseAddr("93.184.215.99"), resolved: map[string]int{}, next: map[string][]netip.Addr{},
		names: map[string][]netip.Addr{
			"web.example.org": {webAddr}, "next.example.org": {nextAddr}, "both.example.org": {webAddr, netip.MustParseAddr("10.0.0.1")},
			"own.example.org": {netip.MustParseAddr("93.184.215.99")}, "mapped.example.org": {netip.MustParseAddr("::ffff:127.0.0.1")},
			"metadata.example.org": {netip.MustParseAddr("169.254.169.254")}, "rebind.example.org": {webAddr},
		},
		servers: map[netip.AddrPort]string{},
	}
	w.proxy = NewProxy(Options{Resolve: w.resolve, Dial: w.dial, Own: func() ([]netip.Addr, error) { return []netip.Addr{w.own}, nil }})
	gate, err := w.proxy.NewGate(policy, caps, func(a Attempt) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.attempts = append(w.attempts, a)
	})
	if err != nil {
		t.Fatal(err)
	}
	w.gate = gate
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w.addr = ln.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	var served sync.WaitGroup
	served.Go(func() {
		if err := w.proxy.Serve(ctx, ln, func(net.Conn) *Gate { return gate }); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { gate.Close(); cancel(); served.Wait() })
	return w
}

func (w *world) resolve(_ context.Context, name string) ([]netip.Addr, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.resolved[name]++
	if next := w.next[name]; next != nil && w.resolved[name] > 1 {
		return next, nil
	}
	return w.names[name], nil
}

func (w *world) dial(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
	w.mu.Lock()
	w.dialled = append(w.dialled, to)
	addr, ok := w.servers[to]
	w.mu.Unlock()
	if !ok {
		return nil, fmt.Errorf("nobody at %s", to)
	}
	return new(net.Dialer).DialContext(ctx, "tcp", addr)
}

// serve puts a web server at an address of this world.
func (w *world) serve(at netip.Addr, h http.HandlerFunc) *httptest.Server {
	srv := httptest.NewServer(h)
	w.t.Cleanup(srv.Close)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.servers[netip.AddrPortFrom(at, 80)] = srv.Listener.Addr().String()
	return srv
}

// serveTLS gives the certificates that its clients trust.
func (w *world) serveTLS(at netip.Addr, h http.HandlerFunc) *x509.CertPool {
	srv := httptest.NewTLSServer(h)
	w.t.Cleanup(srv.Close)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.servers[netip.AddrPortFrom(at, 443)] = srv.Listener.Addr().String()
	pool := x509.NewCertPool()
	pool.AddCert(srv.Certificate())
	return pool
}

// client is a program in the sandbox that uses the proxy. Its server's
// certificate is for example.com.
func (w *world) client(pool *x509.CertPool) *http.Client {
	tr := &http.Transport{
		Proxy:           http.ProxyURL(&url.URL{Scheme: "http", Host: w.addr}),
		TLSClientConfig: &tls.Config{RootCAs: pool},
	}
	w.t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: 20 * time.Second, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// raw sends bytes to the proxy and gives the answer's first line.
func (w *world) raw(text string) string {
	w.t.Helper()
	c := w.open()
	if _, err := c.Write([]byte(text)); err != nil {
		w.t.Fatal(err)
	}
	line, err := bufio.NewReader(c).ReadString('\n')
	if err != nil {
		return ""
	}
	return line
}

func (w *world) open() net.Conn {
	w.t.Helper()
	c, err := net.Dial("tcp", w.addr)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		w.t.Fatal(err)
	}
	return c
}

// logged waits for nothing: what was answered has been logged.
func (w *world) logged(why Why, allowed bool) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.ContainsFunc(w.attempts, func(a Attempt) bool { return a.Why == why && a.Allowed == allowed })
}

func (w *world) allAttempts() []Attempt {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.attempts)
}

func (w *world) allDialled() []netip.AddrPort {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.dialled)
}

// helloWriter is a connection that ends after what was said.
type helloWriter struct{ rw io.ReadWriter }

func (h helloWriter) Read(b []byte) (int, error)       { return h.rw.Read(b) }
func (h helloWriter) Write(b []byte) (int, error)      { return h.rw.Write(b) }
func (h helloWriter) Close() error                     { return nil }
func (h helloWriter) LocalAddr() net.Addr              { return nil }
func (h helloWriter) RemoteAddr() net.Addr             { return nil }
func (h helloWriter) SetDeadline(time.Time) error      { return nil }
func (h helloWriter) SetReadDeadline(time.Time) error  { return nil }
func (h helloWriter) SetWriteDeadline(time.Time) error { return nil }
