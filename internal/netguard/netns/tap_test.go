package netns

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"assay/internal/fault"
)

// openTap gives the tap of a new room, or leaves the test to hosts that have one.
func openTap(t *testing.T, m *room) *os.File {
	t.Helper()
	tap, err := m.Tap()
	if err != nil {
		t.Fatalf("make a tap (%v): %v", fault.KindOf(err), err)
	}
	t.Cleanup(func() { _ = tap.Close() })
	return tap
}

// frame is an Ethernet frame of the guest's own making.
func frame(to []byte, kind uint16, payload []byte) []byte {
	f := append(bytes.Clone(to), 0x02, 0, 0, 0, 0, 0x01)
	return append(binary.BigEndian.AppendUint16(f, kind), payload...)
}

// arpRequest asks who has an address.
func arpRequest(from, who netip.Addr) []byte {
	p := []byte{0, 1, 8, 0, 6, 4, 0, 1, 0x02, 0, 0, 0, 0, 0x01}
	f, w := from.As4(), who.As4()
	p = append(append(append(p, f[:]...), 0, 0, 0, 0, 0, 0), w[:]...)
	return frame([]byte{255, 255, 255, 255, 255, 255}, unix.ETH_P_ARP, p)
}

// hear waits for a frame that fits.
func hear(t *testing.T, tap *os.File, fits func(frame []byte) bool) []byte {
	t.Helper()
	if err := tap.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	for buf := make([]byte, 2048); ; {
		n, err := tap.Read(buf)
		if err != nil {
			t.Fatalf("nothing came: %v", err)
		}
		if fits(buf[:n]) {
			return bytes.Clone(buf[:n])
		}
	}
}

// TestTapIsHeldToTheSameRules: frames of a guest's own making get no further than
// a sandbox's packets, and the guest's own address reaches the proxy.
func TestTapIsHeldToTheSameRules(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{}, nil)
	a, b := r.room(t, "web.example.org"), r.room(t, "web.example.org")
	tap := openTap(t, a)
	gateway, guest := r.yard.network(a.index)
	isARP := func(f []byte) bool {
		return len(f) >= 42 && binary.BigEndian.Uint16(f[12:]) == unix.ETH_P_ARP && f[21] == 2
	}
	if _, err := tap.Write(arpRequest(guest, gateway)); err != nil {
		t.Fatal(err)
	}
	mac := bytes.Clone(hear(t, tap, isARP)[6:12])
	send := func(packet []byte) {
		t.Helper()
		if _, err := tap.Write(frame(mac, unix.ETH_P_IP, packet)); err != nil {
			t.Fatal(err)
		}
	}
	// The SYN of forged has its checksums missing, which no filter looks at: a
	// packet for nobody is dropped and told before that.
	ip := func(from netip.Addr, to string) []byte {
		return checked(forged(from, netip.MustParseAddrPort(to))[14:])
	}
	for _, to := range []string{"169.254.169.254:80", "93.184.215.14:443", "10.192.0.1:22", netip.AddrPortFrom(b.Guest(), 80).String()} {
		send(ip(guest, to))
		r.waitLogged(t, a, "direct", to)
	}
	// The proxy answers the guest's own address.
	send(ip(guest, r.yard.Proxy().String()))
	hear(t, tap, func(f []byte) bool {
		return len(f) >= 54 && binary.BigEndian.Uint16(f[12:]) == unix.ETH_P_IP && f[23] == unix.IPPROTO_TCP && f[47] == 0x12 // SYN, ACK
	})
	// In the name of another it is who it is, and the other hears nothing of it.
	send(ip(b.Guest(), r.yard.Proxy().String()))
	r.waitLogged(t, a, "direct", r.yard.Proxy().String())
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.log) != 0 {
		t.Errorf("the other sandbox has %v", b.log)
	}
}

// TestMadeUpAddressesAreForgotten: a guest that sends from ever new hardware
// addresses leaves no trace of them in the host's kernel.
func TestMadeUpAddressesAreForgotten(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{}, nil)
	a := r.room(t)
	tap := openTap(t, a)
	for i := range 500 {
		f := frame([]byte{255, 255, 255, 255, 255, 255}, 0x88b5, make([]byte, 46))
		binary.BigEndian.PutUint16(f[10:], uint16(i))
		if _, err := tap.Write(f); err != nil {
			t.Fatal(err)
		}
	}
	gateway, guest := r.yard.network(a.index)
	// Behind this answer nothing is under way.
	if _, err := tap.Write(arpRequest(guest, gateway)); err != nil {
		t.Fatal(err)
	}
	hear(t, tap, func(f []byte) bool { return binary.BigEndian.Uint16(f[12:]) == unix.ETH_P_ARP && f[21] == 2 })
	if err := a.inside(func() error {
		n, err := learned()
		if n > 0 {
			t.Errorf("the bridge learned %d addresses", n)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

// checked puts the checksums into an IPv4 packet with a TCP header.
func checked(p []byte) []byte {
	sum := func(parts ...[]byte) uint16 {
		var n uint32
		for _, b := range parts {
			for i := 0; i+1 < len(b); i += 2 {
				n += uint32(binary.BigEndian.Uint16(b[i:]))
			}
		}
		for n > 0xffff {
			n = n>>16 + n&0xffff
		}
		return ^uint16(n)
	}
	binary.BigEndian.PutUint16(p[10:], 0)
	binary.BigEndian.PutUint16(p[10:], sum(p[:20]))
	binary.BigEndian.PutUint16(p[36:], 0)
	binary.BigEndian.PutUint16(p[36:], sum(p[12:20], []byte{0, p[9], 0, byte(len(p) - 20)}, p[20:]))
	return p
}

// learned counts what the calling thread's bridges know and were not told.
func learned() (int, error) {
	nl, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return 0, err
	}
	defer nl.Close()
	all, err := nl.NeighList(0, unix.AF_BRIDGE)
	n := 0
	for _, e := range all {
		if e.State&(netlink.NUD_PERMANENT|netlink.NUD_NOARP) == 0 {
			n++
		}
	}
	return n, err
}
