package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"strconv"
	"strings"
	"sync"

	"github.com/coder/websocket"

	"assay/internal/account"
	"assay/internal/fault"
	"assay/internal/guest"
	"assay/internal/sandboxes"
)

// sandboxStreams adds what no contract of requests and answers can say: a
// terminal over a WebSocket, and the ports of a sandbox.
func (s *server) sandboxStreams(mux *http.ServeMux) {
	const base = "/api/v1/sandboxes/{id}"
	mux.Handle("GET "+base+"/terminal", s.needsEngine(http.HandlerFunc(s.terminal)))
	mux.Handle(base+"/ports/{port}/{path...}", s.needsEngine(http.HandlerFunc(s.port)))
}

// needsEngine refuses what only a process that runs sandboxes can do.
func (s *server) needsEngine(next http.Handler) http.Handler {
	if s.Sandboxes != nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rest := strings.TrimPrefix(r.URL.Path, "/api/v1/")
		thing, _, _ := strings.Cut(rest, "/")
		switch thing {
		case "sandboxes", "snapshots", "templates", "quota":
			Fail(s.Log, w, r, fault.Errorf(fault.Unsupported, "this process runs no sandboxes").WithHint("send the request to a node: see /api/v1/nodes"))
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// terminalFrame is a text message of a terminal. From the client: "resize".
// From the server: "ready" with the terminal's ID, and "exit" with an
// ExecResult or "error" with an Error last. Binary messages are bytes.
type terminalFrame struct {
	Type   string `json:"type"`
	ID     string `json:"id,omitempty"`
	Rows   int    `json:"rows,omitempty"`
	Cols   int    `json:"cols,omitempty"`
	Result any    `json:"result,omitempty"`
	Error  any    `json:"error,omitempty"`
}

// maxTyped bounds one message of a terminal's client, in bytes.
const maxTyped = 256 << 10

// terminal joins a WebSocket with a terminal. Query: rows, cols, cwd, user,
// command (a line for the shell; a login shell if nothing is said), terminal
// (an ID: the same one gives the same terminal) and attach=1 (it must be there
// already).
func (s *server) terminal(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	spec := guest.TerminalSpec{ID: q.Get("terminal"), Dir: q.Get("cwd"), User: q.Get("user")}
	var err error
	number := func(name string) (n int) {
		if text := q.Get(name); text != "" && err == nil {
			if n, err = strconv.Atoi(text); err != nil {
				err = fault.Errorf(fault.Invalid, "%s: %.20q is no number", name, text)
			}
		}
		return n
	}
	spec.Size = guest.TerminalSize{Rows: number("rows"), Cols: number("cols")}
	if err == nil {
		err = spec.Size.Check()
	}
	if command := q.Get("command"); command != "" {
		spec.Argv = []string{"/bin/sh", "-c", command}
	}
	attach := q.Get("attach") == "1"
	if err == nil && attach && spec.ID == "" {
		err = fault.Errorf(fault.Invalid, "attach needs the ID of a terminal")
	}
	if err != nil {
		Fail(s.Log, w, r, err)
		return
	}
	if r, err = s.bySubprotocol(r); err != nil {
		Fail(s.Log, w, r, err)
		return
	}
	var typing sync.WaitGroup
	defer typing.Wait()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	t, err := s.Sandboxes.Terminal(ctx, r.PathValue("id"), spec, attach)
	if err != nil {
		Fail(s.Log, w, r, err)
		return
	}
	defer func() { _ = t.Close() }() // it goes on without us, or has ended
	// A page of another origin is refused, unless it brought a token of its own.
	c, err := websocket.Accept(w, r, &websocket.AcceptOptions{
		Subprotocols: []string{terminalProtocol}, InsecureSkipVerify: account.ActorOf(ctx).Token != "",
	})
	if err != nil {
		return // it has answered
	}
	defer func() { _ = c.CloseNow() }()
	c.SetReadLimit(maxTyped)
	typing.Go(func() { // ends with the connection
		defer cancel()
		typed(ctx, c, t)
	})
	h := sandboxHandlers{s.Sandboxes, s.Log, s.Previews}
	if err := h.show(ctx, c, t); err != nil && ctx.Err() == nil {
		s.Log.DebugContext(ctx, "a terminal's client is gone", "err", err)
	}
}

// terminalProtocol is the subprotocol of terminals. Clients that cannot send
// headers add another one, "bearer." and their token: it is not logged, as an
// address would be.
const terminalProtocol = "assay.terminal"

// bySubprotocol finds out who asks by a token among the subprotocols, if nobody
// is known.
func (s *server) bySubprotocol(r *http.Request) (*http.Request, error) {
	if account.ActorOf(r.Context()).Known() {
		return r, nil
	}
	for _, p := range strings.Split(r.Header.Get("Sec-WebSocket-Protocol"), ",") {
		if secret, ok := strings.CutPrefix(strings.TrimSpace(p), "bearer."); ok {
			a, err := s.Accounts.ByToken(r.Context(), secret)
			if err != nil {
				return r, err
			}
			return Identified(r, a), nil
		}
	}
	return r, nil
}

// keyboard is the side of a terminal on which somebody types.
type keyboard interface {
	io.Writer
	Resize(ctx context.Context, size guest.TerminalSize) error
}

// typed carries a client's messages to the terminal, until the client goes.
func typed(ctx context.Context, c *websocket.Conn, t keyboard) {
	for {
		kind, data, err := c.Read(ctx)
		if err != nil {
			return
		}
		if kind == websocket.MessageBinary {
			// What is typed after the command's end is nobody's. The client is about
			// to be told of it: its connection must stay until then.
			_, _ = t.Write(data)
			continue
		}
		var f terminalFrame
		if json.Unmarshal(data, &f) != nil || f.Type != "resize" {
			_ = c.Close(websocket.StatusUnsupportedData, `text is {"type":"resize","rows":24,"cols":80}`)
			return
		}
		if size := (guest.TerminalSize{Rows: f.Rows, Cols: f.Cols}); size.Check() == nil {
			_ = t.Resize(ctx, size) // an ended terminal has no size
		}
	}
}

// show carries the terminal's output to the client, and its end.
func (h sandboxHandlers) show(ctx context.Context, c *websocket.Conn, t *sandboxes.Terminal) error {
	say := func(f terminalFrame) error {
		b, err := json.Marshal(f)
		if err != nil {
			return err
		}
		return c.Write(ctx, websocket.MessageText, b)
	}
	if err := say(terminalFrame{Type: "ready", ID: t.ID()}); err != nil {
		return err
	}
	buf := make([]byte, 32<<10)
	var rerr error
	for rerr == nil {
		var n int
		n, rerr = t.Read(buf)
		if n > 0 {
			if err := c.Write(ctx, websocket.MessageBinary, buf[:n]); err != nil {
				return err
			}
		}
	}
	last := terminalFrame{Type: "exit"}
	if errors.Is(rerr, io.EOF) {
		var res guest.Result
		if res, rerr = t.Wait(ctx); rerr == nil {
			last.Result = execView(sandboxes.ExecResult{Result: res})
		}
	}
	if rerr != nil {
		last = terminalFrame{Type: "error", Error: h.errorEvent(ctx, rerr).Data}
	}
	if err := say(last); err != nil {
		return err
	}
	return c.Close(websocket.StatusNormalClosure, "")
}

// port passes a request on to a server in a sandbox. Only requests with a token
// are: a page that came from there would act for whoever is signed in here.
func (s *server) port(w http.ResponseWriter, r *http.Request) {
	if a := account.ActorOf(r.Context()); a.Known() && a.Token == "" && !a.System {
		Fail(s.Log, w, r, fault.Errorf(fault.Denied, "ports are for requests with a token, not for pages").WithHint("send an Authorization header with an API token"))
		return
	}
	n, err := strconv.Atoi(r.PathValue("port"))
	if err != nil {
		Fail(s.Log, w, r, fault.Errorf(fault.Invalid, "%.20q is no port", r.PathValue("port")))
		return
	}
	PortProxy(s.Sandboxes, r.PathValue("id"), n, r.PathValue("path"), s.Log, func(w http.ResponseWriter, r *http.Request, err error) { Fail(s.Log, w, r, err) }).ServeHTTP(w, r)
}

// PortProxy passes requests on to a port in a sandbox, under another path. What
// names the caller is taken out, and answers are shown to browsers as of no
// origin. Doors of other wire formats use it, too.
func PortProxy(service *sandboxes.Service, id string, port int, path string, log *slog.Logger, fail func(http.ResponseWriter, *http.Request, error)) http.Handler {
	proxy := httputil.ReverseProxy{
		Rewrite: func(p *httputil.ProxyRequest) {
			p.Out.URL.Scheme, p.Out.URL.Host = "http", net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
			p.Out.URL.Path, p.Out.URL.RawPath = "/"+path, ""
			p.Out.Host = p.Out.URL.Host
			forgetCaller(p.Out)
		},
		ModifyResponse: func(res *http.Response) error {
			ofNoOrigin(res.Header)
			return nil
		},
		Transport: &http.Transport{
			DisableKeepAlives: true, // each connection is a session with one sandbox
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return service.Dial(ctx, id, port)
			},
		},
		FlushInterval: -1,
		ErrorLog:      slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p := proxy
		p.ErrorHandler = func(w http.ResponseWriter, _ *http.Request, err error) {
			if fault.KindOf(err) == fault.Internal {
				err = fault.Errorf(fault.Unavailable, "the server in the sandbox did not answer")
			}
			fail(w, r, err)
		}
		p.ServeHTTP(w, r)
	})
}

