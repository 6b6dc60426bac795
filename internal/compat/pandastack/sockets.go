package pandastack

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"

	"assay/internal/account"
	"assay/internal/fault"
	"assay/internal/guest"
	"assay/internal/sandboxes"
)

// Bounds of WebSockets.
const (
	maxMessage = 1 << 20 // bytes
	maxAtOnce  = 32      // commands of one socket
	portsWait  = 5 * time.Second
	pingEvery  = 20 * time.Second
)

// accept answers a WebSocket's request. Keys came in the query or as a
// subprotocol, never by a cookie, so pages of any origin may connect.
func accept(w http.ResponseWriter, r *http.Request) (*websocket.Conn, error) {
	c, err := websocket.Accept(w, r, &websocket.AcceptOptions{InsecureSkipVerify: true, Subprotocols: []string{"pds-pty"}})
	if err == nil {
		c.SetReadLimit(maxMessage)
	}
	return c, err
}

// pty joins a WebSocket with a terminal.
func (s *server) pty(w http.ResponseWriter, r *http.Request) error {
	rec, err := s.find(r)
	if err != nil {
		return err
	}
	q := r.URL.Query()
	spec := guest.TerminalSpec{User: user, Dir: home, Env: append([]string{"HOME=" + home, "USER=" + user}, terminalEnv...)}
	if cmd := q.Get("cmd"); cmd != "" {
		spec.Argv = []string{"/bin/sh", "-c", cmd}
	}
	for name, n := range map[string]*int{"rows": &spec.Size.Rows, "cols": &spec.Size.Cols} {
		if text := q.Get(name); text != "" {
			if *n, err = strconv.Atoi(text); err != nil {
				return fault.Errorf(fault.Invalid, "%s: %.20q is no number", name, text)
			}
		}
	}
	if err := spec.Size.Check(); err != nil {
		return err
	}
	var typing sync.WaitGroup
	defer typing.Wait()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	t, err := s.Service.Terminal(ctx, rec.ID, spec, false)
	if err != nil {
		return err
	}
	defer func() { _ = t.Close() }()
	c, err := accept(w, r)
	if err != nil {
		return nil //nolint:nilerr // it has answered
	}
	defer func() { _ = c.CloseNow() }()
	typing.Go(func() { // ends with the connection
		defer cancel()
		typed(ctx, c, t)
	})
	buf := make([]byte, 32<<10)
	for {
		n, err := t.Read(buf)
		if n > 0 && c.Write(ctx, websocket.MessageBinary, buf[:n]) != nil {
			return nil
		}
		if err == nil {
			continue
		}
		code := 137
		if errors.Is(err, io.EOF) {
			if res, err := t.Wait(ctx); err == nil {
				code = sandboxes.Code(res.Exit)
			}
		}
		_ = say(ctx, c, map[string]any{"type": "exit", "code": code})
		_ = c.Close(websocket.StatusNormalClosure, "") // or the client did
		return nil
	}
}

var terminalEnv = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8", "TERM=xterm-256color"}

// typed carries a client's messages to the terminal, in the forms of the
// format's documents and of its server.
func typed(ctx context.Context, c *websocket.Conn, t *sandboxes.Terminal) {
	for {
		kind, data, err := c.Read(ctx)
		if err != nil {
			return
		}
		if kind == websocket.MessageText {
			var f struct {
				Type       string
				Rows, Cols int
				Resize     *guest.TerminalSize `json:"resize"`
				Stdin      *string             `json:"stdin"`
			}
			if json.Unmarshal(data, &f) != nil {
				continue
			}
			if f.Type == "resize" {
				f.Resize = &guest.TerminalSize{Rows: f.Rows, Cols: f.Cols}
			}
			if f.Resize != nil && f.Resize.Check() == nil {
				_ = t.Resize(ctx, *f.Resize) // an ended terminal has no size
			}
			if f.Stdin == nil {
				continue
			}
			data = []byte(*f.Stdin)
		}
		// What is typed after the command's end is nobody's. The client is about to
		// be told of it: its connection must stay until then.
		_, _ = t.Write(data)
	}
}

