package supervisor

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"assay/internal/fault"
	"assay/internal/guest"
	"assay/internal/sandbox"
)

// Client speaks to a supervisor. All methods may be called at the same time;
// errors are faults with the kinds that the engine gave. A sandbox is named by
// its ID or an unambiguous beginning of it: an unknown one is fault.NotFound,
// one that has ended fault.Conflict. While a Client is open its supervisor does
// not end. Close it.
type Client struct {
	http  *http.Transport
	hello Hello
}

// dial connects to the supervisor that lives, if one does.
func dial(ctx context.Context, dataDir string) (*Client, error) {
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	c := &Client{http: &http.Transport{
		Protocols: &protocols, DisableCompression: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return dialSocket(ctx, dataDir) },
		HTTP2:       &http.HTTP2Config{MaxReadFrameSize: 256 << 10, MaxReceiveBufferPerStream: 1 << 20},
	}}
	if err := c.call(ctx, http.MethodGet, "/v1/hello", nil, nil, &c.hello); err != nil {
		c.Close()
		return nil, err
	}
	if c.hello.Version != Version {
		c.Close()
		return nil, fault.Errorf(fault.Conflict, "the running supervisor (process %d) speaks version %d, this program %d", c.hello.PID, c.hello.Version, Version).
			WithHint("remove its sandboxes with the program that made them: it ends with the last one")
	}
	return c, nil
}

// Hello is what the supervisor said of itself.
func (c *Client) Hello() Hello { return c.hello }

// Close ends the connection.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// errBroken is in the chain when the connection to the supervisor broke.
var errBroken = errors.New("connection to the supervisor broke")

// do sends a request and gives an answer that is not a fault.
func (c *Client) do(ctx context.Context, method, path string, q url.Values, body io.Reader) (*http.Response, error) {
	u := url.URL{Scheme: "http", Host: "supervisor", Path: path, RawQuery: q.Encode()}
	req, err := http.NewRequestWithContext(ctx, method, u.String(), body)
	if err != nil {
		return nil, fault.Errorf(fault.Invalid, "make request to the supervisor: %w", err)
	}
	if body, ok := body.(io.Closer); ok {
		// HTTP/2 gives up a request only once its body has been read or closed.
		context.AfterFunc(ctx, func() { _ = body.Close() })
	}
	resp, err := c.http.RoundTrip(req)
	if err != nil {
		return nil, broken(ctx, err)
	}
	if resp.StatusCode/100 == 2 {
		return resp, nil
	}
	defer resp.Body.Close()
	var w guest.WireFault
	if json.NewDecoder(io.LimitReader(resp.Body, maxRequest)).Decode(&w) != nil || w.Kind == "" {
		return nil, fault.Errorf(fault.Internal, "the supervisor answered %s without a reason", resp.Status)
	}
	return nil, unwire(w)
}

// unwire makes the supervisor's fault again.
func unwire(w guest.WireFault) error {
	return &fault.Error{Kind: fault.ParseKind(w.Kind), Text: w.Text, Hint: w.Hint}
}

// broken names a transport's error: the caller's context, or the connection.
func broken(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if _, ok := errors.AsType[*fault.Error](err); ok {
		return err
	}
	return fault.Errorf(fault.Unavailable, "%w", fmt.Errorf("%w: %w", errBroken, err)).
		WithHint("if it died, the next command starts another one and removes its machines")
}

// call sends in (JSON, or nothing if nil) and reads the answer into out.
func (c *Client) call(ctx context.Context, method, path string, q url.Values, in, out any) error {
	var body io.Reader
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return fault.Errorf(fault.Invalid, "encode request to the supervisor: %w", err)
		}
		body = bytes.NewReader(b)
	}
	resp, err := c.do(ctx, method, path, q, body)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	return decodeAnswer(ctx, resp.Body, out)
}

func decodeAnswer(ctx context.Context, r io.Reader, out any) error {
	err := json.NewDecoder(r).Decode(out)
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		return fault.Errorf(fault.Internal, "decode the supervisor's answer: %w", err)
	}
	if err != nil {
		return broken(ctx, err)
	}
	return nil
}

// frames reads an answer of frames to its end, each but the last with on, and
// the last into out.
func frames(ctx context.Context, body io.Reader, out any, on func(guest.FrameType, []byte) error) error {
	in := guest.NewFrameReader(bufio.NewReaderSize(body, 64<<10))
	for {
		t, p, err := in.Next()
		if err != nil {
			return broken(ctx, err)
		}
		switch t {
		case guest.FrameResult:
			if out == nil {
				return nil
			}
			if err := json.Unmarshal(p, out); err != nil {
				return fault.Errorf(fault.Internal, "decode the supervisor's answer: %w", err)
			}
			return nil
		case guest.FrameFault:
			var w guest.WireFault
			if err := json.Unmarshal(p, &w); err != nil {
				return fault.Errorf(fault.Internal, "decode the supervisor's fault: %w", err)
			}
			return unwire(w)
		default:
			if on == nil {
				continue
			}
			if err := on(t, p); err != nil {
				return err
			}
		}
	}
}

