package httpapi

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"assay/api"
	"assay/internal/account"
	"assay/internal/classes"
	"assay/internal/fault"
	"assay/internal/httpapi/apipage"
	"assay/internal/judging"
	"assay/internal/sandboxes"
	"assay/internal/usage"
)

const (
	// maxBody bounds a request of JSON or a form, in bytes: a submission of the
	// largest problems fits.
	maxBody = 8 << 20
	// DefaultMaxUpload bounds a file that is uploaded.
	DefaultMaxUpload = 512 << 20
)

// Authenticator says who a secret belongs to. A secret that is wrong, expired or
// revoked is fault.Unauthenticated.
type Authenticator interface {
	ByToken(ctx context.Context, secret string) (account.Actor, error)
	// BySession gives nobody, and no error, for a session that is over: a page
	// must be able to say "sign in".
	BySession(ctx context.Context, secret string) (account.Actor, error)
}

// Options are what the door needs. All services are required.
type Options struct {
	Log      *slog.Logger
	Accounts Authenticator
	Judge    *judging.Service
	Server   ServerInfo
	// Sandboxes is the engine as actors get it; nil where this process runs none.
	Sandboxes *sandboxes.Service
	// Classes are the courses, Usage is what was used.
	Classes *classes.Service
	Usage   *usage.Service
	// People are the accounts themselves. Without them, as in tests of other
	// routes, there are no pages and nothing is audited.
	People *account.Service
	// PublicURL is how users reach this server, for links.
	PublicURL string
	Metrics   *prometheus.Registry
	// Ready says whether the server can take work, and what is wrong.
	Ready func(ctx context.Context) error
	// MaxUpload bounds a file that is uploaded, in bytes; zero is
	// DefaultMaxUpload.
	MaxUpload int64
	// RequestsPerSecond is what one token, session or address may ask for, with
	// bursts of ten times as many; zero is no limit.
	RequestsPerSecond float64
	// TrustedProxies are the networks whose X-Forwarded-For and
	// X-Forwarded-Proto are believed.
	TrustedProxies []netip.Prefix
	// Secure says that users come over https, whatever this process sees.
	Secure bool
	// Nodes are the other processes that run sandboxes; nil is none.
	Nodes Nodes
	// Previews say where ports of sandboxes are shown; nil is nowhere.
	Previews *PreviewOptions
	// Mount adds doors of other wire formats and pages to the mux, behind the
	// same middleware.
	Mount func(mux *http.ServeMux)
}

type server struct {
	Options
	metrics *metrics
	rates   *rates
}

// Doors are those of one process. They may be used from many goroutines.
type Doors struct {
	// API is the contract with its pages.
	API http.Handler
	// Previews shows ports of sandboxes, on hosts of their own; nil without
	// Options.Previews. It must not be served on the origin of the API.
	Previews http.Handler
}

// New makes the door of the API alone.
func New(o Options) (http.Handler, error) {
	d, err := Open(o)
	return d.API, err
}

