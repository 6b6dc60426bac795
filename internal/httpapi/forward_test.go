package httpapi

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"assay/api"
	"assay/internal/fault"
)

// rows say which node has what; "dead" is not alive, "ended" has ended there.
type rows struct {
	http.RoundTripper
	at map[string]*Peer
}

func (r rows) Sandbox(_ context.Context, id string) (*Peer, error)  { return r.at[id], nil }
func (r rows) Snapshot(_ context.Context, id string) (*Peer, error) { return r.at["snapshot "+id], nil }
func (r rows) Room(context.Context) (*Peer, error)                  { return r.at["room"], nil }

// passedOn is what a node was asked.
type passedOn struct {
	Method, Path, Query, Body, Host, Authorization, From, Hop, Cookie string
}

// node is another process: it tells what it was asked.
func node(t *testing.T) *Peer {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		w.Header().Set("X-Request-Id", "of the node")
		w.Header().Set("Content-Security-Policy", "of the node")
		w.WriteHeader(http.StatusAccepted)
		_ = json.NewEncoder(w).Encode(passedOn{
			r.Method, r.URL.EscapedPath(), r.URL.RawQuery, string(body), r.Host, r.Header.Get("Authorization"),
			r.Header.Get("X-Forwarded-For"), r.Header.Get(forwardedBy), r.Header.Get("Cookie"),
		})
	}))
	t.Cleanup(srv.Close)
	u, err := url.Parse(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	return &Peer{Name: "two", URL: u, Alive: true}
}

func TestRequestsGoWhereTheThingIs(t *testing.T) {
	t.Parallel()
	two := node(t)
	h := door(t, func(o *Options) {
		o.Nodes = rows{http.DefaultTransport, map[string]*Peer{
			"there": two, "snapshot frozen": two, "room": two,
			"dead": {Name: "three"}, "snapshot gone": {Name: "three"},
		}}
	})
	bearer := []string{"Authorization", "Bearer member"}
	tests := []struct {
		name, method, path, body string
		header                   []string
		// status is 202 where the node answers.
		status int
	}{
		{"sandbox", "POST", "/api/v1/sandboxes/there/exec?x=1", `{"shell":"ls"}`, bearer, 202},
		{"escaped", "GET", "/api/v1/sandboxes/there/ports/80/a%2Fb", "", bearer, 202},
		{"snapshot", "DELETE", "/api/v1/snapshots/frozen", "", bearer, 202},
		{"create", "POST", "/api/v1/sandboxes", `{"template":"base"}`, bearer, 202},
		{"create_of_snapshot", "POST", "/api/v1/sandboxes", `{"snapshot":"frozen"}`, bearer, 202},
		{"create_of_snapshot_of_dead_node", "POST", "/api/v1/sandboxes", `{"snapshot":"gone"}`, bearer, 503},
		{"templates", "GET", "/api/v1/templates", "", bearer, 202},
		{"other_front", "POST", "/v1/sandboxes", `{"from_snapshot":"frozen"}`, nil, 202},
		{"other_front_dead", "GET", "/v1/sandboxes/dead/fs?path=/a", "", nil, 503},
		{"dead", "POST", "/api/v1/sandboxes/dead/exec", `{}`, bearer, 503},
		{"kill_on_dead", "DELETE", "/api/v1/sandboxes/dead", "", bearer, 503},
		// 501 is this door's own answer: it has no sandboxes.
		{"nobody", "POST", "/api/v1/sandboxes", `{`, nil, 501},
		{"wrong_token", "POST", "/api/v1/sandboxes", `{}`, []string{"Authorization", "Bearer x"}, 401},
		{"passed_on_before", "POST", "/api/v1/sandboxes", `{`, append([]string{forwardedBy, "1"}, bearer...), 501},
		{"other_things", "GET", "/api/v1/nothing", "", bearer, 404},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := httptest.NewRequest(tt.method, "http://assay.example"+tt.path, strings.NewReader(tt.body))
			r.Header.Set("Content-Type", "application/json")
			for i := 0; i < len(tt.header); i += 2 {
				r.Header.Set(tt.header[i], tt.header[i+1])
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if w.Code != tt.status {
				t.Fatalf("got %d %s, want %d", w.Code, w.Body, tt.status)
			}
			if tt.status != 202 {
				var e api.Error
				if err := json.Unmarshal(w.Body.Bytes(), &e); err != nil || e.RequestID != w.Header().Get("X-Request-Id") || tt.status == 503 && e.Hint == "" {
					t.Errorf("got %s, %v", w.Body, err)
				}
				if tt.status == 503 && w.Header().Get("Retry-After") == "" {
					t.Error("no Retry-After")
				}
				return
			}
			path, query, _ := strings.Cut(tt.path, "?")
			want := passedOn{tt.method, path, query, tt.body, "assay.example", r.Header.Get("Authorization"), "192.0.2.1", "1", ""}
			var got passedOn
			if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("want -, got +:\n%s", diff)
			}
			for _, name := range []string{"X-Request-Id", "Content-Security-Policy"} {
				if got := w.Header().Values(name); len(got) != 1 || got[0] != "of the node" {
					t.Errorf("%s is %q", name, got)
				}
			}
			if w.Header().Get("X-Content-Type-Options") != "nosniff" {
				t.Error("headers that the node does not send are missing")
			}
		})
	}
}

