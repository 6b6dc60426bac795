// Package sdk_test runs the tests and examples of the Python and TypeScript
// clients, and those of the published PandaStack clients, against a server over
// the real engine.
package sdk_test

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"assay/api"
	"assay/internal/account"
	"assay/internal/app"
	"assay/internal/compat/pandastack"
	"assay/internal/fault"
	"assay/internal/httpapi"
	"assay/internal/require"
	"assay/internal/sandboxes"
	"assay/internal/sqlstore"
)

// people are the accounts of the test's server.
type people map[string]account.Actor

func (p people) ByToken(_ context.Context, secret string) (account.Actor, error) {
	if a, ok := p[secret]; ok {
		return a, nil
	}
	return account.Actor{}, fault.Errorf(fault.Unauthenticated, "the token is wrong, has expired or was revoked").WithHint("make another one")
}

func (people) BySession(context.Context, string) (account.Actor, error) { return account.Actor{}, nil }

type about struct{}

func (about) About() api.Server                                  { return api.Server{Name: "assay", Version: "test", Driver: "gvisor"} }
func (about) Nodes(context.Context) ([]httpapi.NodeState, error) { return nil, nil }

// serve starts a server over the real engine and gives its URL.
func serve(t *testing.T) string {
	t.Helper()
	require.Root(t)
	shared := os.Getenv("ASSAY_TEST_DATA")
	require.Thing(t, "templates", shared != "", "ASSAY_TEST_DATA does not name a data directory with the base template: run make test")
	data := t.TempDir()
	if err := os.Symlink(filepath.Join(shared, "templates"), filepath.Join(data, "templates")); err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	engine, err := app.OpenEngine(t.Context(), app.Config{DataDir: data, BinDir: require.Binaries(t), Log: log})
	if err != nil {
		t.Fatal(err)
	}
	db, err := sqlstore.Open(t.Context(), filepath.Join(data, "assay.db"))
	if err != nil {
		t.Fatal(err)
	}
	service, err := engine.Sandboxes(t.Context(), sandboxes.Options{
		Store: db.Sandboxes(), Node: "test", Log: log,
		Quota: func(a account.Actor) sandboxes.Quota {
			if a.User == "few" {
				return sandboxes.Quota{Sandboxes: 1}
			}
			return sandboxes.Quota{CPUPerDay: time.Hour}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	var ran sync.WaitGroup
	ran.Go(func() { _ = service.Run(ctx) })
	users := people{
		"ann": {User: "ann", Name: "ann", Role: account.Member, Token: "t1"},
		"bob": {User: "bob", Name: "bob", Role: account.Member, Token: "t2"},
		"few": {User: "few", Name: "few", Role: account.Member, Token: "t3"},
		"not": {User: "not", Name: "not", Role: account.Member, Token: "t4", Scopes: []account.Scope{account.ScopeJudge}},
	}
	// The published clients want keys that begin so.
	for name, who := range maps.Clone(users) {
		users["pds_"+name] = who
	}
	// Only a browser knows names below localhost: what the tests need is the port.
	previews := httptest.NewUnstartedServer(nil)
	_, port, err := net.SplitHostPort(previews.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	doors, err := httpapi.Open(httpapi.Options{
		Previews: &httpapi.PreviewOptions{URL: &url.URL{Scheme: "http", Host: "localhost:" + port}},
		Log:      log, Server: about{}, Metrics: prometheus.NewRegistry(), Ready: func(context.Context) error { return nil }, Sandboxes: service,
		Accounts: users,
		Mount: func(mux *http.ServeMux) {
			mux.Handle("/v1/", pandastack.Handler(pandastack.Options{
				Service: service, Authenticate: users.ByToken, Templates: pandastack.DefaultTemplates(), Log: log,
			}))
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(doors.API)
	previews.Config.Handler = doors.Previews
	previews.Start()
	t.Cleanup(func() {
		for _, srv := range []*httptest.Server{srv, previews} {
			srv.CloseClientConnections()
			srv.Close()
		}
		stop()
		ran.Wait()
		if err := errors.Join(service.Close(), engine.Close(), db.Close()); err != nil {
			t.Error(err)
		}
	})
	return srv.URL
}

// run runs a program that fails by itself, and gives what it printed.
func run(t *testing.T, url string, env []string, argv ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = append(append(os.Environ(), "ASSAY_URL="+url, "ASSAY_TOKEN=ann", "PYTHONDONTWRITEBYTECODE=1"), env...)
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Fatalf("%s: %v", strings.Join(argv, " "), err)
	}
	return string(out)
}

// What the examples must print, in each language, as regular expressions: how long
// anything took is this machine's.
var examples = map[string][]string{
	"interview": {"hello from the interview", `stopped after \d+ s: wall_limit, exit code 124`, "stopped: memory_limit", "and the sandbox goes on"},
	"timeline":  {"made of the question's snapshot", "created solution.py", "modified solution.py", "created notes.md"},
	"capture":   {"captured 2 files", "hidden tests: 2 of 3 passed", "the hidden tests were never in the person's sandbox"},
}

func TestPython(t *testing.T) {
	python := require.Tool(t, "python3")
	url := serve(t)
	path, err := filepath.Abs("python")
	if err != nil {
		t.Fatal(err)
	}
	env := []string{"PYTHONPATH=" + path}
	t.Run("client", func(t *testing.T) { run(t, url, env, python, "python/tests/live.py") })
	for name, want := range examples {
		t.Run(name, func(t *testing.T) {
			out := run(t, url, env, python, "../examples/sdk/python/"+name+".py")
			said(t, out, want)
		})
	}
}

func said(t *testing.T, out string, want []string) {
	t.Helper()
	for _, line := range want {
		if !regexp.MustCompile(line).MatchString(out) {
			t.Errorf("it did not say %q", line)
		}
	}
}

func TestTypeScript(t *testing.T) {
	node := require.Tool(t, "node")
	_, err := os.Stat("typescript/node_modules/typescript")
	require.Thing(t, "pandastack", err == nil, "the TypeScript compiler is not installed: run tools/install-compat-packages")
	dist := t.TempDir()
	run(t, "", nil, node, "typescript/node_modules/typescript/bin/tsc", "-p", "typescript", "--outDir", dist)
	url := serve(t)
	// A module is found by the name of its folder.
	sdk := filepath.Join(dist, "node_modules", "assay-sdk")
	manifest := `{"name":"assay-sdk","type":"module","exports":"./src/index.js"}`
	if err := errors.Join(os.MkdirAll(filepath.Dir(sdk), 0o755), os.Symlink(dist, sdk), os.WriteFile(filepath.Join(dist, "package.json"), []byte(manifest), 0o600)); err != nil {
		t.Fatal(err)
	}
	t.Run("client", func(t *testing.T) {
		run(t, url, nil, node, "--experimental-websocket", "--no-warnings", filepath.Join(dist, "test", "live.js"))
	})
	for name, want := range examples {
		t.Run(name, func(t *testing.T) {
			script, err := os.ReadFile("../examples/sdk/typescript/" + name + ".mjs")
			if err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(dist, name+".mjs")
			if err := os.WriteFile(file, script, 0o600); err != nil {
				t.Fatal(err)
			}
			said(t, run(t, url, nil, node, file), want)
		})
	}
}
