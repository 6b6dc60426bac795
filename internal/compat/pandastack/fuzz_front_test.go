package pandastack

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"assay/internal/account"
	"assay/internal/fault"
	"assay/internal/sandbox"
	"assay/internal/sandboxes"
	"assay/internal/sqlstore"
)

// FuzzFront: whatever a client sends, it is not we who fail, and the answer says
// what was wrong. There is the row of a sandbox, and no machine.
func FuzzFront(f *testing.F) {
	db, err := sqlstore.Open(f.Context(), filepath.Join(f.TempDir(), "assay.db"))
	if err != nil {
		f.Fatal(err)
	}
	s, err := sandboxes.Open(f.Context(), sandboxes.Options{
		Machines: sandboxes.NoMachines{}, Templates: sandboxes.NoMachines{}, Store: db.Sandboxes(), Node: "here", Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() {
		if err := s.Close(); err != nil {
			f.Error(err)
		}
		if err := db.Close(); err != nil {
			f.Error(err)
		}
	})
	row := sandboxes.Record{
		ID: "box", Owner: "u", Node: "elsewhere", Template: "base", Shape: sandbox.Shape{VCPUs: 1, Memory: 1 << 20, Disk: 1 << 20, Processes: 8},
		Created: time.Now(), Deadline: time.Now().Add(time.Hour),
	}
	if err := db.Sandboxes().AddSandbox(f.Context(), row); err != nil {
		f.Fatal(err)
	}
	h := Handler(Options{Service: s, Templates: DefaultTemplates(), Log: slog.New(slog.DiscardHandler), Authenticate: func(_ context.Context, key string) (account.Actor, error) {
		if key != "pds_x" {
			return account.Actor{}, fault.Errorf(fault.Unauthenticated, "the key is wrong")
		}
		return account.Actor{User: "u", Name: "u", Role: account.Member, Token: "t", Scopes: []account.Scope{account.ScopeSandboxes}}, nil
	}})
	for _, seed := range []struct{ method, path, query, body string }{
		{"POST", "sandboxes", "", `{"template":"base","ttl_seconds":-1,"metadata":{"a":"b"}}`},
		{"POST", "sandboxes", "", `{"from_snapshot":"x","cpu":1e99,"volumes":[{"name":"v"}]}`},
		{"POST", "sandboxes/box/exec", "", `{"cmd":"","timeout_seconds":1e308}`},
		{"POST", "sandboxes/box/exec/stream", "", `{"cmd":"ls","timeout_seconds":"1"}`},
		{"POST", "sandboxes/box/fork", "warm=1", `{"count":99,"mode":"cold"}`},
		{"POST", "sandboxes/box/fork-tree", "", `{"count":-1,"metadata":{"\u0000":"x"}}`},
		{"POST", "sandboxes/box/promote", "", `{"tree_id":"","cleanup_siblings":true}`},
		{"PATCH", "sandboxes/box/lifecycle", "", `{"ttl_seconds":9e18,"persistent":true}`},
		{"PUT", "sandboxes/box/fs", "path=/../../etc/x%00", "data"},
		{"GET", "sandboxes/box/fs/dir", "path=", ""},
		{"GET", "sandboxes/box/exec/pty", "rows=-1&cols=9e9", ""},
		{"GET", "sandboxes/box/proxy/99999999999/x", "", ""},
		{"POST", "sandboxes/box/snapshots", "", ""},
		{"DELETE", "snapshots/..%2f", "", ""},
		{"GET", "sandboxes", "access_token=pds_x", ""},
	} {
		f.Add(seed.method, seed.path, seed.query, seed.body)
	}
	f.Fuzz(func(t *testing.T, method, path, query, body string) {
		if method == "" || strings.ContainsFunc(method, func(r rune) bool { return r < 'A' || r > 'Z' }) {
			t.Skip("no method of HTTP")
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		r := httptest.NewRequestWithContext(ctx, method, "http://assay.example/", strings.NewReader(body))
		r.URL = &url.URL{Scheme: "http", Host: "assay.example", Path: "/v1/" + path, RawQuery: query}
		r.Header.Set("Authorization", "Bearer pds_x")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code < 500 || ctx.Err() != nil { // what was cut off says anything
			return
		}
		var e struct{ Error, Code string }
		if err := json.Unmarshal(w.Body.Bytes(), &e); err != nil || e.Error == "" || !strings.HasSuffix(e.Code, "unavailable") && w.Code != 501 {
			t.Errorf("%s %s?%s %q: %d %s", method, path, query, body, w.Code, w.Body)
		}
	})
}
