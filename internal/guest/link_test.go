package guest

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"os"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// door is guestd's side of a link, without the rest of guestd.
type door struct {
	link    net.Conn
	mu      sync.Mutex
	session Session
	served  int
}

func (d *door) run() error {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+PathHello, func(w http.ResponseWriter, _ *http.Request) {
		d.mu.Lock()
		defer d.mu.Unlock()
		_ = json.NewEncoder(w).Encode(Hello{Version: Version, Generation: int64(d.served)})
	})
	mux.HandleFunc("POST "+PathQuiesce, func(w http.ResponseWriter, _ *http.Request) {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.session.EndWhenAsked()
		w.WriteHeader(http.StatusNoContent)
	})
	asked := false
	for {
		s, err := Accept(d.link, asked)
		if err != nil {
			return err
		}
		d.mu.Lock()
		d.session = s
		d.served++
		d.mu.Unlock()
		asked = Serve(s, mux)
	}
}

// socketPair is a link as the gVisor driver makes it.
func socketPair(t *testing.T) (host, inside net.Conn) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	conns := [2]net.Conn{}
	for i, fd := range fds {
		f := os.NewFile(uintptr(fd), "link")
		if conns[i], err = net.FileConn(f); err != nil {
			t.Fatal(err)
		}
		_ = f.Close()
	}
	return conns[0], conns[1]
}

func between(c *Client, ctx context.Context) error {
	return c.Between(ctx, func(context.Context) error { return nil })
}

func TestSessionsFollowEachOther(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		link func(t *testing.T) (net.Conn, net.Conn)
		end  func(c *Client, ctx context.Context) error
	}{
		{"ended on a socket", socketPair, between},
		{"ended on an unbuffered pipe", func(*testing.T) (net.Conn, net.Conn) { return net.Pipe() }, between},
		{"broken on a socket", socketPair, func(c *Client, _ context.Context) error { c.Break(); return nil }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			host, inside := tt.link(t)
			d := &door{link: inside}
			done := make(chan error, 1)
			go func() { done <- d.run() }()
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			c := NewClient(host)
			for i := range 5 {
				h, err := c.Hello(ctx)
				if err != nil {
					t.Fatalf("session %d: %v", i, err)
				}
				if h.Generation < int64(i+1) {
					t.Fatalf("session %d answered by session %d", i, h.Generation)
				}
				if err := tt.end(c, ctx); err != nil {
					t.Fatalf("end session %d: %v", i, err)
				}
			}
			c.Close()
			_ = host.Close()
			if err := <-done; err == nil {
				t.Error("guest's side goes on without a host")
			}
		})
	}
}
