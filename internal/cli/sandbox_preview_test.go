package cli

import (
	"bufio"
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rogpeppe/go-internal/testscript"

	"assay/internal/account"
	"assay/internal/fault"
	"assay/internal/httpapi"
	"assay/internal/sandbox"
	"assay/internal/sandbox/fake"
	"assay/internal/sandboxes"
	"assay/internal/sqlstore"
)

// plainTemplate is "base", built.
type plainTemplate sandbox.Template

func (p plainTemplate) Template(context.Context, string) (sandbox.Template, error) {
	return sandbox.Template(p), nil
}

func (p plainTemplate) Templates(context.Context) ([]sandboxes.Template, error) {
	return nil, fault.Errorf(fault.Unsupported, "it lists none")
}

// previewServer is a server with previews and one sandbox of "ada". done stops it.
func previewServer(ctx context.Context, dir string) (address, id string, done func(), err error) {
	db, err := sqlstore.Open(ctx, filepath.Join(dir, "assay.db"))
	if err != nil {
		return "", "", nil, err
	}
	template := plainTemplate{
		Name: "base", Digest: "sha256:base", Image: filepath.Join(dir, "image"), Snapshots: filepath.Join(dir, "warm"),
		Shape: sandbox.Shape{VCPUs: 1, Memory: 64 << 20, Disk: 16 << 20, Processes: 32},
	}
	if err := os.WriteFile(template.Image, nil, 0o600); err != nil {
		return "", "", nil, err
	}
	m, err := sandbox.Open(ctx, sandbox.Options{Driver: fake.New(), Dir: filepath.Join(dir, "engine"), CPUs: 2, Memory: 1 << 30})
	if err != nil {
		return "", "", nil, err
	}
	running, stop := context.WithCancel(ctx)
	var ran sync.WaitGroup
	ran.Go(func() { _ = m.Run(running) }) // ends with its context only
	service, err := sandboxes.Open(ctx, sandboxes.Options{Machines: m, Templates: template, Store: db.Sandboxes(), Node: "one"})
	if err != nil {
		stop()
		return "", "", nil, err
	}
	who := fixedTokens{"ada": account.Member, "bo": account.Member}
	doors, err := httpapi.Open(httpapi.Options{
		Log: slog.New(slog.DiscardHandler), Accounts: who, Server: noNodes{}, Metrics: prometheus.NewRegistry(), Sandboxes: service,
		Ready: func(context.Context) error { return nil }, Previews: &httpapi.PreviewOptions{URL: &url.URL{Scheme: "https", Host: "preview.example.org"}},
	})
	if err != nil {
		stop()
		return "", "", nil, err
	}
	ada, err := who.ByToken(ctx, "ada")
	if err != nil {
		stop()
		return "", "", nil, err
	}
	sb, err := service.Create(account.WithActor(ctx, ada), sandboxes.CreateRequest{Template: "base"})
	if err != nil {
		stop()
		return "", "", nil, err
	}
	web := httptest.NewServer(doors.API)
	return web.URL, sb.ID, func() {
		web.Close()
		_ = service.Close()
		stop()
		ran.Wait()
		_ = m.Close() // nothing was written that the test wants
		_ = db.Close()
	}, nil
}

func TestPreviewScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir: filepath.Join("testdata", "previews"),
		Setup: func(env *testscript.Env) error {
			address, id, done, err := previewServer(context.Background(), filepath.Join(env.WorkDir))
			if err != nil {
				return err
			}
			env.Defer(done)
			env.Setenv("SERVER", address)
			env.Setenv("ID", id)
			env.Setenv("HOME", env.WorkDir)
			env.Setenv("XDG_CONFIG_HOME", filepath.Join(env.WorkDir, "config"))
			return nil
		},
	})
}

// TestSandboxPreviewOnThisHost: the port is shown under a name of its own, and
// under no other.
func TestSandboxPreviewOnThisHost(t *testing.T) {
	t.Parallel()
	h := newSandboxHost(t)
	id := h.ok("", "create")
	cmd := h.command("preview", id, "8000", "--path", "/x?y=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var errs strings.Builder
	cmd.Stderr = &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	address, perr := url.Parse(strings.TrimSpace(line))
	if err != nil || perr != nil || !strings.HasPrefix(address.Host, "8000-"+id) || !strings.HasPrefix(address.Hostname(), "8000-") || address.RequestURI() != "/x?y=1" {
		t.Fatalf("preview printed %q, %v, %v", line, err, perr)
	}
	get := func(host string) (int, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+net.JoinHostPort("127.0.0.1", address.Port())+"/x", nil)
		if err != nil {
			t.Fatal(err)
		}
		if host != "" {
			r.Host = host
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		var body strings.Builder
		if _, err := bufio.NewReader(resp.Body).WriteTo(&body); err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, body.String()
	}
	if status, body := get(address.Host); status != 502 || !strings.Contains(body, "looks again") {
		t.Errorf("while nobody listens: %d %s", status, body)
	}
	h.ok("", "exec", "--leave", id, "--", "sh", "-c", `mkdir www; echo hello >www/x; cd www; python3 -m http.server 8000 --bind 127.0.0.1 >/dev/null 2>&1 &
		until python3 -c 'import socket; socket.create_connection(("127.0.0.1", 8000))' 2>/dev/null; do :; done`)
	if status, body := get(address.Host); status != 200 || body != "hello\n" {
		t.Errorf("got %d %q", status, body)
	}
	for _, host := range []string{"", "localhost:" + address.Port(), "8001-" + id + ".localhost:" + address.Port()} {
		if status, body := get(host); status != 404 || strings.Contains(body, "hello") {
			t.Errorf("as %q: %d %s", host, status, body)
		}
	}
	h.ok("", "rm", id)
	_ = cmd.Wait() // the code is looked at
	if code := cmd.ProcessState.ExitCode(); code != 4 || !strings.Contains(errs.String(), "has ended: destroyed") {
		t.Errorf("after the end: code %d, stderr %q", code, errs.String())
	}
}
