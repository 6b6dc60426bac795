package gvisor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"assay/internal/fault"
	"assay/internal/guest"
)

// echoServer serves HTTP on 8000 (IPv4) and echoes lines on 8001 (IPv6), where
// it answers the end of the input with the number of bytes.
const echoServer = `
import http.server, socket, threading
def echo():
    s = socket.socket(socket.AF_INET6); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1); s.bind(("::1", 8001)); s.listen(64)
    def one(c):
        n = 0
        while b := c.recv(65536):
            n += len(b); c.sendall(b)
        c.sendall(b"\nend %d" % n); c.close()
    while True:
        c, _ = s.accept(); threading.Thread(target=one, args=(c,), daemon=True).start()
threading.Thread(target=echo, daemon=True).start()
class H(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        b = b"hello from " + self.path.encode()
        self.send_response(200); self.send_header("Content-Length", str(len(b))); self.end_headers(); self.wfile.write(b)
    def log_message(self, *a): pass
http.server.ThreadingHTTPServer(("127.0.0.1", 8000), H).serve_forever()
`

func (b *box) serve() {
	b.t.Helper()
	b.write("/home/user/server.py", echoServer)
	b.sh("python3 /home/user/server.py >/dev/null 2>&1 &")
	for b.ctx.Err() == nil {
		conn, err := b.DialPort(b.ctx, 8000)
		if err == nil {
			_ = conn.Close()
			return
		}
		if !fault.Is(err, fault.Unavailable) {
			b.t.Fatal(err)
		}
	}
	b.t.Fatal("the server does not come up")
}

func (b *box) get(path string) (string, error) {
	tr := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return b.DialPort(ctx, 8000) }}
	defer tr.CloseIdleConnections()
	req, err := http.NewRequestWithContext(b.ctx, http.MethodGet, "http://guest"+path, nil)
	if err != nil {
		return "", err
	}
	resp, err := tr.RoundTrip(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return string(body), err
}

func TestDialPort(t *testing.T) {
	b := newBox(t)
	if _, err := b.DialPort(b.ctx, 8000); !fault.Is(err, fault.Unavailable) || fault.HintOf(err) == "" {
		t.Errorf("nobody listens: %v", err)
	}
	b.serve()
	for i := range 5 {
		if got, err := b.get(fmt.Sprintf("/%d", i)); err != nil || got != fmt.Sprintf("hello from /%d", i) {
			t.Errorf("%q, %v", got, err)
		}
	}

	// A half-close reaches the program, and its last words come back.
	var many sync.WaitGroup
	for range 8 {
		many.Go(func() {
			conn, err := b.DialPort(b.ctx, 8001)
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			content := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
			go func() {
				_, _ = conn.Write(content)
				_ = conn.(interface{ CloseWrite() error }).CloseWrite()
			}()
			got, err := io.ReadAll(conn)
			want := append(bytes.Clone(content), fmt.Sprintf("\nend %d", len(content))...)
			if err != nil || !bytes.Equal(got, want) {
				t.Errorf("%d bytes came back, want %d: %v", len(got), len(want), err)
			}
		})
	}
	many.Wait()

	conn, err := b.DialPort(b.ctx, 8001)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
	var timeout net.Error
	if _, err := conn.Read(make([]byte, 1)); !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Errorf("a deadline gives %v", err)
	}
	_ = conn.SetReadDeadline(time.Time{})
	b.Break()
	if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, guest.ErrSessionEnded) {
		t.Errorf("a broken session gives %v", err)
	}
}
