package supervisor

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"assay/internal/fault"
	"assay/internal/guest"
	"assay/internal/sandbox"
)

// Options are what a supervisor serves.
type Options struct {
	Manager *sandbox.Manager
	// Template gives a template by name, built and warm, and tells what it does
	// meanwhile. It may be called from several goroutines.
	Template func(ctx context.Context, name string, tell func(Progress)) (sandbox.Template, error)
	// EventDir is where the engine keeps its event logs, for sandboxes that have
	// ended.
	EventDir string
	// Grace is how long to live with neither sandbox nor connection.
	Grace time.Duration
	Log   *slog.Logger
}

// server is a supervisor at work.
type server struct {
	Options
	pokes chan struct{}

	mu     sync.Mutex
	conns  int
	ending bool
}

// Serve serves the engine until there has been neither a sandbox nor a
// connection for the grace, or until ctx ends. It returns when no request is
// under way and the socket is gone; the caller closes the engine and then ln.
func Serve(ctx context.Context, ln *Listener, o Options) error {
	s := &server{Options: o, pokes: make(chan struct{}, 1)}
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	base, cut := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cut(nil)
	srv := &http.Server{
		Handler: s.routes(), Protocols: &protocols,
		BaseContext: func(net.Listener) context.Context { return base },
		ErrorLog:    slog.NewLogLogger(o.Log.Handler(), slog.LevelError),
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: 4096, MaxReadFrameSize: 256 << 10,
			MaxReceiveBufferPerConnection: 4<<20 - 1, MaxReceiveBufferPerStream: 256 << 10,
		},
	}
	for _, sb := range o.Manager.List() { // adopted
		s.follow(sb)
	}
	var failed error // set before served is closed
	served := make(chan struct{})
	go func() {
		defer close(served)
		failed = srv.Serve(counting{ln, s})
	}()
	select {
	case <-served:
		return fault.Errorf(fault.Internal, "serve the supervisor's socket: %w", failed)
	case <-s.quiet(ctx, o.Grace):
	}
	err := ln.Retire()
	cut(fault.Errorf(fault.Unavailable, "the supervisor is ending"))
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), endWait)
	defer cancel()
	if srv.Shutdown(end) != nil {
		_ = srv.Close()
	}
	<-served
	return err
}

// endWait bounds how long requests under way may take to notice the end.
const endWait = 5 * time.Second

// quiet gives a channel that is closed when it is time to end.
func (s *server) quiet(ctx context.Context, grace time.Duration) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		timer := time.NewTimer(grace)
		defer timer.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-s.pokes:
				timer.Reset(grace)
			case <-timer.C:
				if s.unused() {
					return
				}
			}
		}
	}()
	return done
}

// unused reports whether nobody is connected and no sandbox lives; if so,
// nobody is let in any more. Whoever connects from then on is cut off before
// the first answer and starts another supervisor.
func (s *server) unused() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ending = s.conns == 0 && len(s.Manager.List()) == 0
	return s.ending
}

// poke starts the grace again.
func (s *server) poke() {
	select {
	case s.pokes <- struct{}{}:
	default:
	}
}

// follow pokes when a sandbox has ended.
func (s *server) follow(sb *sandbox.Sandbox) {
	go func() {
		<-sb.Ended()
		s.poke()
	}()
}

// counting counts the connections of a listener.
type counting struct {
	net.Listener
	s *server
}

func (l counting) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	if l.s.ending {
		return nil, errors.Join(net.ErrClosed, c.Close())
	}
	l.s.conns++
	return &counted{Conn: c, s: l.s}, nil
}

// Close is Retire's work.
func (l counting) Close() error { return nil }

type counted struct {
	net.Conn
	s    *server
	once sync.Once
}

func (c *counted) Close() error {
	c.once.Do(func() {
		c.s.mu.Lock()
		c.s.conns--
		c.s.mu.Unlock()
		c.s.poke()
	})
	return c.Conn.Close()
}

// routes gives all requests. Those that are answered with frames begin with
// newStream; before it, and in all others, an error is an answer of its own.
func (s *server) routes() http.Handler {
	mux := http.NewServeMux()
	for pattern, h := range map[string]func(http.ResponseWriter, *http.Request) error{
		"GET /v1/hello":                    s.hello,
		"POST /v1/sandboxes":               s.create,
		"GET /v1/sandboxes":                s.list,
		"GET /v1/sandboxes/{id}":           s.info,
		"DELETE /v1/sandboxes/{id}":        s.remove,
		"GET /v1/sandboxes/{id}/wait":      s.wait,
		"POST /v1/sandboxes/{id}/pause":    s.pause,
		"POST /v1/sandboxes/{id}/resume":   s.resume,
		"POST /v1/sandboxes/{id}/extend":   s.extend,
		"POST /v1/sandboxes/{id}/network":  s.network,
		"GET /v1/sandboxes/{id}/events":    s.events,
		"POST /v1/sandboxes/{id}/snapshot": s.snapshot,
		"POST /v1/sandboxes/{id}/fork":     s.fork,
		"POST /v1/sandboxes/{id}/exec":     s.exec,
		"POST /v1/sandboxes/{id}/kill":     s.kill,
		"POST /v1/sandboxes/{id}/terminal": s.terminal,
		"POST /v1/sandboxes/{id}/port":     s.port,
		"POST /v1/sandboxes/{id}/watch":    s.watch,
		"GET /v1/sandboxes/{id}/stat":      s.stat,
		"GET /v1/sandboxes/{id}/file":      s.readFile,
		"PUT /v1/sandboxes/{id}/file":      s.writeFile,
		"GET /v1/sandboxes/{id}/tree":      s.readTree,
		"PUT /v1/sandboxes/{id}/tree":      s.writeTree,
		"GET /v1/snapshots":                s.snapshots,
		"DELETE /v1/snapshots/{id}":        s.removeSnapshot,
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			if err := h(w, r); err != nil {
				guest.WriteFault(w, err)
			}
		})
	}
	return mux
}

