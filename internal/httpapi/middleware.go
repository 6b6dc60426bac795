package httpapi

import (
	"context"
	"crypto/rand"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"assay/internal/account"
	"assay/internal/fault"
)

type requestIDKey struct{}

// RequestID is the ID of the request that a context belongs to, or "".
func RequestID(ctx context.Context) string {
	id, _ := ctx.Value(requestIDKey{}).(string)
	return id
}

// answer sees what a handler answers.
type answer struct {
	http.ResponseWriter
	status int
	bytes  int64
	// streams counts answers that are followed while they come; nil counts none.
	streams prometheus.Gauge
	stream  bool
}

func (a *answer) WriteHeader(status int) {
	// Of what a port of a sandbox says before its answer, nothing is the answer.
	before := status >= 100 && status < 200 && status != http.StatusSwitchingProtocols
	if a.status == 0 && !before {
		a.status = status
		if a.streams != nil && strings.HasPrefix(a.Header().Get("Content-Type"), "text/event-stream") {
			a.stream = true
			a.streams.Inc()
		}
	}
	a.ResponseWriter.WriteHeader(status)
}

func (a *answer) Write(b []byte) (int, error) {
	if a.status == 0 {
		a.WriteHeader(http.StatusOK)
	}
	n, err := a.ResponseWriter.Write(b)
	a.bytes += int64(n)
	return n, err
}

// Flush makes an answer a http.Flusher, which streams look for.
func (a *answer) Flush() {
	// A writer that cannot flush holds nothing back.
	_ = http.NewResponseController(a.ResponseWriter).Flush()
}

// Unwrap lets http.ResponseController reach the writer below.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// observe gives each request an ID, logs it when it has ended, counts it, and
// makes an answer of a panic. Queries are never logged: they may hold secrets.
func (s *server) observe(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := rand.Text()
		r = r.WithContext(context.WithValue(r.Context(), requestIDKey{}, id))
		w.Header().Set("X-Request-Id", id)
		a, begin := &answer{ResponseWriter: w, streams: s.metrics.streams}, time.Now()
		var seen seen
		r = r.WithContext(context.WithValue(r.Context(), seenKey{}, &seen))
		defer func() {
			p := recover()
			if p != nil && p != http.ErrAbortHandler { //nolint:errorlint // a panic's value, not an error that was wrapped
				s.Log.ErrorContext(r.Context(), "panic", "request", id, "panic", p, "stack", string(debug.Stack()))
				if a.status == 0 {
					Fail(s.Log, a, r, fault.Errorf(fault.Internal, "panic"))
				}
			}
			if a.stream {
				a.streams.Dec()
			}
			took := time.Since(begin)
			if a.status == 0 {
				a.status = http.StatusOK // nothing was written, which is an answer, too
			}
			s.metrics.observe(seen.route, a.status, took)
			level := slog.LevelInfo
			if strings.HasPrefix(r.URL.Path, "/healthz") || strings.HasPrefix(r.URL.Path, "/readyz") || r.URL.Path == "/metrics" {
				level = slog.LevelDebug
			}
			s.Log.Log(r.Context(), level, "request", "request", id, "method", r.Method, "path", r.URL.Path, "status", a.status,
				"bytes", a.bytes, "took_ms", took.Milliseconds(), "user", seen.who.Name, "token", seen.who.Token, "from", s.from(r))
			if p == http.ErrAbortHandler { //nolint:errorlint // as above
				panic(p) // an answer that must not look complete
			}
		}()
		next.ServeHTTP(a, r)
	})
}

// seen is what the layers below find out, for observe's log.
type seen struct {
	who   account.Actor
	route string
}

// Identified is a request of which a handler found out who asks, where no door
// before did: logs and the audit log have the actor, too.
func Identified(r *http.Request, a account.Actor) *http.Request {
	seenOf(r.Context()).who = a
	account.NoteOf(r.Context()).By(a)
	return r.WithContext(account.WithActor(r.Context(), a))
}

type seenKey struct{}

func seenOf(ctx context.Context) *seen {
	if s, ok := ctx.Value(seenKey{}).(*seen); ok {
		return s
	}
	return &seen{}
}

// route says which pattern takes a request: there are only so many.
func route(mux *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, pattern := mux.Handler(r)
		seenOf(r.Context()).route = pattern
		mux.ServeHTTP(w, r)
	})
}

// headers are those that every answer has.
func (s *server) headers(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=()")
		if s.secure(r) {
			h.Set("Strict-Transport-Security", "max-age=31536000")
		}
		if strings.HasPrefix(r.URL.Path, "/api/") || strings.HasPrefix(r.URL.Path, "/v1/") {
			h.Set("Cache-Control", "no-store")
		}
		next.ServeHTTP(w, r)
	})
}

// bound caps what a request may send. Doors for large things raise it with
// http.MaxBytesReader on the body they got: see Body.
func (s *server) bound(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		most := int64(maxBody)
		if large(r) {
			most = s.MaxUpload
		}
		if r.ContentLength > most {
			Fail(s.Log, w, r, &http.MaxBytesError{Limit: most})
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, most)
		next.ServeHTTP(w, r)
	})
}

// large reports whether a request brings a file, not a form or JSON.
func large(r *http.Request) bool {
	kind, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	switch strings.TrimSpace(strings.ToLower(kind)) {
	case "application/zip", "application/octet-stream", "application/x-tar", "application/gzip", "text/csv":
		return true
	}
	return false
}

// authenticate finds out who asks. A secret that is wrong is refused at once;
// none at all is nobody, whom most services refuse.
func (s *server) authenticate(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		actor, err := s.actor(r)
		if err != nil && !s.rates.allow(account.Actor{}, s.from(r)) {
			err = fault.Errorf(fault.Limited, "too many requests").WithHint("wait a moment").TryAfter(time.Second)
		}
		if err != nil {
			Fail(s.Log, w, r, err)
			return
		}
		seenOf(r.Context()).who = actor
		if !s.rates.allow(actor, s.from(r)) {
			Fail(s.Log, w, r, fault.Errorf(fault.Limited, "too many requests").WithHint("wait a moment").TryAfter(time.Second))
			return
		}
		next.ServeHTTP(w, r.WithContext(account.WithActor(r.Context(), actor)))
	})
}

func (s *server) actor(r *http.Request) (account.Actor, error) {
	if header := r.Header.Get("Authorization"); header != "" {
		scheme, secret, _ := strings.Cut(header, " ")
		if !strings.EqualFold(scheme, "Bearer") || strings.TrimSpace(secret) == "" {
			return account.Actor{}, fault.Errorf(fault.Unauthenticated, "the Authorization header is not \"Bearer <token>\"")
		}
		return s.Accounts.ByToken(r.Context(), strings.TrimSpace(secret))
	}
	if c, err := r.Cookie(s.CookieName(r)); err == nil && c.Value != "" {
		return s.Accounts.BySession(r.Context(), c.Value)
	}
	return account.Actor{}, nil
}
