package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"

	"golang.org/x/sys/unix"

	"assay/internal/fault"
	"assay/internal/guest"
)

// port connects the host with a port on the guest's loopback.
func (d *daemon) port(w http.ResponseWriter, r *http.Request) {
	port, err := strconv.ParseUint(r.URL.Query().Get("port"), 10, 16)
	if err != nil || port == 0 {
		guest.WriteFault(w, fault.Errorf(fault.Invalid, "port %.20q is not between 1 and 65535", r.URL.Query().Get("port")))
		return
	}
	conn, err := dialLoopback(r.Context(), strconv.FormatUint(port, 10))
	if err != nil {
		guest.WriteFault(w, err)
		return
	}
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(r.Context(), func() { _ = conn.Close() })()
	out := &frameWriter{w: w, rc: http.NewResponseController(w)}
	if out.frame(guest.FrameStarted, nil) != nil {
		return
	}
	received := make(chan error, 1)
	go func() {
		// The host's closing ends the other direction too; a broken stream does it
		// through the request's context.
		received <- receivePort(r.Body, conn)
	}()
	sent := make(chan error, 1)
	go func() { sent <- sendPort(conn, out) }()
	for range 2 {
		select {
		case err = <-received:
			received = nil
		case err = <-sent:
			sent = nil
		}
		if err != nil {
			break
		}
	}
	_ = conn.Close()
	if sent != nil {
		if e := <-sent; err == nil { // waited for in any case: it writes to w
			err = e
		}
	}
	if err != nil && !errors.Is(err, errHostClosed) && r.Context().Err() == nil {
		_ = out.json(guest.FrameFault, guest.ToWire(fault.Errorf(fault.Unavailable, "port %d: %w", port, err)))
	}
}

// dialLoopback tries both families: a server may listen on one only.
func dialLoopback(ctx context.Context, port string) (*net.TCPConn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp4", net.JoinHostPort("127.0.0.1", port))
	if err != nil {
		var err6 error
		if conn, err6 = d.DialContext(ctx, "tcp6", net.JoinHostPort("::1", port)); err6 != nil {
			f := fault.Errorf(fault.Unavailable, "dial port %s: %w", port, err)
			if errors.Is(err, unix.ECONNREFUSED) {
				return nil, f.WithHint("nothing in the sandbox listens on this port yet")
			}
			return nil, f
		}
	}
	return conn.(*net.TCPConn), nil
}

var errHostClosed = errors.New("closed by the host")

// receivePort carries the host's bytes to the connection. It gives nil after a
// half-close only when the stream then ends, and errHostClosed on a close.
func receivePort(body io.Reader, conn *net.TCPConn) error {
	in := guest.NewFrameReader(bufio.NewReaderSize(body, 64<<10))
	for {
		t, p, err := in.Next()
		if err != nil {
			return errHostClosed
		}
		switch t {
		case guest.FrameStdin:
			if _, err := conn.Write(p); err != nil {
				return err
			}
		case guest.FrameEOF:
			if err := conn.CloseWrite(); err != nil && !errors.Is(err, unix.ENOTCONN) {
				return err
			}
		case guest.FrameClose:
			return errHostClosed
		}
	}
}

// sendPort carries the connection's bytes to the host, and its end.
func sendPort(conn net.Conn, out *frameWriter) error {
	buf := make([]byte, 64<<10)
	for {
		n, err := conn.Read(buf)
		if n > 0 {
			if err := out.frame(guest.FrameStdout, buf[:n]); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return out.frame(guest.FrameEOF, nil)
		}
		if err != nil {
			return err
		}
	}
}
