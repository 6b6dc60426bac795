package bustest

import (
	"net"
	"net/url"
	"os"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// Server is NATS with JetStream on a port of this host, as a cluster elsewhere
// would be.
type Server struct {
	dir  string
	port int
	s    *server.Server
}

// NATS starts a server; it is stopped by the test's cleanup.
func NATS(t testing.TB) *Server {
	t.Helper()
	n := &Server{dir: t.TempDir(), port: server.RANDOM_PORT}
	n.Start(t, false)
	t.Cleanup(n.Stop)
	return n
}

// Start starts it again where it was; lost is without anything it kept.
func (n *Server) Start(t testing.TB, lost bool) {
	t.Helper()
	if lost {
		if err := os.RemoveAll(n.dir); err != nil {
			t.Error(err)
		}
	}
	s, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: n.port, NoSigs: true, NoLog: true, JetStream: true, StoreDir: n.dir, Username: "assay", Password: "hush",
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	if !s.ReadyForConnections(time.Minute) {
		t.Fatal("the server is not ready")
	}
	n.s, n.port = s, s.Addr().(*net.TCPAddr).Port
}

// Stop stops it.
func (n *Server) Stop() {
	n.s.Shutdown()
	n.s.WaitForShutdown()
}

// URL is for bus.Dial.
func (n *Server) URL() string {
	u := url.URL{Scheme: "nats", User: url.UserPassword("assay", "hush"), Host: n.s.Addr().String()}
	return u.String()
}