func TestSessionsReachTheNodeUnderBothNames(t *testing.T) {
	t.Parallel()
	two := node(t)
	h := door(t, func(o *Options) {
		o.Secure, o.Nodes = true, rows{http.DefaultTransport, map[string]*Peer{"there": two}}
	})
	w := ask(h, "POST", "/api/v1/sandboxes/there/pause", "Cookie", "other=1; __Host-assay=member", "Sec-Fetch-Site", "same-origin")
	var got passedOn
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
		t.Fatal(w.Code, w.Body, err)
	}
	if want := "assay=member; __Host-assay=member"; got.Cookie != want {
		t.Errorf("cookie %q, want %q", got.Cookie, want)
	}
	if w = ask(h, "POST", "/api/v1/sandboxes/there/pause", "Cookie", "__Host-assay=member", "Sec-Fetch-Site", "cross-site"); w.Code != http.StatusForbidden {
		t.Errorf("another site: %d", w.Code)
	}
}

// Two doors that each take the other one for the home of a sandbox.
func TestNoRequestGoesAround(t *testing.T) {
	t.Parallel()
	asked := make(chan string, 10)
	doors := make([]*httptest.Server, 2)
	at := []map[string]*Peer{{}, {}}
	for i := range doors {
		h := door(t, func(o *Options) {
			o.Metrics, o.Nodes = prometheus.NewRegistry(), rows{http.DefaultTransport, at[i]}
			o.Mount = func(mux *http.ServeMux) {
				mux.HandleFunc("/v1/", func(w http.ResponseWriter, r *http.Request) {
					Fail(o.Log, w, r, fault.Errorf(fault.Conflict, "it is on another node"))
				})
			}
		})
		doors[i] = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked <- r.URL.Path
			h.ServeHTTP(w, r)
		}))
		t.Cleanup(doors[i].Close)
	}
	for i := range doors {
		u, err := url.Parse(doors[1-i].URL)
		if err != nil {
			t.Fatal(err)
		}
		at[i]["lost"] = &Peer{Name: "the other", URL: u, Alive: true}
	}
	res, err := http.Get(doors[0].URL + "/v1/sandboxes/lost/exec")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusConflict || len(asked) != 2 {
		t.Errorf("got %s after %d requests, want 409 after 2", res.Status, len(asked))
	}
}

func TestStreamsComeThroughWhileTheyRun(t *testing.T) {
	t.Parallel()
	next := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for range 2 {
			_, _ = io.WriteString(w, "data: 1\n\n")
			w.(http.Flusher).Flush()
			<-next
		}
	}))
	t.Cleanup(srv.Close)
	u, err := url.Parse(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	front := httptest.NewServer(door(t, func(o *Options) {
		o.Nodes = rows{http.DefaultTransport, map[string]*Peer{"there": {Name: "two", URL: u, Alive: true}}}
	}))
	t.Cleanup(front.Close)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "GET", front.URL+"/v1/sandboxes/there/logs", nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	buf := make([]byte, 64)
	for range 2 {
		// The next one is sent only when this one is here.
		if n, err := res.Body.Read(buf); err != nil || string(buf[:n]) != "data: 1\n\n" {
			t.Fatalf("got %q, %v", buf[:n], err)
		}
		next <- struct{}{}
	}
	if _, err := res.Body.Read(buf); err != io.EOF {
		t.Errorf("the end: %v", err)
	}
}

func TestNodeThatJustDied(t *testing.T) {
	t.Parallel()
	two := node(t)
	two.URL = &url.URL{Scheme: "http", Host: "127.0.0.1:1"}
	h := door(t, func(o *Options) { o.Nodes = rows{http.DefaultTransport, map[string]*Peer{"there": two}} })
	w := ask(h, "POST", "/api/v1/sandboxes/there/exec", "Authorization", "Bearer member")
	var e api.Error
	if err := json.Unmarshal(w.Body.Bytes(), &e); err != nil {
		t.Fatal(err)
	}
	if w.Code != 503 || e.Code != "sandbox.unavailable" || !strings.Contains(e.Error, "two") || strings.Contains(e.Error, "refused") {
		t.Errorf("got %d %+v", w.Code, e)
	}
}
