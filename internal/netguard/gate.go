package netguard

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/time/rate"
)

// Caps bound what one sandbox does through its gate. Zero fields are the
// defaults.
type Caps struct {
	// Requests is how many requests a second may begin, with as many at once.
	Requests int
	// Connections is how many may be open at once on either side.
	Connections int
	// RequestBytes bounds one request with its answer, or one tunnel; TotalBytes
	// all of them together.
	RequestBytes, TotalBytes int64
}

func (c Caps) settle() Caps {
	set := func(n *int64, otherwise int64) {
		if *n == 0 {
			*n = otherwise
		}
	}
	set(&c.RequestBytes, 1<<30)
	set(&c.TotalBytes, 4<<30)
	if c.Requests == 0 {
		c.Requests = 100
	}
	if c.Connections == 0 {
		c.Connections = 128
	}
	return c
}

// Usage is what went through a gate.
type Usage struct {
	// Attempts counts all, allowed or not.
	Attempts int `json:"attempts"`
	// Sent and Received are bytes on the outer side, as the sandbox sees them.
	Sent     int64 `json:"sent_bytes"`
	Received int64 `json:"received_bytes"`
}

// Gate is one sandbox's way through the proxy. All methods may be called at the
// same time.
type Gate struct {
	p    *Proxy
	caps Caps
	rate *rate.Limiter
	log  attempts
	// transport keeps connections of this sandbox only.
	transport *http.Transport
	sent, got atomic.Int64

	mu     sync.Mutex
	policy Policy
	closed bool
	conns  map[*gateConn]struct{} // the outer ones
	inner  map[net.Conn]struct{}  // those of the sandbox
}

// NewGate makes the gate of one sandbox. tell hears of every attempt, the same
// one less and less often; it must not block. Close the gate.
func (p *Proxy) NewGate(policy Policy, caps Caps, tell func(Attempt)) (*Gate, error) {
	policy, err := policy.Check()
	if err != nil {
		return nil, err
	}
	caps = caps.settle()
	g := &Gate{
		p: p, caps: caps, policy: policy, rate: rate.NewLimiter(rate.Limit(caps.Requests), caps.Requests),
		log: attempts{tell: tell}, conns: map[*gateConn]struct{}{}, inner: map[net.Conn]struct{}{},
	}
	g.transport = &http.Transport{
		DialContext: func(ctx context.Context, _, target string) (net.Conn, error) { return g.dialTarget(ctx, target) },
		// The sandbox's own headers go as they are, its compression too.
		DisableCompression: true, MaxIdleConnsPerHost: 8, IdleConnTimeout: idleWait, ResponseHeaderTimeout: answerWait,
		MaxResponseHeaderBytes: maxHeader,
	}
	return g, nil
}

// Policy is what the sandbox may reach now.
func (g *Gate) Policy() Policy {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.policy
}

// Set changes what the sandbox may reach, at once: connections that the new
// policy does not permit are cut.
func (g *Gate) Set(policy Policy) error {
	policy, err := policy.Check()
	if err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.policy = policy
	for c := range g.conns {
		if !policy.Permits(c.name, c.port) {
			c.cut()
		}
	}
	return nil
}

// Tell adds an attempt that did not come to the proxy.
func (g *Gate) Tell(a Attempt) { g.log.add(a) }

// Usage is what went through so far.
func (g *Gate) Usage() Usage {
	g.log.mu.Lock()
	defer g.log.mu.Unlock()
	return Usage{Attempts: g.log.total, Sent: g.sent.Load(), Received: g.got.Load()}
}

// Close cuts everything and lets nothing through any more.
func (g *Gate) Close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed, g.policy = true, g.policy.Closed()
	for c := range g.conns {
		c.cut()
	}
	for c := range g.inner {
		_ = c.Close()
	}
}

// enter counts a connection of the sandbox; false when there are too many.
func (g *Gate) enter(c net.Conn) bool {
	g.mu.Lock()
	full := len(g.inner) >= g.caps.Connections
	if !g.closed && !full {
		g.inner[c] = struct{}{}
		g.mu.Unlock()
		return true
	}
	g.mu.Unlock()
	if full {
		g.log.add(Attempt{How: "http", Target: "proxy", Why: TooMany})
	}
	return false
}

func (g *Gate) leave(c net.Conn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.inner, c)
}

// refusal is why an attempt failed and what the sandbox is told.
type refusal struct {
	why    Why
	status int
	text   string
}

func (r *refusal) Error() string { return r.text }

func refuse(why Why, status int, format string, args ...any) *refusal {
	return &refusal{why: why, status: status, text: fmt.Sprintf(format, args...)}
}

