package app

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"assay/internal/account"
	"assay/internal/config"
	"assay/internal/fault"
	"assay/internal/sandboxes"
)

// TestServerThatCannotOpenSaysWhy has one part after the other be missing: what
// was opened before is closed again.
func TestServerThatCannotOpenSaysWhy(t *testing.T) {
	t.Parallel()
	file := func(name string) func(*testing.T, string, *config.Server) {
		return func(t *testing.T, dir string, _ *config.Server) {
			if err := os.WriteFile(filepath.Join(dir, name), []byte("not a folder"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, spoil := range map[string]func(*testing.T, string, *config.Server){
		"database": func(_ *testing.T, _ string, c *config.Server) {
			c.DatabaseURL = "postgres://assay:hush@127.0.0.1:1/assay"
		},
		"damaged": file("assay.db"),
		"blobs":   file("blobs"),
		"bucket": func(_ *testing.T, _ string, c *config.Server) {
			c.BlobURL = "s3://key:hush@127.0.0.1:1/assay?insecure=1&region=x"
		},
		"events": file("bus"),
		"nats":   func(_ *testing.T, _ string, c *config.Server) { c.NATSURL = "nats://assay:hush@127.0.0.1:1" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			c := (&backing{}).config()
			spoil(t, dir, &c)
			s, err := OpenServer(t.Context(), ServerOptions{Config: c, DataDir: dir, Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
			if err == nil {
				t.Fatal("it opened", s.Close())
			}
			if !fault.Is(err, fault.Unavailable) {
				t.Errorf("got %v (%s), want it to be unavailable", err, fault.KindOf(err))
			}
		})
	}
}

// TestRunWaitsForWebSockets: what is closed after Run, somebody may be using
// until the end of a connection that is no request any more.
func TestRunWaitsForWebSockets(t *testing.T) {
	t.Parallel()
	s, _ := sweeper(t)
	s.config = (&backing{}).config()
	var err error
	if s.Accounts, err = account.New(s.db.Accounts(), account.Config{}, s.log); err != nil {
		t.Fatal(err)
	}
	s.Sandboxes, err = sandboxes.Open(t.Context(), sandboxes.Options{
		Store: s.db.Sandboxes(), Node: "one", Machines: sandboxes.NoMachines{}, Templates: sandboxes.NoMachines{}, Quota: s.quota, TokenQuota: tokenQuota, Log: s.log,
	})
	if err != nil {
		t.Fatal(err)
	}
	if s.listener, err = net.Listen("tcp", s.config.Listen); err != nil {
		t.Fatal(err)
	}
	s.nodes = s.openNodes()
	var ended atomic.Bool
	s.doors.API = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := websocket.Accept(w, r, nil)
		if err != nil {
			t.Error(err)
			return
		}
		<-r.Context().Done()
		// It has things to write, which takes a moment.
		<-time.After(100 * time.Millisecond)
		_ = c.CloseNow()
		ended.Store(true)
	})
	ctx, stop := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- s.Run(ctx) }()
	c, _, err := websocket.Dial(t.Context(), "ws://"+s.Address().String(), nil)
	if err != nil {
		t.Error(err)
	} else {
		defer func() { _ = c.CloseNow() }()
	}
	stop()
	if err := <-ran; err != nil {
		t.Error(err)
	}
	if !ended.Load() {
		t.Error("a connection was still served")
	}
}

// TestLinksHaveThePortThatWasFree asks for any port, and for no public address.
func TestLinksHaveThePortThatWasFree(t *testing.T) {
	t.Parallel()
	s := start(t, testData(t), (&backing{}).config())
	want := "http://" + s.Address().String()
	if got := s.URL(); got != want || strings.HasSuffix(got, ":0") {
		t.Errorf("the server is at %s, it says %s", want, got)
	}
	link, err := s.SetupLink(t.Context())
	if err != nil || !strings.HasPrefix(link, want+"/setup?code=") {
		t.Errorf("the link is %q, %v", link, err)
	}
}