func say(ctx context.Context, c *websocket.Conn, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return c.Write(ctx, websocket.MessageText, b)
}

// execSocket runs commands side by side over one WebSocket.
func (s *server) execSocket(w http.ResponseWriter, r *http.Request) error {
	rec, err := s.find(r)
	if err != nil {
		return err
	}
	c, err := accept(w, r)
	if err != nil {
		return nil //nolint:nilerr // it has answered
	}
	defer func() { _ = c.CloseNow() }()
	account.NoteOf(r.Context()).On(account.SandboxThing, rec.ID, "commands over a socket")
	ctx, cancel := context.WithCancel(r.Context())
	m := &commands{s: s, r: r, c: c, sandbox: rec.ID, running: map[string]context.CancelFunc{}}
	m.all.Go(func() { m.ping(ctx) })
	defer m.all.Wait()
	defer cancel()
	for {
		_, data, err := c.Read(ctx)
		if err != nil {
			return nil //nolint:nilerr // the client has gone
		}
		m.take(ctx, data)
	}
}

// commands are those of one socket.
type commands struct {
	s       *server
	r       *http.Request
	c       *websocket.Conn
	sandbox string
	all     sync.WaitGroup

	mu      sync.Mutex
	running map[string]context.CancelFunc
}

func (m *commands) ping(ctx context.Context) {
	tick := time.NewTicker(pingEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if m.c.Ping(ctx) != nil {
				return
			}
		}
	}
}

// take starts or cancels a command.
func (m *commands) take(ctx context.Context, data []byte) {
	var f struct {
		execBody
		ID     string `json:"id"`
		Cancel bool   `json:"cancel"`
	}
	if err := json.Unmarshal(data, &f); err != nil {
		m.fail(ctx, "", fault.Errorf(fault.Invalid, "a message is not the JSON that is wanted: %w", err))
		return
	}
	m.mu.Lock()
	stop, there := m.running[f.ID]
	if f.Cancel {
		m.mu.Unlock()
		if there {
			stop()
		}
		return
	}
	full := len(m.running) >= maxAtOnce
	run, cancel := context.WithCancel(ctx)
	if !there && !full {
		m.running[f.ID] = cancel
	}
	m.mu.Unlock()
	switch {
	case there:
		cancel()
		m.fail(ctx, f.ID, fault.Errorf(fault.Conflict, "a command with this id is running"))
	case full:
		cancel()
		m.fail(ctx, f.ID, fault.Errorf(fault.Limited, "at most %d commands run over one socket", maxAtOnce))
	default:
		m.all.Go(func() {
			defer cancel()
			last := m.run(ctx, run, f.ID, f.execBody)
			m.mu.Lock()
			delete(m.running, f.ID)
			m.mu.Unlock()
			last() // who hears of its end may use its id anew
		})
	}
}

// run runs one command in its own context, and tells of it over the socket's. The
// caller says the last word.
func (m *commands) run(ctx, own context.Context, id string, b execBody) (last func()) {
	req, err := b.request()
	if err != nil {
		return func() { m.fail(ctx, id, err) }
	}
	req.Limits.Output = sandboxes.MaxStreamed
	piece := func(stream string) *sandboxes.Text {
		return sandboxes.NewText(func(p []byte) error {
			return say(ctx, m.c, map[string]string{"id": id, "stream": stream, "data": strings.ToValidUTF8(string(p), "\uFFFD")})
		})
	}
	out, errs := piece("stdout"), piece("stderr")
	res, err := m.s.Service.Stream(own, m.sandbox, req, out, errs)
	_, _ = out.Flush(), errs.Flush()
	if err != nil {
		return func() { m.fail(ctx, id, err) }
	}
	return func() { _ = say(ctx, m.c, map[string]any{"id": id, "exit": sandboxes.Code(res.Exit)}) } // or the client has gone
}

func (m *commands) fail(ctx context.Context, id string, err error) {
	if errors.Is(err, context.Canceled) {
		err = fault.Errorf(fault.Conflict, "the command was cancelled")
	}
	_, b := m.s.describe(m.r, err)
	_ = say(ctx, m.c, map[string]any{"id": id, "error": b.Error, "code": b.Code})
}