// admit checks a request for a target ("name:port"; the port may be left out
// where otherwise is not 0) before anything is resolved or dialled.
func (g *Gate) admit(target string, otherwise int) (name string, port int, _ error) {
	if !g.rate.Allow() {
		return "", 0, refuse(TooFast, http.StatusTooManyRequests, "more than %d requests a second", g.caps.Requests)
	}
	if g.sent.Load()+g.got.Load() >= g.caps.TotalBytes {
		return "", 0, refuse(TooLarge, http.StatusForbidden, "the sandbox has used up its %d bytes of network", g.caps.TotalBytes)
	}
	host, p := target, ""
	if h, rest, err := net.SplitHostPort(target); err == nil {
		host, p = h, rest
	}
	port = otherwise
	if p != "" || otherwise == 0 {
		n, ok := parsePort(p)
		if p == "" || !ok {
			return "", 0, refuse(NotListed, http.StatusForbidden, "%s has no port between 1 and 65535", clip(target))
		}
		port = n
	}
	name, err := cleanName(host)
	if err != nil {
		why := NotListed
		if looksLikeAddress(host) {
			why = NoName
		}
		return "", 0, refuse(why, http.StatusForbidden, "%s %v: only names can be allowed", clip(host), err)
	}
	g.mu.Lock()
	permitted := !g.closed && g.policy.Permits(name, port)
	g.mu.Unlock()
	if !permitted {
		return "", 0, refuse(NotListed, http.StatusForbidden, "%s:%d is not in the sandbox's network policy", name, port)
	}
	return name, port, nil
}

func looksLikeAddress(host string) bool {
	if _, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		return true
	}
	for i := range len(host) {
		if c := host[i]; (c < '0' || c > '9') && c != '.' && c != ':' && c != '[' && c != ']' && c != 'x' && (c < 'a' || c > 'f') && (c < 'A' || c > 'F') {
			return false
		}
	}
	return host != ""
}

// dialTarget is what the transport calls for a target that admit has let in.
// The policy may be another one by now.
func (g *Gate) dialTarget(ctx context.Context, target string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(target)
	if err != nil {
		return nil, err
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		return nil, err
	}
	return g.dial(ctx, host, n)
}

// dial resolves a name, checks every address that came and connects to one of
// those: nobody resolves again between the check and the use.
func (g *Gate) dial(ctx context.Context, name string, port int) (*gateConn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialWait)
	defer cancel()
	addrs, err := g.p.o.Resolve(ctx, name)
	if err != nil || len(addrs) == 0 {
		return nil, refuse(NotResolved, http.StatusBadGateway, "%s does not resolve", name)
	}
	own, err := g.p.o.Own()
	if err != nil {
		return nil, refuse(OwnAddress, http.StatusBadGateway, "the host's own addresses cannot be read")
	}
	for _, a := range addrs {
		a = a.Unmap()
		if slices.Contains(own, a) {
			return nil, refuse(OwnAddress, http.StatusForbidden, "%s resolves to an address of the host", name)
		}
		if !Public(a) {
			return nil, refuse(Special, http.StatusForbidden, "%s resolves to an address that is not public", name)
		}
	}
	var errs []error
	for _, a := range addrs[:min(len(addrs), maxTries)] {
		to := netip.AddrPortFrom(a.Unmap(), uint16(port))
		conn, err := g.p.o.Dial(ctx, to)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		c := &gateConn{Conn: conn, g: g, name: name, port: port, address: to}
		if !g.keep(c) {
			_ = conn.Close()
			return nil, refuse(TooMany, http.StatusTooManyRequests, "the sandbox has too many connections, or its policy has changed")
		}
		return c, nil
	}
	g.p.o.Log.Debug("dial for a sandbox", "name", name, "err", errors.Join(errs...))
	return nil, refuse(NotConnected, http.StatusBadGateway, "%s:%d cannot be connected to", name, port)
}

func (g *Gate) keep(c *gateConn) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed || len(g.conns) >= g.caps.Connections || !g.policy.Permits(c.name, c.port) {
		return false
	}
	g.conns[c] = struct{}{}
	return true
}

// gateConn is a connection to the outside.
type gateConn struct {
	net.Conn
	g       *Gate
	name    string
	port    int
	address netip.AddrPort
	once    sync.Once
}

var errSpent = refuse(TooLarge, http.StatusForbidden, "the sandbox has used up its bytes of network")

func (c *gateConn) Read(b []byte) (int, error) {
	if c.spent() {
		return 0, errSpent
	}
	n, err := c.Conn.Read(b)
	c.g.got.Add(int64(n))
	return n, err
}

func (c *gateConn) Write(b []byte) (int, error) {
	if c.spent() {
		return 0, errSpent
	}
	n, err := c.Conn.Write(b)
	c.g.sent.Add(int64(n))
	return n, err
}

func (c *gateConn) spent() bool { return c.g.sent.Load()+c.g.got.Load() >= c.g.caps.TotalBytes }

// RemoteAddr is the address that was checked.
func (c *gateConn) RemoteAddr() net.Addr { return net.TCPAddrFromAddrPort(c.address) }

// CloseWrite ends one direction.
func (c *gateConn) CloseWrite() error {
	if h, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return h.CloseWrite()
	}
	return nil
}

func (c *gateConn) Close() error {
	c.once.Do(func() {
		c.g.mu.Lock()
		defer c.g.mu.Unlock()
		delete(c.g.conns, c)
	})
	return c.Conn.Close()
}

// cut ends the connection under its user, who then closes it. Caller holds the
// gate's mu.
func (c *gateConn) cut() { _ = c.Conn.Close() }
