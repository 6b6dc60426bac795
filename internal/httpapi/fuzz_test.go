package httpapi

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/prometheus/client_golang/prometheus"

	"assay/api"
	"assay/internal/account"
	"assay/internal/blob"
	"assay/internal/classes"
	"assay/internal/httpapi/apipage"
	"assay/internal/usage"
)

// operation is one call of the contract.
type operation struct {
	method, path, kind string
	// example is a body that fits, or "".
	example string
}

// operations are all but those that follow something for as long as it takes.
func operations(t testing.TB) (list []operation) {
	spec, err := api.GetSpec()
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range spec.Paths.InMatchingOrder() {
		for method, op := range spec.Paths.Find(path).Operations() {
			if follows(op) {
				continue
			}
			o := operation{method: method, path: path}
			if op.RequestBody != nil {
				for kind, media := range op.RequestBody.Value.Content {
					o.kind = kind
					if kind == "application/json" {
						body, err := json.Marshal(apipage.Example(media.Schema.Value))
						if err != nil {
							t.Fatal(err)
						}
						o.example = string(body)
						break
					}
				}
			}
			list = append(list, o)
		}
	}
	slices.SortFunc(list, func(a, b operation) int { return strings.Compare(a.path+" "+a.method, b.path+" "+b.method) })
	return list
}

func follows(op *openapi3.Operation) bool {
	for _, r := range op.Responses.Map() {
		if r.Value.Content["text/event-stream"] != nil {
			return true
		}
	}
	return false
}

// wholeDoor is the door with every service: real stores, fake machines. names are
// things that are there, for the parameters of paths. "admin" is the token.
func wholeDoor(t testing.TB) (h http.Handler, names map[string]string) {
	c := newCourt(t)
	dir := t.TempDir()
	blobs, err := blob.OpenFolder(filepath.Join(dir, "blobs"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := blobs.Close(); err != nil {
			t.Error(err)
		}
	})
	class, err := classes.New(classes.Options{
		Store: c.db.Classes(), Blobs: blobs, Queue: noBus{}, Events: noBus{}, Accounts: courseAddresses{}, CacheDir: filepath.Join(dir, "cache"),
	})
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	accounts, err := account.New(c.db.Accounts(), account.Config{Hash: account.HashCost{Memory: 64, Passes: 1, Threads: 1}}, log)
	if err != nil {
		t.Fatal(err)
	}
	admin := account.User{ID: "u-admin", Login: "admin", Role: account.Admin, Created: time.Unix(1, 0)}
	if err := c.db.Accounts().CreateUser(t.Context(), admin); err != nil {
		t.Fatal(err)
	}
	h, err = New(Options{
		Log: log, Accounts: people{"admin": {User: admin.ID, Name: admin.Login, Role: account.Admin}}, People: accounts, Server: fixedInfo{},
		Metrics: prometheus.NewRegistry(), Judge: c.service, Sandboxes: fakeSandboxes(t), Classes: class, Usage: usage.New(c.db.Usage(), usage.Rates{}),
		Ready: func(context.Context) error { return nil }, PublicURL: "http://assay.example",
	})
	if err != nil {
		t.Fatal(err)
	}
	names = map[string]string{"problem": "sum", "submission": c.submission, "run": c.run, "user": "admin", "course": "algo"}
	asAdmin := func(path, body string, want int, v any) {
		w := as(h, "admin", "POST", path, body)
		if w.Code != want {
			t.Fatalf("%s: %d %s", path, w.Code, w.Body)
		}
		if err := json.Unmarshal(w.Body.Bytes(), v); err != nil {
			t.Fatal(err)
		}
	}
	var made struct{ ID string }
	asAdmin("/api/v1/courses", `{"id":"algo","title":"T","zone":"UTC"}`, 201, &made)
	asAdmin("/api/v1/sandboxes", `{"template":"base"}`, 201, &made)
	names["id"] = made.ID
	return h, names
}

// FuzzContract: whatever is sent to whichever call, it is not we who fail, and an
// answer that is no success says what was wrong, for people and for programs.
func FuzzContract(f *testing.F) {
	all := operations(f)
	for i, o := range all {
		f.Add(i, "", "", o.example)
		f.Add(i, "\x00/..%2f\n", "cursor=LTEgeA&limit=1&path=%00&name=%ff", `{"`)
		f.Add(i, "", "cursor=%21&limit=-1&path=/etc/../x&to=&after=9e99&from=x&by=label:", strings.ReplaceAll(o.example, `""`, `"\u0000"`))
	}
	h, names := wholeDoor(f)
	f.Fuzz(func(t *testing.T, i int, name, query, body string) {
		o := all[uint(i)%uint(len(all))]
		var path strings.Builder
		for _, part := range strings.Split(strings.TrimPrefix(o.path, "/"), "/") {
			if param, ok := strings.CutPrefix(part, "{"); ok {
				if part = names[strings.TrimSuffix(param, "}")]; part == "" || name != "" {
					part = name + "x"
				}
			}
			path.WriteString("/" + part)
		}
		// A call that takes its time is none of ours to wait for.
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		r := httptest.NewRequestWithContext(ctx, o.method, "http://assay.example/", strings.NewReader(body))
		r.URL = &url.URL{Scheme: "http", Host: "assay.example", Path: path.String(), RawQuery: query}
		r.Header.Set("Authorization", "Bearer admin")
		if o.kind != "" {
			r.Header.Set("Content-Type", o.kind)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if ctx.Err() != nil {
			return // what was cut off says anything
		}
		var e api.Error
		failed := json.Unmarshal(w.Body.Bytes(), &e) != nil || e.Code == "" || e.Error == ""
		switch {
		case w.Code < 400, w.Code == 499:
		case w.Code == http.StatusNotFound && w.Body.String() == "404 page not found\n":
			// A path that the mux cleans, as of a page.
		case failed:
			t.Errorf("%s %s?%s %q: %d %s", o.method, path.String(), query, body, w.Code, w.Body)
		case e.Code == "sandbox.unavailable" && strings.Contains(e.Error, "without a reason"):
			// Fake machines have commands, and no files or terminals.
		case w.Code >= 500 && w.Code != http.StatusNotImplemented && !strings.HasSuffix(e.Code, ".exhausted"):
			t.Errorf("%s %s?%s %q: %d %s", o.method, path.String(), query, body, w.Code, w.Body)
		}
	})
}
