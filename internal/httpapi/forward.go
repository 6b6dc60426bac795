package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"

	"assay/internal/account"
	"assay/internal/fault"
)

// Nodes finds the process that answers a request about sandboxes, where several
// share one store, and carries requests there. It may be used from many
// goroutines. The methods give nil for this process, which also answers for
// what nobody has.
type Nodes interface {
	http.RoundTripper
	// Sandbox gives the node that has, or had, a sandbox; Snapshot likewise.
	Sandbox(ctx context.Context, id string) (*Peer, error)
	Snapshot(ctx context.Context, id string) (*Peer, error)
	// Room gives a node that makes a new sandbox: fault.Unavailable if none lives.
	Room(ctx context.Context) (*Peer, error)
}

// Peer is another process that shares the store.
type Peer struct {
	Name string
	// URL is its address: scheme and host.
	URL *url.URL
	// Alive says that it was seen lately.
	Alive bool
	// Ended says that what was asked for has ended: only its logs are there.
	Ended bool
}

// forwardedBy is the header of requests that a process has passed on. Such a
// request is never passed on again, so none goes around between nodes.
const forwardedBy = "Assay-Forwarded"

// maxPeek bounds the body of a request to make a sandbox, in bytes.
const maxPeek = 1 << 20

// forwarded passes requests about sandboxes on to the node that has them. That
// node finds out anew who asks, and decides: there are no secrets between nodes,
// and what it does is in its audit log.
func (s *server) forwarded(next http.Handler) http.Handler {
	if s.Nodes == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get(forwardedBy) != "" {
			next.ServeHTTP(w, r)
			return
		}
		peer, err := s.home(w, r)
		switch {
		case err != nil:
			Fail(s.Log, w, r, err)
		case peer == nil:
			next.ServeHTTP(w, r)
		default:
			seenOf(r.Context()).route = "forwarded"
			s.pass(peer, w, r)
		}
	})
}

// home is where a request is answered; nil is here.
func (s *server) home(w http.ResponseWriter, r *http.Request) (*Peer, error) {
	rest, api := strings.CutPrefix(r.URL.Path, "/api/v1/")
	if !api {
		var other bool
		// Clients of that front may bring their key in the query: it is read there.
		if rest, other = strings.CutPrefix(r.URL.Path, "/v1/"); !other {
			return nil, nil
		}
	} else if !account.ActorOf(r.Context()).Known() {
		return nil, nil // who is refused here
	}
	thing, rest, _ := strings.Cut(rest, "/")
	id, below, _ := strings.Cut(rest, "/")
	ctx := r.Context()
	switch {
	case thing == "templates":
		return s.Nodes.Room(ctx)
	case thing == "sandboxes" && id == "" && r.Method == http.MethodPost:
		snapshot, err := peek(w, r)
		if err != nil {
			return nil, err
		}
		if snapshot == "" {
			return s.Nodes.Room(ctx)
		}
		return usable(s.Nodes.Snapshot(ctx, snapshot))
	case thing == "sandboxes" && id != "":
		peer, err := s.Nodes.Sandbox(ctx, id)
		if peer != nil && !peer.Alive && (peer.Ended || below == "" && r.Method == http.MethodGet) {
			return nil, err // its row says what there is to know
		}
		return usable(peer, err)
	case thing == "snapshots" && id != "" && r.Method != http.MethodGet:
		return usable(s.Nodes.Snapshot(ctx, id))
	}
	return nil, nil
}

// usable refuses a node that is dead.
func usable(p *Peer, err error) (*Peer, error) {
	if err == nil && p != nil && !p.Alive {
		return nil, deadNode(p)
	}
	return p, err
}

func deadNode(p *Peer) error {
	return fault.Errorf(fault.Unavailable, "what was asked for is on node %s, which does not answer", p.Name).
		WithHint("wait until it is back; sandboxes of a node that was started anew are lost, make another one")
}

// peek gives the snapshot that a sandbox is to be made of, or "", and leaves the
// body to be read again. What is no JSON is refused by who answers.
func peek(w http.ResponseWriter, r *http.Request) (snapshot string, err error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxPeek))
	if err != nil {
		var tooLarge *http.MaxBytesError
		if !errors.As(err, &tooLarge) {
			err = fault.Errorf(fault.Invalid, "read the body: %w", err)
		}
		return "", err
	}
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	var ask struct {
		Snapshot     string `json:"snapshot"`
		FromSnapshot string `json:"from_snapshot"`
	}
	if json.Unmarshal(body, &ask) != nil {
		return "", nil
	}
	if ask.Snapshot == "" {
		ask.Snapshot = ask.FromSnapshot
	}
	return ask.Snapshot, nil
}

// pass has another node answer.
func (s *server) pass(peer *Peer, w http.ResponseWriter, r *http.Request) {
	v := visitOf(r.Context())
	s.relay(peer, w, r, func(p *httputil.ProxyRequest) {
		if v.secret != "" {
			// What the cookie is called depends on how one is reached.
			p.Out.Header.Set("Cookie", cookiePlain+"="+v.secret+"; "+cookieSecure+"="+v.secret)
		}
	}, func(w http.ResponseWriter, r *http.Request, err error) { Fail(s.Log, w, r, err) })
}

// relay carries a request to another node and its answer back, for any door.
func (s *server) relay(peer *Peer, w http.ResponseWriter, r *http.Request, change func(*httputil.ProxyRequest), fail func(http.ResponseWriter, *http.Request, error)) {
	(&httputil.ReverseProxy{
		Transport: s.Nodes,
		// Streams are followed while they come.
		FlushInterval: -1,
		ErrorLog:      slog.NewLogLogger(s.Log.Handler(), slog.LevelDebug),
		Rewrite: func(p *httputil.ProxyRequest) {
			p.Out.URL.Scheme, p.Out.URL.Host = peer.URL.Scheme, peer.URL.Host
			// The browser's Origin must fit the host that it asked.
			p.Out.Host = p.In.Host
			p.Out.Header.Set(forwardedBy, "1")
			p.Out.Header.Set("X-Forwarded-For", s.from(p.In))
			if s.secure(p.In) {
				p.Out.Header.Set("X-Forwarded-Proto", "https")
			}
			change(p)
		},
		ModifyResponse: func(res *http.Response) error {
			// Its words stand in for ours: ports have another policy, errors its ID.
			for name := range res.Header {
				w.Header().Del(name)
			}
			switched(w, res)
			return nil
		},
		ErrorHandler: func(_ http.ResponseWriter, r *http.Request, err error) {
			var tooLarge *http.MaxBytesError
			if !errors.As(err, &tooLarge) && r.Context().Err() == nil {
				s.Log.WarnContext(r.Context(), "a node does not answer", "node", peer.Name, "err", err)
				err = deadNode(peer)
			} else if r.Context().Err() != nil {
				err = context.Cause(r.Context())
			}
			fail(w, r, err)
		},
	}).ServeHTTP(w, r)
}

// switched notes that an answer changes to another protocol: it is written past
// whoever counts answers.
func switched(w http.ResponseWriter, res *http.Response) {
	if res.StatusCode != http.StatusSwitchingProtocols {
		return
	}
	for {
		if a, ok := w.(*answer); ok {
			a.status = res.StatusCode
			return
		}
		below, ok := w.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			return
		}
		w = below.Unwrap()
	}
}
