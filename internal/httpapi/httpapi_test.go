package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"assay/api"
	"assay/internal/account"
	"assay/internal/fault"
)

// people are accounts with fixed secrets.
type people map[string]account.Actor

func (p people) ByToken(_ context.Context, secret string) (account.Actor, error) {
	if a, ok := p[secret]; ok {
		return a, nil
	}
	return account.Actor{}, fault.Errorf(fault.Unauthenticated, "the token is wrong, has expired or was revoked")
}

func (p people) BySession(_ context.Context, secret string) (account.Actor, error) {
	return p[secret], nil
}

type fixedInfo struct{ err error }

func (fixedInfo) About() api.Server { return api.Server{Name: "assay", Version: "1", Driver: "fake"} }

func (f fixedInfo) Nodes(context.Context) ([]NodeState, error) {
	return []NodeState{{Name: "one", Alive: true, Seen: time.Unix(1, 0).UTC(), Processors: 2}}, f.err
}

func doorOptions() Options {
	return Options{
		Log:      slog.New(slog.DiscardHandler),
		Accounts: people{"admin": {User: "u1", Name: "ada", Role: account.Admin}, "member": {User: "u2", Name: "max", Role: account.Member}},
		Server:   fixedInfo{}, Metrics: prometheus.NewRegistry(), Ready: func(context.Context) error { return nil },
	}
}

func door(t *testing.T, change func(*Options)) http.Handler {
	t.Helper()
	o := doorOptions()
	if change != nil {
		change(&o)
	}
	h, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func ask(h http.Handler, method, path string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestErrorsHaveAStatusACodeAndAHint(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, method, path, bearer string
		err                        error
		status                     int
		code, retry                string
	}{
		{"nobody", "GET", "/api/v1/nodes", "", nil, 401, "node.unauthenticated", ""},
		{"wrong_token", "GET", "/api/v1/nodes", "nonsense", nil, 401, "node.unauthenticated", ""},
		{"not_allowed", "GET", "/api/v1/nodes", "member", nil, 403, "node.denied", ""},
		{"unknown_path", "GET", "/api/v1/nothing", "admin", nil, 404, "request.not_found", ""},
		{"bad_method", "PUT", "/api/v1/nodes", "admin", nil, 404, "node.not_found", ""},
		{"internal", "GET", "/api/v1/nodes", "admin", errors.New("secret detail"), 500, "node.internal", ""},
		{"gone", "GET", "/api/v1/nodes", "admin", fault.Errorf(fault.Unavailable, "the database does not answer"), 503, "node.unavailable", "5"},
		{"gone_with_reason", "GET", "/api/v1/nodes", "admin", fmt.Errorf("list nodes: %w", fault.Errorf(fault.Unavailable, "no connection: %w", errors.New("secret detail"))), 503, "node.unavailable", "5"},
		{"full", "GET", "/api/v1/nodes", "admin", errors.Join(fault.Errorf(fault.Exhausted, "no room"), fault.Errorf(fault.Exhausted, "%w", errors.New("secret detail"))), 503, "node.exhausted", "5"},
		{"limited", "GET", "/api/v1/nodes", "admin", fault.Errorf(fault.Limited, "slow down").TryAfter(90 * time.Second), 429, "node.limited", "90"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			h := door(t, func(o *Options) { o.Server = fixedInfo{tt.err} })
			var header []string
			if tt.bearer != "" {
				header = []string{"Authorization", "Bearer " + tt.bearer}
			}
			w := ask(h, tt.method, tt.path, header...)
			var e api.Error
			if err := json.Unmarshal(w.Body.Bytes(), &e); err != nil {
				t.Fatalf("%d %s: %v", w.Code, w.Body, err)
			}
			if w.Code != tt.status || e.Code != tt.code || w.Header().Get("Retry-After") != tt.retry {
				t.Errorf("got %d %q, retry after %q; want %d %q, %q", w.Code, e.Code, w.Header().Get("Retry-After"), tt.status, tt.code, tt.retry)
			}
			if e.RequestID == "" || e.RequestID != w.Header().Get("X-Request-Id") {
				t.Errorf("request ID %q in the body, %q in the header", e.RequestID, w.Header().Get("X-Request-Id"))
			}
			if strings.Contains(w.Body.String(), "secret detail") {
				t.Errorf("an internal error is shown: %s", w.Body)
			}
		})
	}
}

func TestEveryKindHasAStatus(t *testing.T) {
	t.Parallel()
	for kind := fault.Internal; kind == fault.Internal || kind.String() != fault.Internal.String(); kind++ {
		if statuses[kind] == 0 {
			t.Errorf("kind %s has no status", kind)
		}
	}
}

