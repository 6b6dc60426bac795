package guest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"

	"assay/internal/fault"
)

// ErrSessionEnded is in the chain of every error that means: the session broke
// or was ended, the machine may still be there, and the call may be repeated
// if it is idempotent.
var ErrSessionEnded = errors.New("session with guestd ended")

// Client is the host's side of one machine's link. It opens a session when it
// needs one and a new one when the last broke. All methods may be called at
// the same time; errors are faults, and a call whose context ends stops.
type Client struct {
	link net.Conn

	// mu guards the fields below; it is held while a session is opened, so
	// that there is at most one. A silent guestd makes that long, and who waits
	// for it must be able to leave: so it is a channel that holds one value
	// while it is locked.
	mu      chan struct{}
	session *session
	conn    *http.ClientConn
	closed  bool
	cut     bool // the last session may have ended without guestd's knowing

	ending sync.Mutex // one Between at a time
}

// NewClient speaks to guestd at the other end of link. It does not own link.
func NewClient(link net.Conn) *Client { return &Client{link: link, mu: make(chan struct{}, 1)} }

// Continue speaks to a guestd that may be in a session with a process that has
// died: what that left on the link does no harm.
func Continue(link net.Conn) *Client {
	c := NewClient(link)
	c.cut = true
	return c
}

// Close ends the session and refuses further calls. The link stays open. It
// waits for a call that is just opening a session: end the machine first.
func (c *Client) Close() {
	c.lock()
	defer c.unlock()
	c.closed = true
	c.dropLocked()
}

// Break ends the session as a broken link would: running calls fail, guestd
// notices nothing until the next session. Tests of re-attachment use it.
func (c *Client) Break() {
	c.lock()
	defer c.unlock()
	c.dropLocked()
}

func (c *Client) lock()   { c.mu <- struct{}{} }
func (c *Client) unlock() { <-c.mu }

// lockWithin locks, or gives ctx's cause when that ends first.
func (c *Client) lockWithin(ctx context.Context) error {
	select {
	case c.mu <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// dropLocked forgets the session. Caller holds mu.
func (c *Client) dropLocked() {
	if c.conn != nil {
		_ = c.session.Close()
		_ = c.conn.Close()
		c.conn, c.session, c.cut = nil, nil, true
	}
}

// connect gives the open session, or opens one.
func (c *Client) connect(ctx context.Context) (*http.ClientConn, error) {
	if err := c.lockWithin(ctx); err != nil {
		return nil, err
	}
	defer c.unlock()
	if c.closed {
		return nil, fault.Errorf(fault.Conflict, "link to guestd is closed")
	}
	if c.conn != nil {
		if c.conn.Err() == nil {
			return c.conn, nil
		}
		c.dropLocked()
	}
	s, err := open(ctx, c.link, c.cut)
	if err != nil {
		return nil, fault.Errorf(fault.Unavailable, "open session with guestd: %w", err)
	}
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{
		Protocols:          &protocols,
		DisableCompression: true,
		DialContext:        func(context.Context, string, string) (net.Conn, error) { return s, nil },
		// The connection's own window keeps its large default: then a stream
		// that nobody reads fills its own window and stops only itself.
		HTTP2: &http.HTTP2Config{MaxReadFrameSize: 256 << 10, MaxReceiveBufferPerStream: streamWindow},
	}
	conn, err := transport.NewClientConn(ctx, "http", "guestd:80")
	if err != nil {
		_ = s.Close()
		return nil, fault.Errorf(fault.Unavailable, "open session with guestd: %w", err)
	}
	c.session, c.conn, c.cut = s, conn, false
	return conn, nil
}

// streamWindow is what guestd may send ahead on one stream, in bytes. It is
// below what guestd keeps of a running command's output, so that a broken
// session loses none of it.
const streamWindow = 512 << 10

// roundTrip sends one request. body may be nil.
func (c *Client) roundTrip(ctx context.Context, method, path string, query url.Values, body io.Reader) (*http.Response, error) {
	conn, err := c.connect(ctx)
	if err != nil {
		return nil, err
	}
	u := url.URL{Scheme: "http", Host: "guestd", Path: path, RawQuery: query.Encode()}
	req, err := http.NewRequestWithContext(ctx, method, u.String(), body)
	if err != nil {
		return nil, fault.Errorf(fault.Invalid, "make request to guestd: %w", err)
	}
	resp, err := conn.RoundTrip(req)
	if err != nil {
		return nil, c.broken(ctx, method, path, err)
	}
	return resp, nil
}

// broken names a transport error: the caller's context, or the session.
func (c *Client) broken(ctx context.Context, method, path string, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return fault.Errorf(fault.Unavailable, "%s %s: %w", method, path, errors.Join(ErrSessionEnded, err))
}

// call sends in (JSON, or nothing if nil) and reads the answer into out
// (or nothing if nil).
func (c *Client) call(ctx context.Context, method, path string, query url.Values, in, out any) error {
	var body io.Reader
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return fault.Errorf(fault.Invalid, "encode request to guestd: %w", err)
		}
		body = bytes.NewReader(b)
	}
	resp, err := c.roundTrip(ctx, method, path, query, body)
	if err != nil {
		return err
	}
	return decodeReply(resp, out)
}

// Hello asks guestd who it is; a first answer proves that the machine works.
func (c *Client) Hello(ctx context.Context) (Hello, error) {
	var h Hello
	if err := c.call(ctx, http.MethodGet, PathHello, nil, nil, &h); err != nil {
		return Hello{}, err
	}
	if h.Version != Version {
		return Hello{}, fault.Errorf(fault.Conflict, "guestd speaks wire version %d, this program %d", h.Version, Version).
			WithHint("build the template again: assay template build")
	}
	return h, nil
}

// Identify gives the machine an identity of its own.
func (c *Client) Identify(ctx context.Context, id Identity) error {
	return c.call(ctx, http.MethodPost, PathIdentity, nil, id, nil)
}

// Between ends the session, waits until guestd waits for a new one, and runs f
// while none is open: the machine can be snapshotted in f. Commands go on;
// calls under way that can be continued are, in the next session.
func (c *Client) Between(ctx context.Context, f func(context.Context) error) error {
	c.ending.Lock()
	defer c.ending.Unlock()
	if err := c.call(ctx, http.MethodPost, PathQuiesce, nil, nil, nil); err != nil {
		return err
	}
	if err := c.lockWithin(ctx); err != nil {
		return err
	}
	defer c.unlock()
	c.dropLocked()
	if err := awaitIdle(ctx, c.link); err != nil {
		return fault.Errorf(fault.Unavailable, "wait for guestd to end the session: %w", err)
	}
	c.cut = false
	return f(ctx)
}
