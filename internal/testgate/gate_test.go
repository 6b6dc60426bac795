package testgate

import (
	"net"
	"sync"
	"testing"
)

// TestShutCutsWhoIsJustComing: of those who come while the gate is being shut,
// none may be left behind, or Shut would wait for them.
func TestShutCutsWhoIsJustComing(t *testing.T) {
	t.Parallel()
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			c, err := server.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { // says nothing, until the other end goes
				_, _ = c.Read(make([]byte, 1))
				c.Close()
			})
		}
	})
	defer serving.Wait()
	defer server.Close()
	g := New(t, "tcp", server.Addr().String())
	for range 100 {
		var comers sync.WaitGroup
		for range 8 {
			comers.Go(func() {
				c, err := net.Dial("tcp", g.Address())
				if err != nil {
					return // it was shut before
				}
				_, _ = c.Read(make([]byte, 1)) // until it is cut
				c.Close()
			})
		}
		g.Shut()
		comers.Wait()
		g.Open(t)
	}
}