// reply answers with JSON.
func reply(w http.ResponseWriter, v any) error {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // a client that is gone has nobody to tell
	return nil
}

// maxRequest bounds the JSON of a request, in bytes.
const maxRequest = 4 << 20

// decode reads a request's JSON.
func decode(r *http.Request, v any) error {
	if err := json.NewDecoder(io.LimitReader(r.Body, maxRequest)).Decode(v); err != nil {
		return fault.Errorf(fault.Invalid, "decode request: %w", err)
	}
	return nil
}

func (s *server) hello(w http.ResponseWriter, _ *http.Request) error {
	return reply(w, Hello{Version: Version, PID: os.Getpid(), Reclaimed: s.Manager.Reclaimed(), Adopted: s.Manager.Adopted(), Driver: s.Manager.Driver().Name()})
}

// minPrefix is how much of an ID names a sandbox, if it is unique.
const minPrefix = 4

// find gives the sandbox that a request names by its ID or the beginning of it.
func (s *server) find(r *http.Request) (*sandbox.Sandbox, error) {
	id := r.PathValue("id")
	sb, err := s.Manager.Get(id)
	if err == nil {
		return sb, nil
	}
	if len(id) >= minPrefix {
		var found []*sandbox.Sandbox
		for _, sb := range s.Manager.List() {
			if strings.HasPrefix(sb.Info().ID, id) {
				found = append(found, sb)
			}
		}
		switch {
		case len(found) == 1:
			return found[0], nil
		case len(found) > 1:
			return nil, fault.Errorf(fault.Invalid, "%q is the beginning of %d sandboxes", id, len(found)).WithHint("give more of the ID")
		}
	}
	if why := s.ended(id); why != "" {
		return nil, fault.Errorf(fault.Conflict, "sandbox %s has ended: %s", id, why).WithHint("its log is kept: assay sandbox events %s", id)
	}
	return nil, fault.Errorf(fault.NotFound, "no sandbox %q", id).WithHint("list them: assay sandbox ls")
}

// ended says why a sandbox ended, or "" if there never was one of this ID.
func (s *server) ended(id string) string {
	log, err := s.pastEvents(id)
	if err != nil {
		return ""
	}
	for _, e := range log {
		if why, ok := e.Detail["why"].(string); ok && e.Kind == "ended" {
			return why
		}
	}
	return "its supervisor died"
}

// inside finds the sandbox of a request that goes to its guest without the
// engine. The context ends with the sandbox too. The caller calls done.
func (s *server) inside(r *http.Request, what string) (sb *sandbox.Sandbox, ctx context.Context, done func(), err error) {
	if sb, err = s.find(r); err != nil {
		return nil, nil, nil, err
	}
	id := sb.Info().ID
	if sb.Info().Paused {
		return nil, nil, nil, fault.Errorf(fault.Conflict, "%s: sandbox %s is paused", what, id).WithHint("resume it first: assay sandbox resume %s", id)
	}
	sb.Touch()
	ctx, cancel := context.WithCancelCause(r.Context())
	var watcher sync.WaitGroup
	watcher.Go(func() {
		select {
		case <-sb.Ended():
			cancel(s.endFault(sb))
		case <-ctx.Done():
		}
	})
	return sb, ctx, func() {
		cancel(nil)
		watcher.Wait()
		sb.Touch()
	}, nil
}

// endFault is what a call gets whose sandbox ended under it.
func (s *server) endFault(sb *sandbox.Sandbox) error {
	id := sb.Info().ID
	why := s.ended(id)
	if why == "" {
		why = string(sb.EndCause())
	}
	return fault.Errorf(fault.Conflict, "sandbox %s has ended: %s", id, why)
}

// settle prefers the sandbox's end to the broken or closed link it caused.
func (s *server) settle(sb *sandbox.Sandbox, err error) error {
	if err == nil {
		return nil
	}
	if !errors.Is(err, guest.ErrSessionEnded) && !fault.Is(err, fault.Unavailable) && !fault.Is(err, fault.Conflict) {
		return err
	}
	ask, cancel := context.WithTimeout(context.Background(), settleWait)
	defer cancel()
	if _, herr := sb.Guest().Hello(ask); herr == nil {
		return err // the machine is well: the error is about something else
	}
	select {
	case <-sb.Ended():
		return s.endFault(sb)
	case <-time.After(settleWait): // the machine's end is seen a little after its link's
		return err
	}
}

// settleWait is how long the end of a machine may lag behind the end of its link.
const settleWait = time.Second
