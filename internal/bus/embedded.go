package bus

import (
	"context"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"assay/internal/fault"
)

// embedded is a server within this process. It can be started again without its
// clients knowing more than that a connection broke.
type embedded struct {
	dir string

	// change is held while it is started or stopped, which takes long.
	change sync.Mutex

	// mu is never held for long: clients that connect wait for it.
	mu sync.Mutex
	// running is nil once it has been stopped for good.
	running *server.Server

	// stuck says that it answers but takes no events. A full disk leaves it so, and
	// room on the disk does not mend it.
	stuck atomic.Bool
}

// OpenEmbedded starts a server within this process, which nobody else can reach,
// with its files in a folder, and connects to it. One process at a time may do
// so. Close it.
func OpenEmbedded(ctx context.Context, dir string) (*Bus, error) {
	e := &embedded{dir: dir}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fault.Errorf(fault.Unavailable, "make the folder of events: %w", err)
	}
	var err error
	if e.running, err = e.start(); err != nil {
		return nil, err
	}
	return open(ctx, &Bus{replicas: 1, embedded: e}, "", nats.InProcessServer(e))
}

func (e *embedded) start() (*server.Server, error) {
	failed := func(err error) error {
		return fault.Errorf(fault.Unavailable, "start the embedded NATS: %w", err).WithHint("only live events are in %s: if it is damaged, remove it", e.dir)
	}
	s, err := server.NewServer(&server.Options{
		ServerName: "assay", DontListen: true, NoSigs: true, NoLog: true,
		JetStream: true, StoreDir: e.dir, JetStreamMaxMemory: 16 << 20, JetStreamMaxStore: 2 * keepBytes,
	})
	if err != nil {
		return nil, failed(err)
	}
	s.Start()
	if !s.ReadyForConnections(dialTimeout) || !s.JetStreamEnabled() {
		stopServer(s)
		return nil, failed(fmt.Errorf("it is not ready after %s", dialTimeout))
	}
	return s, nil
}

func stopServer(s *server.Server) {
	s.Shutdown()
	s.WaitForShutdown()
}

// InProcessConn connects to the server that runs now.
func (e *embedded) InProcessConn() (net.Conn, error) {
	s := e.server()
	if s == nil {
		return nil, net.ErrClosed
	}
	return s.InProcessConn()
}

func (e *embedded) server() *server.Server {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.running
}

func (e *embedded) replace(s *server.Server) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.running = s
}

// mend starts the server again where it is stuck, or has given its files up: it
// does so when they cannot be written, and never takes them back by itself.
func (e *embedded) mend() error {
	e.change.Lock()
	defer e.change.Unlock()
	s := e.server()
	if s == nil || (s.Running() && s.JetStreamEnabled() && !e.stuck.Load()) {
		return nil
	}
	stopServer(s)
	s, err := e.start()
	if err != nil {
		return err
	}
	e.stuck.Store(false)
	e.replace(s)
	return nil
}

func (e *embedded) stop() {
	e.change.Lock()
	defer e.change.Unlock()
	if s := e.server(); s != nil {
		stopServer(s)
		e.replace(nil)
	}
}

// mendEvery is how often a broken embedded server is looked for.
const mendEvery = 2 * time.Second
