package guest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"assay/internal/fault"
)

// PathPort is the path of a port's byte stream. Host to guest: FrameStdin,
// FrameEOF (half-close), FrameClose. Guest to host: FrameStarted, FrameStdout,
// FrameEOF (half-close), and FrameFault when the connection broke.
const PathPort = "/v1/port"

// FrameClose says that the sender neither writes nor reads any more.
const FrameClose FrameType = 11

// closeLinger is how long a closed connection may still deliver what was
// written to it.
const closeLinger = 5 * time.Second

// DialPort opens a byte stream to a port on the guest's loopback, IPv4 or IPv6.
// No network is involved: it works through guestd. ctx bounds the opening only;
// the connection lives until it is closed or the session with guestd ends, when
// reading gives an error that has ErrSessionEnded in its chain. Deadlines work,
// and CloseWrite closes one direction. Nobody listening is fault.Unavailable.
func (c *Client) DialPort(ctx context.Context, port int) (net.Conn, error) {
	if port < 1 || port > 65535 {
		return nil, fault.Errorf(fault.Invalid, "port %d is not between 1 and 65535", port)
	}
	life, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	opened := context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
	body, up := io.Pipe()
	resp, err := c.roundTrip(life, http.MethodPost, PathPort, url.Values{"port": {strconv.Itoa(port)}}, body) //nolint:bodyclose // the connection returned closes it
	if err == nil && resp.StatusCode/100 != 2 {
		err = decodeReply(resp, nil)
	}
	if err == nil && !opened() {
		err = context.Cause(ctx)
	}
	var user, inner *net.UnixConn
	if err == nil {
		user, inner, err = unixPair()
	}
	if err != nil {
		cancel(err)
		_ = body.Close()
		return nil, err
	}
	p := &portConn{Conn: user, unix: user, port: port, closed: make(chan struct{})}
	done := make(chan struct{})
	go p.send(inner, up, done)
	go func() {
		defer close(done)
		err := p.receive(inner, resp.Body)
		if err != nil && !errors.Is(err, errPortFault) {
			err = c.broken(life, http.MethodPost, PathPort, err)
		}
		p.fail(err)
		cancel(net.ErrClosed)
		_ = resp.Body.Close()
		_ = body.Close()
		_ = inner.Close()
	}()
	return p, nil
}

// unixPair gives two connected sockets. One of them is what a caller of
// DialPort holds: so deadlines and half-close are the kernel's.
func unixPair() (a, b *net.UnixConn, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fault.Errorf(fault.Exhausted, "make socket pair: %w", err)
	}
	var conns [2]*net.UnixConn
	for i, fd := range fds {
		f := os.NewFile(uintptr(fd), "port")
		c, cerr := net.FileConn(f)
		_ = f.Close()
		if cerr != nil {
			err = errors.Join(err, cerr)
			continue
		}
		conns[i] = c.(*net.UnixConn) // it is one: the pair is AF_UNIX
	}
	if err != nil {
		for _, c := range conns {
			if c != nil {
				_ = c.Close()
			}
		}
		return nil, nil, fault.Errorf(fault.Exhausted, "make socket pair: %w", err)
	}
	return conns[0], conns[1], nil
}

// portConn is the caller's end of a port's stream.
type portConn struct {
	// net.Conn hides UnixConn's other methods: io.Copy would read past Read.
	net.Conn
	unix   *net.UnixConn
	port   int
	once   sync.Once
	closed chan struct{}

	mu  sync.Mutex
	err error // why the stream ended, if not by a close
}

func (p *portConn) Read(b []byte) (int, error) {
	n, err := p.unix.Read(b)
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) && !errors.Is(err, net.ErrClosed) {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.err != nil {
			err = p.err // not an end of the stream: a cut
		}
	}
	return n, err
}

func (p *portConn) Write(b []byte) (int, error) {
	n, err := p.unix.Write(b)
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) && !errors.Is(err, net.ErrClosed) {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.err != nil {
			err = p.err
		}
	}
	return n, err
}

// Close closes both directions; what was written is still delivered.
func (p *portConn) Close() error {
	p.once.Do(func() { close(p.closed) })
	return p.unix.Close()
}

// CloseWrite ends what the guest reads; reading goes on.
func (p *portConn) CloseWrite() error { return p.unix.CloseWrite() }

func (p *portConn) fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.err = err
}

// LocalAddr and RemoteAddr name the guest's side of the stream.
func (p *portConn) LocalAddr() net.Addr  { return portAddr(0) }
func (p *portConn) RemoteAddr() net.Addr { return portAddr(p.port) }

type portAddr int

func (portAddr) Network() string  { return "guest" }
func (a portAddr) String() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(int(a))) }

// send carries what the caller writes to guestd, then how the caller's side
// was closed.
func (p *portConn) send(inner *net.UnixConn, up *io.PipeWriter, done <-chan struct{}) {
	defer up.Close()
	buf := make([]byte, 64<<10)
	for {
		n, err := inner.Read(buf)
		if n > 0 && WriteFrame(up, FrameStdin, buf[:n]) != nil {
			return // the stream is over
		}
		if err != nil {
			break
		}
	}
	select {
	case <-p.closed:
	default:
		if WriteFrame(up, FrameEOF, nil) != nil {
			return
		}
	}
	select {
	case <-p.closed:
	case <-done:
		return
	}
	linger := time.AfterFunc(closeLinger, func() { _ = up.CloseWithError(net.ErrClosed) })
	defer linger.Stop()
	if WriteFrame(up, FrameClose, nil) != nil {
		return
	}
	<-done
}

// errPortFault marks a fault that guestd reported.
var errPortFault = errors.New("connection in the guest broke")

// receive carries what guestd sends to the caller until the stream ends. A
// caller that has closed is no reason to stop: guestd ends the stream.
func (p *portConn) receive(inner *net.UnixConn, body io.Reader) error {
	frames := NewFrameReader(bufio.NewReaderSize(body, 64<<10))
	for {
		t, b, err := frames.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		switch t {
		case FrameStdout:
			_, _ = inner.Write(b)
		case FrameEOF:
			_ = inner.CloseWrite()
		case FrameFault:
			var w WireFault
			if err := json.Unmarshal(b, &w); err != nil {
				return err
			}
			return errors.Join(errPortFault, w.Fault())
		}
	}
}