// forgetCaller takes out of a request to a sandbox whatever names or is a secret
// of the caller: headers, and what clients that cannot send headers send instead.
func forgetCaller(r *http.Request) {
	q := r.URL.Query()
	if q.Has("access_token") {
		q.Del("access_token")
		r.URL.RawQuery = q.Encode()
	}
	for name := range r.Header {
		if name == "Authorization" || name == "Cookie" || name == "Proxy-Authorization" || name == forwardedBy || strings.HasPrefix(name, "X-Forwarded-") {
			r.Header.Del(name)
		}
	}
	const protocols = "Sec-Websocket-Protocol"
	var kept []string
	for _, p := range strings.Split(strings.Join(r.Header.Values(protocols), ","), ",") {
		if p = strings.TrimSpace(p); p != "" && !strings.HasPrefix(p, "bearer.") {
			kept = append(kept, p)
		}
	}
	r.Header.Del(protocols)
	if kept != nil {
		r.Header.Set(protocols, strings.Join(kept, ", "))
	}
}

// ofNoOrigin takes out of a sandbox's answer what would change how a browser
// treats this server, whose address it came from.
func ofNoOrigin(h http.Header) {
	forgetOrders(h)
	h.Del("Set-Cookie")
	h.Del("Service-Worker-Allowed")
	h.Set("Content-Security-Policy", "sandbox allow-scripts allow-forms")
}