func of(id, verb string) string {
	p := "/v1/sandboxes/" + url.PathEscape(id)
	if verb != "" {
		p += "/" + verb
	}
	return p
}

// Create makes a sandbox; tell hears of what takes long.
func (c *Client) Create(ctx context.Context, req CreateRequest, tell func(Progress)) (Sandbox, error) {
	var sb Sandbox
	b, err := json.Marshal(req)
	if err != nil {
		return sb, fault.Errorf(fault.Invalid, "encode request to the supervisor: %w", err)
	}
	resp, err := c.do(ctx, http.MethodPost, "/v1/sandboxes", nil, bytes.NewReader(b))
	if err != nil {
		return sb, err
	}
	defer resp.Body.Close()
	err = frames(ctx, resp.Body, &sb, func(_ guest.FrameType, p []byte) error {
		var progress Progress
		if err := json.Unmarshal(p, &progress); err != nil {
			return fault.Errorf(fault.Internal, "decode progress: %w", err)
		}
		tell(progress)
		return nil
	})
	return sb, err
}

// List gives all live sandboxes, oldest first.
func (c *Client) List(ctx context.Context) (list []Sandbox, err error) {
	return list, c.call(ctx, http.MethodGet, "/v1/sandboxes", nil, nil, &list)
}

// Get gives one live sandbox.
func (c *Client) Get(ctx context.Context, id string) (sb Sandbox, err error) {
	return sb, c.call(ctx, http.MethodGet, of(id, ""), nil, nil, &sb)
}

// Remove ends a sandbox in any state. That it had ended before is no error.
func (c *Client) Remove(ctx context.Context, id string) (r Removed, err error) {
	return r, c.call(ctx, http.MethodDelete, of(id, ""), nil, nil, &r)
}

// Wait waits for the end of a sandbox and says why it ended.
func (c *Client) Wait(ctx context.Context, id string) (r Removed, err error) {
	resp, err := c.do(ctx, http.MethodGet, of(id, "wait"), nil, nil)
	if err != nil {
		return r, err
	}
	defer resp.Body.Close()
	return r, frames(ctx, resp.Body, &r, nil)
}

// Pause stops everything in a sandbox; its deadlines go on.
func (c *Client) Pause(ctx context.Context, id string) (sb Sandbox, err error) {
	return sb, c.call(ctx, http.MethodPost, of(id, "pause"), nil, nil, &sb)
}

// Resume lets a paused sandbox go on.
func (c *Client) Resume(ctx context.Context, id string) (sb Sandbox, err error) {
	return sb, c.call(ctx, http.MethodPost, of(id, "resume"), nil, nil, &sb)
}

// Extend sets the hard deadline to ttl from now.
func (c *Client) Extend(ctx context.Context, id string, ttl time.Duration) (sb Sandbox, err error) {
	return sb, c.call(ctx, http.MethodPost, of(id, "extend"), nil, Terms{TTL: ttl}, &sb)
}

// SetNetwork changes what a sandbox may reach, at once.
func (c *Client) SetNetwork(ctx context.Context, id string, req NetworkRequest) (sb Sandbox, err error) {
	return sb, c.call(ctx, http.MethodPost, of(id, "network"), nil, req, &sb)
}

// Events gives the log of a sandbox, also of one that has ended.
func (c *Client) Events(ctx context.Context, id string) (list []sandbox.Event, err error) {
	return list, c.call(ctx, http.MethodGet, of(id, "events"), nil, nil, &list)
}

// Snapshot freezes a sandbox, which goes on. The snapshot is removed after
// keep; zero keeps it until RemoveSnapshot.
func (c *Client) Snapshot(ctx context.Context, id string, keep time.Duration) (snap sandbox.Snapshot, err error) {
	q := url.Values{"keep_ns": {strconv.FormatInt(int64(keep), 10)}}
	return snap, c.call(ctx, http.MethodPost, of(id, "snapshot"), q, nil, &snap)
}

// Snapshots gives all snapshots, oldest first.
func (c *Client) Snapshots(ctx context.Context) (list []sandbox.Snapshot, err error) {
	return list, c.call(ctx, http.MethodGet, "/v1/snapshots", nil, nil, &list)
}

// RemoveSnapshot removes a snapshot; sandboxes made from it go on.
func (c *Client) RemoveSnapshot(ctx context.Context, id string) error {
	return c.call(ctx, http.MethodDelete, "/v1/snapshots/"+url.PathEscape(id), nil, nil, new(struct{}))
}

// Fork makes children of a sandbox, which goes on. The error is about the fork
// as a whole; each child has its own.
func (c *Client) Fork(ctx context.Context, id string, req ForkRequest) (children []Child, err error) {
	return children, c.call(ctx, http.MethodPost, of(id, "fork"), nil, req, &children)
}
