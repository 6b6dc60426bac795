package netns

import (
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// TestBothDirectionsAreShaped moves more than the burst each way: it cannot be
// faster than the rate. It may be slower, on a host that is busy.
func TestBothDirectionsAreShaped(t *testing.T) {
	t.Parallel()
	const rate, moved = 4 << 20, 5 << 20
	const least = time.Second * (moved - burst) / rate * 8 / 10
	y := openYard(t, Options{Rate: rate})
	ln, err := y.Listen()
	if err != nil {
		t.Fatal(err)
	}
	n, err := y.Make(t.Context())
	if err == nil {
		err = n.Open()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	var served sync.WaitGroup
	served.Go(func() { // in place of the proxy: sends, then takes the same back
		c, err := ln.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		if _, err := c.Write(make([]byte, moved)); err != nil {
			t.Error(err)
		}
		if got, err := io.Copy(io.Discard, io.LimitReader(c, moved)); err != nil || got != moved {
			t.Errorf("%d bytes came: %v", got, err)
		}
	})
	var c net.Conn
	if err := in(n.fd, func() (err error) {
		c, err = net.Dial("tcp4", y.Proxy().String())
		return err
	}); err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	slow := func(what string, f func() (int64, error)) {
		t.Helper()
		began := time.Now()
		if _, err := f(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if d := time.Since(began); d < least {
			t.Errorf("%s: %d bytes in %v, want at least %v at %d bytes a second", what, moved, d, least, rate)
		}
	}
	slow("into the sandbox", func() (int64, error) { return io.CopyN(io.Discard, c, moved) })
	slow("out of the sandbox", func() (int64, error) {
		sent, err := c.Write(make([]byte, moved))
		served.Wait()
		return int64(sent), err
	})
	if err := ln.Close(); err != nil {
		t.Error(err)
	}
	if counts, err := n.Counts(); err != nil || counts.Sent < moved || counts.Received < moved {
		t.Errorf("counted %+v, %v", counts, err)
	}
}
