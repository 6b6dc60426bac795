package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"assay/api"
	"assay/internal/account"
	"assay/internal/fault"
	"assay/internal/sandbox"
	"assay/internal/sandbox/fake"
	"assay/internal/sandboxes"
	"assay/internal/sqlstore"
)

// fixedTemplate is "base", built.
type fixedTemplate sandbox.Template

func (f fixedTemplate) Template(_ context.Context, name string) (sandbox.Template, error) {
	if name != "base" {
		return sandbox.Template{}, fault.Errorf(fault.NotFound, "there is no template %s", name)
	}
	return sandbox.Template(f), nil
}

func (f fixedTemplate) Templates(context.Context) ([]sandboxes.Template, error) {
	return []sandboxes.Template{{Name: "base", Shape: f.Shape, Digest: f.Digest}}, nil
}

// fakeSandboxes is the service over fake machines.
func fakeSandboxes(t testing.TB, change ...func(*sandbox.Options)) *sandboxes.Service {
	t.Helper()
	dir := t.TempDir()
	db, err := sqlstore.Open(t.Context(), filepath.Join(dir, "assay.db"))
	if err != nil {
		t.Fatal(err)
	}
	template := fixedTemplate{
		Name: "base", Digest: "sha256:base", Image: filepath.Join(dir, "image"), Snapshots: filepath.Join(dir, "warm"),
		Shape: sandbox.Shape{VCPUs: 1, Memory: 64 << 20, Disk: 16 << 20, Processes: 32},
	}
	if err := os.WriteFile(template.Image, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	o := sandbox.Options{Driver: fake.New(), Dir: filepath.Join(dir, "engine"), CPUs: 2, Memory: 16 * 64 << 20}
	for _, f := range change {
		f(&o)
	}
	m, err := sandbox.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	var ran sync.WaitGroup
	ran.Go(func() { _ = m.Run(ctx) })
	service, err := sandboxes.Open(t.Context(), sandboxes.Options{Machines: m, Templates: template, Store: db.Sandboxes(), Node: "n1", QueueWait: fakeWait})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		err := service.Close()
		stop()
		ran.Wait()
		if err := errors.Join(err, m.Close(), db.Close()); err != nil {
			t.Error(err)
		}
	})
	return service
}

// fakeWait is how long a request waits for room among fake machines.
const fakeWait = 5 * time.Second

// sandboxDoor is the door over fake machines.
func sandboxDoor(t *testing.T, change ...func(*sandbox.Options)) http.Handler {
	t.Helper()
	service := fakeSandboxes(t, change...)
	return door(t, func(o *Options) {
		o.Sandboxes = service
		o.Accounts = people{
			"ann":  {User: "ann", Name: "ann", Role: account.Member, Token: "t1"},
			"bob":  {User: "bob", Name: "bob", Role: account.Staff, Token: "t2"},
			"page": {User: "ann", Name: "ann", Role: account.Member},
		}
	})
}

