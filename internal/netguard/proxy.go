package netguard

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/http/httputil"
	"net/netip"
	"strings"
	"sync"
	"time"
)

// The bounds of one request.
const (
	dialWait   = 10 * time.Second // to resolve and connect
	answerWait = 60 * time.Second // for the first byte of an answer
	idleWait   = 2 * time.Minute  // of a connection on which nothing moves
	headerWait = 10 * time.Second // for the sandbox's request
	maxHeader  = 64 << 10
	maxTries   = 3 // addresses of one name
)

// Options are what a proxy stands on. Nil fields are the host's own.
type Options struct {
	// Resolve gives the addresses of a name.
	Resolve func(ctx context.Context, name string) ([]netip.Addr, error)
	// Dial connects to an address that was checked.
	Dial func(ctx context.Context, to netip.AddrPort) (net.Conn, error)
	// Own gives the host's own addresses, which nobody may reach.
	Own func() ([]netip.Addr, error)
	Log *slog.Logger
}

// Proxy carries the requests of sandboxes: HTTP/1.1 with absolute URLs, and
// CONNECT for TLS. It resolves names itself, and no sandbox gives it an address.
type Proxy struct {
	o Options
}

// NewProxy makes a proxy.
func NewProxy(o Options) *Proxy {
	if o.Resolve == nil {
		o.Resolve = func(ctx context.Context, name string) ([]netip.Addr, error) {
			return net.DefaultResolver.LookupNetIP(ctx, "ip", name+".") // no search domains
		}
	}
	if o.Dial == nil {
		o.Dial = func(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", to.String())
		}
	}
	if o.Own == nil {
		o.Own = hostAddresses
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Proxy{o: o}
}

type gateKey struct{}

// Serve serves connections until ctx ends or the listener fails; then it closes
// the listener and all connections. gateOf says whose a connection is; nil
// refuses it.
func (p *Proxy) Serve(ctx context.Context, ln net.Listener, gateOf func(net.Conn) *Gate) error {
	srv := &http.Server{
		Handler:           http.HandlerFunc(p.serve),
		ReadHeaderTimeout: headerWait, IdleTimeout: idleWait, MaxHeaderBytes: maxHeader,
		ErrorLog: slog.NewLogLogger(p.o.Log.Handler(), slog.LevelDebug), // sandboxes break off as they like
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, gateKey{}, c.(*innerConn).g)
		},
	}
	stop := context.AfterFunc(ctx, func() { _ = srv.Close() })
	defer stop()
	err := srv.Serve(&gateListener{Listener: ln, gateOf: gateOf})
	if ctx.Err() != nil && errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// gateListener lets connections in that have a gate with room.
type gateListener struct {
	net.Listener
	gateOf func(net.Conn) *Gate
}

func (l *gateListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		g := l.gateOf(c)
		if g != nil && g.enter(c) {
			return &innerConn{Conn: c, g: g}, nil
		}
		_ = c.Close()
	}
}

// innerConn is a connection of a sandbox.
type innerConn struct {
	net.Conn
	g    *Gate
	once sync.Once
}

func (c *innerConn) Close() error {
	c.once.Do(func() { c.g.leave(c.Conn) })
	return c.Conn.Close()
}

func (c *innerConn) CloseWrite() error {
	if h, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return h.CloseWrite()
	}
	return nil
}

func (p *Proxy) serve(w http.ResponseWriter, r *http.Request) {
	g := r.Context().Value(gateKey{}).(*Gate)
	switch {
	case r.Method == http.MethodConnect:
		g.connect(w, r)
	case r.URL.Scheme == "http" && r.URL.Host != "":
		g.forward(w, r)
	default:
		g.log.add(Attempt{How: "http", Method: r.Method, Target: r.Host, Why: NotProxied})
		http.Error(w, "this is the sandbox's proxy: ask for a whole http:// URL, or CONNECT for TLS", http.StatusBadRequest)
	}
}

// forward carries one plain request and its answer.
func (g *Gate) forward(w http.ResponseWriter, r *http.Request) {
	a := Attempt{How: "http", Method: r.Method, Target: r.URL.Host}
	name, port, err := g.admit(r.URL.Host, 80)
	if err != nil {
		g.answer(w, a, err)
		return
	}
	target := hostPort(name, port)
	a.Target = target
	trace := httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{
		GotConn: func(info httptrace.GotConnInfo) {
			done := a
			done.Allowed, done.Address = true, info.Conn.RemoteAddr().String()
			g.log.add(done)
		},
	})
	left := &budget{left: g.caps.RequestBytes}
	if r.Body != nil && r.Body != http.NoBody {
		r.Body = &cappedBody{r.Body, left}
	}
	carrier := httputil.ReverseProxy{
		Rewrite: func(pr *httputil.ProxyRequest) {
			// One spelling of the target for the header, the pool of connections and
			// the check.
			pr.Out.URL.Host = target
			pr.Out.Host = strings.TrimSuffix(target, ":80")
			pr.Out.URL.User = nil
		},
		Transport:     g.transport,
		FlushInterval: -1,
		ErrorLog:      slog.NewLogLogger(g.p.o.Log.Handler(), slog.LevelDebug),
		ModifyResponse: func(resp *http.Response) error {
			if resp.StatusCode == http.StatusSwitchingProtocols {
				return nil // its bytes count for the total
			}
			resp.Body = &cappedBody{resp.Body, left}
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) { g.answer(w, a, err) },
	}
	carrier.ServeHTTP(w, r.WithContext(trace))
	if left.spent() {
		a.Why = TooLarge
		g.log.add(a)
	}
}

// answer logs an attempt that failed and tells the sandbox.
func (g *Gate) answer(w http.ResponseWriter, a Attempt, err error) {
	no, ok := errors.AsType[*refusal](err)
	if !ok {
		no = refuse(NotConnected, http.StatusBadGateway, "the connection to %s broke", a.Target)
	}
	a.Why = no.why
	g.log.add(a)
	http.Error(w, "assay: "+no.text, no.status)
}

// budget is how many bytes one request may still move.
type budget struct {
	mu   sync.Mutex
	left int64
}

func (b *budget) take(n int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.left -= int64(n)
	return b.left >= 0
}

func (b *budget) spent() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.left < 0
}

// cappedBody ends with an error when the budget is spent: the reader must not
// take what it has for the whole.
type cappedBody struct {
	io.ReadCloser
	budget *budget
}

func (c *cappedBody) Read(b []byte) (int, error) {
	n, err := c.ReadCloser.Read(b)
	if !c.budget.take(n) {
		return 0, refuse(TooLarge, http.StatusForbidden, "the request moved too many bytes")
	}
	return n, err
}