func TestAnswersHaveSafeHeaders(t *testing.T) {
	t.Parallel()
	w := ask(door(t, nil), "GET", "/api/v1/server")
	for name, want := range map[string]string{
		"X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Cache-Control": "no-store", "Content-Type": "application/json",
		"Strict-Transport-Security": "",
	} {
		if got := w.Header().Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if csp := w.Header().Get("Content-Security-Policy"); !strings.Contains(csp, "default-src 'self'") || strings.Contains(csp, "unsafe") {
		t.Errorf("the policy is %q", csp)
	}
	w = ask(door(t, func(o *Options) { o.Secure = true }), "GET", "/api/v1/server")
	if w.Header().Get("Strict-Transport-Security") == "" {
		t.Error("https is not asked for where it is spoken")
	}
}

func TestOtherSitesAreRefused(t *testing.T) {
	t.Parallel()
	h := door(t, nil)
	for _, tt := range []struct {
		name   string
		header []string
		status int
	}{
		{"same_site", []string{"Sec-Fetch-Site", "same-origin"}, 404},
		{"program", nil, 404},
		{"cross_site", []string{"Sec-Fetch-Site", "cross-site"}, 403},
		{"old_browser", []string{"Origin", "https://elsewhere.example"}, 403},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := ask(h, "POST", "/api/v1/nodes", append([]string{"Authorization", "Bearer admin"}, tt.header...)...).Code; got != tt.status {
				t.Errorf("got %d, want %d", got, tt.status)
			}
		})
	}
}

func TestBodiesAreBounded(t *testing.T) {
	t.Parallel()
	r := httptest.NewRequest("POST", "/api/v1/nodes", strings.NewReader(strings.Repeat("x", maxBody+1)))
	r.Header.Set("Authorization", "Bearer admin")
	w := httptest.NewRecorder()
	door(t, nil).ServeHTTP(w, r)
	if w.Code != http.StatusRequestEntityTooLarge {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
}

func TestTooManyRequests(t *testing.T) {
	t.Parallel()
	h := door(t, func(o *Options) { o.RequestsPerSecond = 1 })
	limited := false
	for range 3 * rateBurst {
		limited = ask(h, "GET", "/api/v1/nodes", "Authorization", "Bearer admin").Code == http.StatusTooManyRequests || limited
	}
	if !limited {
		t.Error("nobody is held back")
	}
	if got := ask(h, "GET", "/api/v1/nodes", "Authorization", "Bearer member").Code; got != 403 {
		t.Errorf("somebody else is held back: %d", got)
	}
}

func TestWhereARequestComesFrom(t *testing.T) {
	t.Parallel()
	s := &server{Options: Options{TrustedProxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}}
	for _, tt := range []struct{ name, remote, forwarded, want string }{
		{"direct", "203.0.113.7:1", "198.51.100.1", "203.0.113.7"},
		{"by_proxy", "127.0.0.1:1", "198.51.100.1", "198.51.100.1"},
		{"by_two", "127.0.0.1:1", "192.0.2.1, 198.51.100.1, 127.0.0.2", "198.51.100.1"},
		{"nonsense", "127.0.0.1:1", "x, y", "127.0.0.1"},
		{"none", "127.0.0.1:1", "", "127.0.0.1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := httptest.NewRequest("GET", "/", nil)
			r.RemoteAddr = tt.remote
			r.Header.Set("X-Forwarded-For", tt.forwarded)
			if got := s.from(r); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestStream(t *testing.T) {
	t.Parallel()
	body := stream(t.Context(), func(_ context.Context, send func(Event) error) error {
		return errors.Join(send(Event{"one", 1}), send(Event{"two", map[string]string{"a": "line\nend"}}))
	})
	var b strings.Builder
	buf := make([]byte, 4096)
	for {
		n, err := body.Read(buf)
		b.Write(buf[:n])
		if err != nil {
			break
		}
	}
	want := ":\n\nevent: one\ndata: 1\n\nevent: two\ndata: {\"a\":\"line\\nend\"}\n\n"
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Error(diff)
	}
	if err := body.Close(); err != nil {
		t.Error(err)
	}
}

// TestStreamEndsWithItsReader: a listener that goes away must not leave anybody
// behind.
func TestStreamEndsWithItsReader(t *testing.T) {
	t.Parallel()
	ended := make(chan struct{})
	body := stream(t.Context(), func(ctx context.Context, send func(Event) error) error {
		defer close(ended)
		for {
			if err := send(Event{"more", 0}); err != nil {
				return err
			}
		}
	})
	if _, err := body.Read(make([]byte, 10)); err != nil {
		t.Fatal(err)
	}
	if err := body.Close(); err != nil {
		t.Error(err)
	}
	<-ended
}