// Open makes all doors.
func Open(o Options) (Doors, error) {
	if o.MaxUpload == 0 {
		o.MaxUpload = DefaultMaxUpload
	}
	s := &server{Options: o, metrics: newMetrics(o.Metrics), rates: newRates(o.RequestsPerSecond)}
	checked, err := newValidator(s)
	if err != nil {
		return Doors{}, err
	}
	mux := http.NewServeMux()
	fail := func(w http.ResponseWriter, r *http.Request, err error) { Fail(s.Log, w, r, err) }
	refuse := func(w http.ResponseWriter, r *http.Request, err error) {
		var tooLarge *http.MaxBytesError
		if !errors.As(err, &tooLarge) {
			err = fault.Errorf(fault.Invalid, "%w", err)
		}
		Fail(s.Log, w, r, err)
	}
	strict := api.NewStrictHandlerWithOptions(s.handlers(), nil, api.StrictHTTPServerOptions{RequestErrorHandlerFunc: refuse, ResponseErrorHandlerFunc: fail})
	api.HandlerWithOptions(strict, api.StdHTTPServerOptions{
		BaseRouter: mux, ErrorHandlerFunc: refuse, Middlewares: []api.MiddlewareFunc{checked.middleware, s.needsEngine},
	})
	s.sandboxStreams(mux)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { say(w, http.StatusOK, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		if err := s.Ready(r.Context()); err != nil {
			say(w, http.StatusServiceUnavailable, err.Error())
			return
		}
		say(w, http.StatusOK, "ready")
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(o.Metrics, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /api/openapi.json", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		// A caller that went away is no failure.
		_, _ = w.Write(checked.document)
	})
	page, err := apipage.New(checked.spec)
	if err != nil {
		return Doors{}, err
	}
	mux.Handle("GET /api/docs", page)
	mux.Handle("GET /api/docs/", page)
	mux.HandleFunc("/api/", func(w http.ResponseWriter, r *http.Request) {
		fail(w, r, fault.Errorf(fault.NotFound, "there is no %s %s", r.Method, r.URL.Path).WithHint("see /api/openapi.json"))
	})
	if s.People != nil {
		s.mountPages(mux)
	}
	s.coursePages(mux)
	if o.Mount != nil {
		o.Mount(mux)
	}
	cross := http.NewCrossOriginProtection()
	cross.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fail(w, r, fault.Errorf(fault.Denied, "the request comes from another site"))
	}))
	door := s.observe(s.headers(s.bound(cross.Handler(s.authenticate(s.visited(s.forwarded(s.audited(route(mux)))))))))
	if s.Previews == nil {
		return Doors{API: door}, nil
	}
	previews := s.previews()
	return Doors{Previews: previews, API: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.isPassedOnPreview(r) {
			previews.ServeHTTP(w, r)
			return
		}
		door.ServeHTTP(w, r)
	})}, nil
}

// handlers are all tags of the contract together.
type handlers struct {
	serverHandlers
	accountHandlers
	judgeHandlers
	sandboxHandlers
	classHandlers
	usageHandlers
}

var _ api.StrictServerInterface = handlers{}

func (s *server) handlers() handlers {
	return handlers{
		serverHandlers{s.Server},
		accountHandlers{s.People, strings.TrimSuffix(s.PublicURL, "/")},
		judgeHandlers{s.Judge},
		sandboxHandlers{s.Sandboxes, s.Log, s.Previews},
		classHandlers{s.Classes},
		usageHandlers{s.Usage},
	}
}

func say(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	// A caller that went away is no failure.
	_, _ = w.Write([]byte(text + "\n"))
}

// from is the address a request comes from: that of the connection, or what a
// trusted proxy says.
func (s *server) from(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	if !s.trusted(host) {
		return host
	}
	list := strings.Split(r.Header.Get("X-Forwarded-For"), ",")
	for i := len(list) - 1; i >= 0; i-- {
		ip := strings.TrimSpace(list[i])
		if _, err := netip.ParseAddr(ip); err != nil {
			break
		}
		host = ip
		if !s.trusted(ip) {
			break
		}
	}
	return host
}

func (s *server) trusted(host string) bool {
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return false
	}
	for _, p := range s.TrustedProxies {
		if p.Contains(ip.Unmap()) {
			return true
		}
	}
	return false
}

// secure reports whether the user's browser speaks https.
func (s *server) secure(r *http.Request) bool {
	if s.Secure || r.TLS != nil {
		return true
	}
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	return err == nil && s.trusted(host) && r.Header.Get("X-Forwarded-Proto") == "https"
}

// CookieName is what the session's cookie is called. The prefix makes browsers
// refuse one that another host or a plain connection has set.
func (s *server) CookieName(r *http.Request) string {
	if s.secure(r) {
		return cookieSecure
	}
	return cookiePlain
}

const cookieSecure, cookiePlain = "__Host-assay", "assay"
