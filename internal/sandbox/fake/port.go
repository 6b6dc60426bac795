package fake

import (
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"

	"assay/internal/fault"
	"assay/internal/guest"
)

// SetPorts says who listens on ports of all machines from now on: dial gives a
// connection, or an error where nobody does.
func (d *Driver) SetPorts(dial func(port int) (net.Conn, error)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ports = dial
}

// port carries the bytes of a connection to a port.
func (m *machine) port(w http.ResponseWriter, r *http.Request) {
	m.d.mu.Lock()
	dial := m.d.ports
	m.d.mu.Unlock()
	n, err := strconv.Atoi(r.URL.Query().Get("port"))
	if err != nil || dial == nil {
		guest.WriteFault(w, fault.Errorf(fault.Unavailable, "dial port %d: nobody listens", n))
		return
	}
	c, err := dial(n)
	if err != nil {
		guest.WriteFault(w, fault.Errorf(fault.Unavailable, "dial port %d: %w", n, err))
		return
	}
	out := &frameWriter{w: w, rc: http.NewResponseController(w)}
	if out.frame(guest.FrameStarted, nil) != nil {
		_ = c.Close()
		return
	}
	ended := make(chan struct{})
	go func() { // ends with the stream, which ends with this call
		defer close(ended)
		toPort(c, guest.NewFrameReader(r.Body))
	}()
	err = fromPort(c, out)
	_ = c.Close()
	if err != nil {
		if b, jerr := json.Marshal(guest.ToWire(fault.Errorf(fault.Unavailable, "port %d: %w", n, err))); jerr == nil {
			_ = out.frame(guest.FrameFault, b)
		}
	}
	_ = r.Body.Close()
	<-ended
}

// toPort writes what the host sends.
func toPort(c net.Conn, in *guest.FrameReader) {
	for {
		t, p, err := in.Next()
		switch {
		case err != nil || t == guest.FrameClose:
			_ = c.Close()
			return
		case t == guest.FrameStdin:
			if _, err := c.Write(p); err != nil {
				return
			}
		case t == guest.FrameEOF:
			if half, ok := c.(interface{ CloseWrite() error }); ok {
				_ = half.CloseWrite()
			}
		}
	}
}

// fromPort sends what the port says.
func fromPort(c net.Conn, out *frameWriter) error {
	buf := make([]byte, 64<<10)
	for {
		n, err := c.Read(buf)
		if n > 0 && out.frame(guest.FrameStdout, buf[:n]) != nil {
			return nil
		}
		if errors.Is(err, io.EOF) {
			return out.frame(guest.FrameEOF, nil)
		}
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return nil
			}
			return err
		}
	}
}
