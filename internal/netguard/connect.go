package netguard

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"
)

func hostPort(name string, port int) string { return net.JoinHostPort(name, strconv.Itoa(port)) }

// connect makes a tunnel. It carries TLS only, and only for the name that was
// asked for: a tunnel to one name must not be the way to another.
func (g *Gate) connect(w http.ResponseWriter, r *http.Request) {
	a := Attempt{How: "connect", Method: r.Method, Target: r.Host}
	name, port, err := g.admit(r.Host, 0)
	if err != nil {
		g.answer(w, a, err)
		return
	}
	a.Target = hostPort(name, port)
	out, err := g.dial(r.Context(), name, port)
	if err != nil {
		g.answer(w, a, err)
		return
	}
	defer func() { _ = out.Close() }()
	a.Address = out.address.String()
	hijacker, ok := w.(http.Hijacker)
	if !ok {
		g.answer(w, a, errors.ErrUnsupported)
		return
	}
	in, buffered, err := hijacker.Hijack()
	if err != nil {
		g.answer(w, a, err)
		return
	}
	defer in.Close()
	if _, err := io.WriteString(in, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		return
	}
	hello, said, err := serverName(in, buffered.Reader)
	switch {
	case err != nil:
		a.Why = NotTLS
	case said != name:
		a.Why = Mismatch
	default:
		a.Allowed = true
	}
	g.log.add(a)
	if !a.Allowed {
		return // the client sees its connection end: it was promised TLS
	}
	if _, err := out.Write(hello); err != nil {
		return
	}
	left := &budget{left: g.caps.RequestBytes}
	tunnel(in.(*innerConn), buffered.Reader, out, left)
	if left.spent() {
		a.Allowed, a.Why = false, TooLarge
		g.log.add(a)
	}
}

// maxHello bounds what is read before the client's hello is whole.
const maxHello = 64 << 10

// serverName reads the client's hello and gives it back together with the name
// in it, in its one written form; "" when there is none. The library's own
// server reads it: nobody else's parser, and no second opinion.
func serverName(conn net.Conn, from io.Reader) (hello []byte, name string, err error) {
	if err := conn.SetDeadline(time.Now().Add(headerWait)); err != nil {
		return nil, "", err
	}
	defer func() { err = errors.Join(err, conn.SetDeadline(time.Time{})) }()
	var read bytes.Buffer
	found := false
	_ = tls.Server(helloConn{conn, io.TeeReader(io.LimitReader(from, maxHello), &read)}, &tls.Config{
		GetConfigForClient: func(h *tls.ClientHelloInfo) (*tls.Config, error) {
			name, found = h.ServerName, true
			return nil, errHello
		},
	}).HandshakeContext(context.Background()) // always fails: with errHello, or because it is not TLS
	if !found {
		return nil, "", errors.New("not a TLS hello")
	}
	if name != "" {
		if name, err = cleanName(name); err != nil {
			name = "" // no name that a policy can have
		}
	}
	return read.Bytes(), name, nil
}

var errHello = errors.New("the hello has been read")

// helloConn reads a hello and writes nothing: the real server will answer.
type helloConn struct {
	net.Conn
	r io.Reader
}

func (c helloConn) Read(b []byte) (int, error)  { return c.r.Read(b) }
func (c helloConn) Write(b []byte) (int, error) { return len(b), nil }

// tunnel carries bytes both ways until both directions have ended, one has
// failed, the budget is spent, or nothing moved for a while.
func tunnel(in *innerConn, from *bufio.Reader, out *gateConn, left *budget) {
	var both sync.WaitGroup
	both.Go(func() {
		if carry(out, from, left, in, out) == nil {
			_ = out.CloseWrite()
			return
		}
		_, _ = in.Close(), out.Close()
	})
	both.Go(func() {
		if carry(in, out, left, in, out) == nil {
			_ = in.CloseWrite()
			return
		}
		_, _ = in.Close(), out.Close()
	})
	both.Wait()
}

// carry copies one direction; nil is its orderly end.
func carry(to io.Writer, from io.Reader, left *budget, in *innerConn, out *gateConn) error {
	buf := make([]byte, 32<<10)
	for {
		// Each move in either direction gives both more time.
		until := time.Now().Add(idleWait)
		if err := errors.Join(in.SetDeadline(until), out.SetDeadline(until)); err != nil {
			return err
		}
		n, err := from.Read(buf)
		if n > 0 {
			if !left.take(n) {
				return errSpent
			}
			if _, err := to.Write(buf[:n]); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