// as asks as somebody; a body is JSON.
func as(h http.Handler, who, method, path, body string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	if who != "" {
		r.Header.Set("Authorization", "Bearer "+who)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func read[T any](t *testing.T, w *httptest.ResponseRecorder, status int) (v T) {
	t.Helper()
	if err := json.Unmarshal(w.Body.Bytes(), &v); err != nil || w.Code != status {
		t.Fatalf("%d %s; want %d: %v", w.Code, w.Body, status, err)
	}
	return v
}

// TestSandboxRoutesAskWho: no route lets somebody else, or nobody, near a
// sandbox or a snapshot.
func TestSandboxRoutesAskWho(t *testing.T) {
	t.Parallel()
	h := sandboxDoor(t)
	sb := read[api.Sandbox](t, as(h, "ann", "POST", "/api/v1/sandboxes", `{"template":"base"}`), 201)
	snap := read[api.Snapshot](t, as(h, "ann", "POST", "/api/v1/sandboxes/"+sb.ID+"/snapshots", `{}`), 201)
	const tar, bytes = "application/x-tar", "application/octet-stream"
	for _, tt := range []struct{ method, path, body, kind string }{
		{"GET", "", "", ""},
		{"PATCH", "", `{"ttl_seconds":10}`, ""},
		{"DELETE", "", "", ""},
		{"POST", "/touch", "", ""},
		{"POST", "/pause", "", ""},
		{"POST", "/resume", "", ""},
		{"GET", "/network", "", ""},
		{"PUT", "/network", `{"allow":["a.example.org"]}`, ""},
		{"DELETE", "/network", "", ""},
		{"POST", "/network/end-setup", "", ""},
		{"POST", "/previews", `{"port":80}`, ""},
		{"DELETE", "/previews", "", ""},
		{"POST", "/exec", `{"command":"true"}`, ""},
		{"POST", "/exec/stream", `{"command":"true"}`, ""},
		{"GET", "/files?path=/etc/passwd", "", ""},
		{"PUT", "/files?path=/x", "x", bytes},
		{"DELETE", "/files?path=/x", "", ""},
		{"GET", "/files/stat?path=/", "", ""},
		{"GET", "/files/list?path=/", "", ""},
		{"POST", "/files/dir?path=/x", "", ""},
		{"POST", "/files/rename?path=/x&to=/y", "", ""},
		{"POST", "/files/mode?path=/x&mode=644", "", ""},
		{"GET", "/tree?path=/", "", ""},
		{"PUT", "/tree?path=/", "x", tar},
		{"GET", "/watch?path=/", "", ""},
		{"GET", "/events", "", ""},
		{"POST", "/snapshots", `{}`, ""},
		{"POST", "/fork", `{}`, ""},
		{"GET", "/terminal", "", ""},
		{"GET", "/ports/80/", "", ""},
		{"POST", "/ports/80/x", "", ""},
	} {
		checkForeign(t, h, tt.method, "/api/v1/sandboxes/"+sb.ID+tt.path, tt.body, tt.kind)
	}
	for _, tt := range []struct{ method, path, body string }{
		{"GET", "", ""}, {"DELETE", "", ""}, {"POST", "/fork", `{}`},
	} {
		checkForeign(t, h, tt.method, "/api/v1/snapshots/"+snap.ID+tt.path, tt.body, "")
	}
	for _, path := range []string{"/api/v1/sandboxes", "/api/v1/snapshots", "/api/v1/templates", "/api/v1/templates/base", "/api/v1/quota"} {
		if got := as(h, "", "GET", path, "").Code; got != 401 {
			t.Errorf("GET %s by nobody: %d", path, got)
		}
	}
	if got := read[api.SandboxList](t, as(h, "bob", "GET", "/api/v1/sandboxes?state=all", ""), 200); len(got.Items) != 0 {
		t.Errorf("bob sees %+v", got)
	}
	// A port's page would act for whoever is signed in.
	if got := as(h, "page", "GET", "/api/v1/sandboxes/"+sb.ID+"/ports/80/", "").Code; got != 403 {
		t.Errorf("a port for a page: %d", got)
	}
	// Nothing was done.
	if got := read[api.Sandbox](t, as(h, "ann", "GET", "/api/v1/sandboxes/"+sb.ID, ""), 200); got.State != "running" {
		t.Errorf("it is %s", got.State)
	}
	if got := read[api.SandboxEventList](t, as(h, "ann", "GET", "/api/v1/sandboxes/"+sb.ID+"/events", ""), 200); len(got.Items) != 2 {
		t.Errorf("events: %+v", got.Items)
	}
}

func checkForeign(t *testing.T, h http.Handler, method, path, body, kind string) {
	t.Helper()
	for who, want := range map[string]int{"": 401, "bob": 404} {
		header := []string{}
		if kind != "" {
			header = []string{"Content-Type", kind}
		}
		w := as(h, who, method, path, body, header...)
		if w.Code != want {
			t.Errorf("%s %s by %q: %d %s, want %d", method, path, who, w.Code, w.Body, want)
		}
	}
}

func TestSandboxRequestsAreChecked(t *testing.T) {
	t.Parallel()
	h := sandboxDoor(t)
	sb := read[api.Sandbox](t, as(h, "ann", "POST", "/api/v1/sandboxes", `{"template":"base"}`), 201)
	one := "/api/v1/sandboxes/" + sb.ID
	for name, tt := range map[string]struct {
		method, path, body string
		want               int
	}{
		"no_json":        {"POST", "/api/v1/sandboxes", `{`, 400},
		"unknown_field":  {"POST", "/api/v1/sandboxes", `{"template":"base","network":true}`, 400},
		"wrong_type":     {"POST", "/api/v1/sandboxes", `{"template":7}`, 400},
		"path":           {"POST", "/api/v1/sandboxes", `{"template":"../../etc"}`, 400},
		"nothing":        {"POST", "/api/v1/sandboxes", `{}`, 400},
		"negative_ttl":   {"POST", "/api/v1/sandboxes", `{"template":"base","ttl_seconds":-1}`, 400},
		"huge_ttl":       {"POST", "/api/v1/sandboxes", `{"template":"base","ttl_seconds":1e300}`, 400},
		"cursor":         {"GET", "/api/v1/sandboxes?cursor=%21", "", 400},
		"cursor_no_time": {"GET", "/api/v1/sandboxes?cursor=eA", "", 400},
		"label":          {"GET", "/api/v1/sandboxes?label=x", "", 400},
		"limit":          {"GET", "/api/v1/sandboxes?limit=0", "", 400},
		"state":          {"GET", "/api/v1/sandboxes?state=dead", "", 400},
		"id":             {"GET", "/api/v1/sandboxes/..%2fx", "", 400},
		"no_command":     {"POST", one + "/exec", `{}`, 400},
		"bad_env":        {"POST", one + "/exec", `{"command":"true","env":{"A=B":"c"}}`, 400},
		"two_inputs":     {"POST", one + "/exec", `{"command":"true","stdin":"a","stdin_base64":"YQ=="}`, 400},
		"bad_base64":     {"POST", one + "/exec", `{"command":"true","stdin_base64":"%"}`, 400},
		"user":           {"POST", one + "/exec", `{"command":"true","user":"nobody"}`, 400},
		"much_output":    {"POST", one + "/exec", `{"command":"true","limits":{"output_bytes":99999999}}`, 400},
		"no_path":        {"GET", one + "/files", "", 400},
		"mode":           {"POST", one + "/files/mode?path=/x&mode=999", "", 400},
		"many_children":  {"POST", one + "/fork", `{"count":65}`, 400},
		"port":           {"GET", one + "/ports/x/", "", 400},
		"large_port":     {"GET", one + "/ports/70000/", "", 400},
		"rows":           {"GET", one + "/terminal?rows=x", "", 400},
		"attach":         {"GET", one + "/terminal?attach=1", "", 400},
		"ttl_nothing":    {"PATCH", one, `{"ttl_seconds":0}`, 400},
	} {
		w := as(h, "ann", tt.method, tt.path, tt.body)
		var e api.Error
		if err := json.Unmarshal(w.Body.Bytes(), &e); err != nil || w.Code != tt.want || e.Error == "" || e.Code == "" {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
	}
}

func TestExecAnswers(t *testing.T) {
	t.Parallel()
	h := sandboxDoor(t)
	sb := read[api.Sandbox](t, as(h, "ann", "POST", "/api/v1/sandboxes", `{"template":"base","labels":{"a":"b"}}`, "Idempotency-Key", "k"), 201)
	again := read[api.Sandbox](t, as(h, "ann", "POST", "/api/v1/sandboxes", `{"template":"base","labels":{"a":"b"}}`, "Idempotency-Key", "k"), 201)
	if again.ID != sb.ID {
		t.Errorf("the key made %s and %s", sb.ID, again.ID)
	}
	if e := read[api.Error](t, as(h, "ann", "POST", "/api/v1/sandboxes", `{"template":"base"}`, "Idempotency-Key", "k"), 422); e.Code != "request.key_reused" {
		t.Errorf("another body: %+v", e)
	}
	run := "/api/v1/sandboxes/" + sb.ID + "/exec"
	r := read[api.ExecResult](t, as(h, "ann", "POST", run, `{"argv":["probe","both"]}`), 200)
	if r.Stdout != "out\n" || r.Stderr != "error\n" || r.ExitCode != 0 || r.Cause != "exited" {
		t.Errorf("both: %+v", r)
	}
	r = read[api.ExecResult](t, as(h, "ann", "POST", run, `{"argv":["sleep","60"],"timeout_seconds":0.05}`), 200)
	if r.ExitCode != 124 || !r.TimedOut || r.Cause != "wall_limit" || r.DurationUs < 50_000 {
		t.Errorf("a time limit: %+v", r)
	}
	r = read[api.ExecResult](t, as(h, "ann", "POST", run, `{"argv":["cat"],"stdin_base64":"/wA="}`), 200)
	if r.Stdout != "\uFFFD\x00" || string(r.StdoutBase64) != "\xff\x00" {
		t.Errorf("bytes: %q %q", r.Stdout, r.StdoutBase64)
	}
	w := as(h, "ann", "POST", run+"/stream", `{"argv":["probe","both"]}`)
	want := []string{":\n\n", "event: stdout\ndata: {\"chunk\":\"out\\n\"}\n\n", "event: stderr\ndata: {\"chunk\":\"error\\n\"}\n\n", "event: exit\n"}
	for _, part := range want {
		if !strings.Contains(w.Body.String(), part) {
			t.Errorf("stream %q lacks %q", w.Body, part)
		}
	}
	if kind := w.Header().Get("Content-Type"); kind != "text/event-stream; charset=utf-8" {
		t.Errorf("the stream is %s", kind)
	}
	if w := as(h, "ann", "DELETE", "/api/v1/sandboxes/"+sb.ID, ""); w.Code != 204 {
		t.Errorf("kill: %d", w.Code)
	}
	for _, path := range []string{run, run + "/stream"} {
		if e := read[api.Error](t, as(h, "ann", "POST", path, `{"argv":["true"]}`), 409); e.Code != "sandbox.conflict" || !strings.Contains(e.Error, "killed by ann") {
			t.Errorf("after its end: %+v", e)
		}
	}
}

func TestSandboxPages(t *testing.T) {
	t.Parallel()
	h := sandboxDoor(t)
	made := map[string]bool{}
	for range 5 {
		made[read[api.Sandbox](t, as(h, "ann", "POST", "/api/v1/sandboxes", `{"template":"base"}`), 201).ID] = true
	}
	cursor, pages := "", 0
	for {
		page := read[api.SandboxList](t, as(h, "ann", "GET", "/api/v1/sandboxes?limit=2&cursor="+cursor, ""), 200)
		for _, s := range page.Items {
			if !made[s.ID] {
				t.Errorf("%s is given twice, or nobody's", s.ID)
			}
			delete(made, s.ID)
		}
		pages++
		if cursor = page.Next; cursor == "" {
			break
		}
	}
	if len(made) != 0 || pages != 3 {
		t.Errorf("%d pages, %d are missing", pages, len(made))
	}
}

// TestWithoutEngine: a process that runs no sandboxes says so.
func TestWithoutEngine(t *testing.T) {
	t.Parallel()
	h := door(t, nil)
	for _, path := range []string{"/api/v1/sandboxes", "/api/v1/snapshots/x", "/api/v1/templates", "/api/v1/quota", "/api/v1/sandboxes/x/terminal", "/api/v1/sandboxes/x/ports/80/"} {
		if w := as(h, "member", "GET", path, ""); w.Code != 501 {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
	if w := as(h, "member", "GET", "/api/v1/server", ""); w.Code != 200 {
		t.Errorf("the server: %d", w.Code)
	}
}
