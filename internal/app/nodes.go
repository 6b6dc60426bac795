package app

import (
	"cmp"
	"context"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"sync"
	"time"

	"assay/internal/fault"
	"assay/internal/httpapi"
	"assay/internal/sandboxes"
	"assay/internal/work"
)

// nodes finds the process that has a sandbox, by the rows of the store.
type nodes struct {
	*http.Transport
	self string
	// runs says that this process makes sandboxes itself.
	runs  bool
	store work.Store
	rows  sandboxes.Store
	here  *sandboxes.Service
	// every is how often nodes show that they live.
	every time.Duration

	mu   sync.Mutex
	last []work.Node
	at   time.Time
	// sent is when sandboxes were sent to a node that it may not count yet.
	sent map[string][]time.Time
}

const (
	// nodesKept is how long the list of nodes is used without asking again.
	nodesKept = time.Second
	// nodeDial is how long a node may take to accept a connection.
	nodeDial = 3 * time.Second
	// sentCounts is how long a node may take to make a sandbox that it was sent:
	// until then what it says of itself may be without it.
	sentCounts = 5 * time.Second
	// usualMemory is what a sandbox is taken to need, in bytes, while a node has
	// none that would tell.
	usualMemory = 512 << 20
)

var _ httpapi.Nodes = (*nodes)(nil)

func (s *Server) openNodes() *nodes {
	return &nodes{
		Transport: &http.Transport{
			// Nodes are asked directly, whatever the environment says of proxies.
			Proxy: nil, DialContext: (&net.Dialer{Timeout: nodeDial}).DialContext,
			TLSHandshakeTimeout: nodeDial, MaxIdleConnsPerHost: 64, IdleConnTimeout: time.Minute,
			// Answers are passed on as they are.
			DisableCompression: true,
		},
		self: s.nodeName(), runs: s.config.Runs(), store: s.db.Work(), rows: s.db.Sandboxes(), here: s.Sandboxes,
		every: s.config.Lease / heartbeat, sent: map[string][]time.Time{},
	}
}

// list gives the nodes as they were a moment ago.
func (n *nodes) list(ctx context.Context) ([]work.Node, error) {
	n.mu.Lock()
	last, fresh := n.last, time.Since(n.at) < nodesKept
	n.mu.Unlock()
	if fresh {
		return last, nil
	}
	all, err := n.store.Nodes(ctx)
	if err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.last, n.at = all, time.Now()
	return all, nil
}

// Sandbox gives the node of a sandbox.
func (n *nodes) Sandbox(ctx context.Context, id string) (*httpapi.Peer, error) {
	if n.here.Here(id) {
		return nil, nil
	}
	r, err := n.rows.Sandbox(ctx, id)
	if err != nil {
		return n.unknown(err)
	}
	p, err := n.peer(ctx, r.Node)
	if p != nil {
		p.Ended = !r.Live()
	}
	return p, err
}

// Snapshot gives the node of a snapshot.
func (n *nodes) Snapshot(ctx context.Context, id string) (*httpapi.Peer, error) {
	r, err := n.rows.Snapshot(ctx, id)
	if err != nil {
		return n.unknown(err)
	}
	return n.peer(ctx, r.Node)
}

// unknown leaves what nobody has to this process, which says so.
func (n *nodes) unknown(err error) (*httpapi.Peer, error) {
	if fault.Is(err, fault.NotFound) {
		return nil, nil
	}
	return nil, err
}

func (n *nodes) peer(ctx context.Context, name string) (*httpapi.Peer, error) {
	if name == n.self {
		return nil, nil
	}
	all, err := n.list(ctx)
	if err != nil {
		return nil, err
	}
	p := &httpapi.Peer{Name: name}
	for _, node := range all {
		if node.ID == name {
			p.URL, p.Alive = n.reachable(node)
		}
	}
	return p, nil
}

// reachable gives the address of a node that lives.
func (n *nodes) reachable(node work.Node) (*url.URL, bool) {
	u, err := url.Parse(node.Address)
	if err != nil || u.Host == "" || node.Dead(time.Now(), n.every) {
		return nil, false
	}
	return u, true
}

// Room gives this process if it runs sandboxes, else the node with most room.
func (n *nodes) Room(ctx context.Context) (*httpapi.Peer, error) {
	if n.runs {
		return nil, nil
	}
	all, err := n.list(ctx)
	if err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	var best *httpapi.Peer
	var most int64
	for _, node := range all {
		u, ok := n.reachable(node)
		if room := n.room(node); ok && (best == nil || room > most) {
			best, most = &httpapi.Peer{Name: node.ID, URL: u, Alive: true}, room
		}
	}
	if best == nil {
		return nil, fault.Errorf(fault.Unavailable, "no node that runs sandboxes is alive").WithHint("start one: assay serve --role node")
	}
	n.sent[best.Name] = append(n.sent[best.Name], time.Now())
	return best, nil
}

// room is what a node has left, less what it was sent shortly before it said so,
// or after. The caller holds mu.
func (n *nodes) room(node work.Node) int64 {
	sent := slices.DeleteFunc(n.sent[node.ID], func(at time.Time) bool { return at.Add(sentCounts).Before(node.Seen) })
	n.sent[node.ID] = sent
	each := int64(usualMemory)
	if node.Sandboxes > 0 {
		each = node.Held / int64(node.Sandboxes)
	}
	return node.Memory - node.Held - int64(len(sent))*each
}

// nodeName is what this process is called as the home of sandboxes. One that
// has none must not be taken for a node on the same host.
func (s *Server) nodeName() string {
	if s.config.Runs() {
		return s.config.Node
	}
	return "api/" + s.config.Node
}

// load is what this node's sandboxes hold.
func (s *Server) load() work.Load {
	l := work.Load{Memory: s.Engine.Manager.Memory()}
	for _, sb := range s.Engine.Manager.List() {
		l.Sandboxes++
		l.Held += sb.Info().Shape.Memory
	}
	return l
}

// nodeURL is where other processes reach this one: by the configuration, or by
// the address that it listens on.
func (s *Server) nodeURL() string { return cmp.Or(s.config.NodeURL, s.listensAt()) }

// listensAt is the address at which the server listens as a URL. Where it
// listens on all of them the host's name stands for them, and the port is the
// real one where any was asked for.
func (s *Server) listensAt() string {
	host, port, err := net.SplitHostPort(s.listener.Addr().String())
	if err != nil {
		return "http://" + s.config.Listen
	}
	if ip := net.ParseIP(host); ip == nil || ip.IsUnspecified() {
		if name, err := os.Hostname(); err == nil {
			host = name
		}
	}
	return "http://" + net.JoinHostPort(host, port)
}
