package netns

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"assay/internal/netguard"
)

// TestSandboxReachesOnlyWhatIsAllowed is the table of what a hostile sandbox
// tries, done with the rights of the host's root in the sandbox's namespace.
// The outside is a namespace too: no packet of this test leaves the host.
func TestSandboxReachesOnlyWhatIsAllowed(t *testing.T) {
	t.Parallel()
	out := newOutside(t)
	r := newRig(t, Options{}, out)
	a, b := r.room(t, "*.example.org"), r.room(t, "*.example.org")
	proxy := r.yard.Proxy()
	get := func(url string) string { return "GET " + url + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n" }

	t.Run("allowed_name", func(t *testing.T) {
		got, err := a.ask(t, proxy, get("http://web.example.org/"))
		if err != nil || !strings.Contains(got, "200 OK") {
			t.Fatalf("%q, %v", got, err)
		}
		if !a.logged("http", "web.example.org:80", "") || b.logged("http", "", "") {
			t.Errorf("log of the one %v, of the other %v", a.log, b.log)
		}
	})
	proxied := []struct {
		name, request string
		want          netguard.Why
	}{
		{"name_next_to_it", get("http://beside.example.net/"), netguard.NotListed},
		{"metadata_by_name", get("http://metadata.example.org/"), netguard.Special},
		{"private_by_name", get("http://private.example.org/"), netguard.Special},
		{"mapped_by_name", get("http://mapped.example.org/"), netguard.Special},
		{"metadata_by_address", get("http://169.254.169.254/"), netguard.NoName},
		{"metadata_by_connect", "CONNECT 169.254.169.254:80 HTTP/1.1\r\n\r\n", netguard.NoName},
		{"decimal", get("http://2852039166/"), netguard.NoName},
		{"octal", get("http://0251.0376.0251.0376/"), netguard.NoName},
		{"mapped", get("http://[::ffff:169.254.169.254]/"), netguard.NoName},
		{"the_proxy_itself", get("http://" + proxy.String() + "/"), netguard.NoName},
		{"the_host", get("http://localhost/"), netguard.NotListed},
	}
	for _, tt := range proxied {
		t.Run(tt.name, func(t *testing.T) {
			got, err := a.ask(t, proxy, tt.request)
			if err != nil || !strings.Contains(got, " 403 ") {
				t.Errorf("%q, %v", got, err)
			}
			if !a.logged("http", "", tt.want) && !a.logged("connect", "", tt.want) {
				t.Errorf("log %v, want %s", a.log, tt.want)
			}
		})
	}
	gatewayA, _ := r.yard.network(a.index)
	gatewayB, _ := r.yard.network(b.index)
	direct := map[string]string{
		"other_sandbox": b.Guest().String() + ":80", "its_gateway": gatewayA.String() + ":3128", "other_gateway": gatewayB.String() + ":3128",
		"proxy_other_port": proxy.Addr().String() + ":22", "metadata": "169.254.169.254:80", "private": "10.0.0.5:80", "public": "93.184.215.14:80",
	}
	for _, host := range hostIPv4(t) {
		direct["host_"+host] = host + ":22"
	}
	for name, target := range direct {
		t.Run("tcp_"+name, func(t *testing.T) {
			err := a.inside(func() error {
				c, err := net.DialTimeout("tcp4", target, 2*time.Second)
				if err == nil {
					c.Close()
				}
				return err
			})
			if !refused(err) {
				t.Errorf("connecting to %s: %v", target, err)
			}
			r.waitLogged(t, a, "direct", target)
		})
		t.Run("udp_"+name, func(t *testing.T) {
			to := strings.Replace(strings.Replace(target, ":80", ":53", 1), ":22", ":53", 1)
			if err := a.inside(func() error { return askDNS(to) }); !refused(err) {
				t.Errorf("asking %s: %v", to, err)
			}
			r.waitLogged(t, a, "direct", to)
		})
	}
	t.Run("icmp", func(t *testing.T) {
		if err := a.inside(func() error { return sendRaw(unix.IPPROTO_ICMP, metadata, []byte{8, 0, 0xf7, 0xff, 0, 0, 0, 0}) }); err != nil {
			t.Fatal(err)
		}
		r.waitLogged(t, a, "direct", metadata.String()+":0")
	})
	t.Run("other_protocol", func(t *testing.T) {
		if err := a.inside(func() error { return sendRaw(132, web, make([]byte, 16)) }); err != nil {
			t.Fatal(err)
		}
		r.waitLogged(t, a, "direct", web.String()+":0")
	})
	t.Run("forged_source", func(t *testing.T) {
		// A packet in the name of the other sandbox, for the proxy.
		before := len(b.log)
		if err := a.inside(func() error { return sendFrame(forged(b.Guest(), proxy)) }); err != nil {
			t.Fatal(err)
		}
		if got, err := b.ask(t, proxy, get("http://web.example.org/")); err != nil || !strings.Contains(got, "200 OK") {
			t.Errorf("the other sandbox: %q, %v", got, err)
		}
		if len(b.log) != before+1 {
			t.Errorf("the other sandbox has %v", b.log)
		}
	})
	t.Run("ipv6_link_local", func(t *testing.T) {
		for _, target := range []string{"[fe80::1%eth0]:80", "[::1]:80", "[fd00:ec2::254]:80"} {
			err := a.inside(func() error {
				c, err := net.DialTimeout("tcp6", target, 2*time.Second)
				if err == nil {
					c.Close()
				}
				return err
			})
			if !refused(err) {
				t.Errorf("connecting to %s: %v", target, err)
			}
		}
	})
	t.Run("shut_door", func(t *testing.T) {
		if err := a.Shut(); err != nil {
			t.Fatal(err)
		}
		if got, err := a.ask(t, proxy, get("http://web.example.org/")); !refused(err) {
			t.Errorf("%q, %v", got, err)
		}
		if got, err := b.ask(t, proxy, get("http://web.example.org/")); err != nil {
			t.Errorf("the other sandbox: %q, %v", got, err)
		}
	})
	t.Run("counts", func(t *testing.T) {
		c, err := b.Counts()
		if err != nil || c.Sent == 0 || c.Received == 0 {
			t.Errorf("%+v, %v", c, err)
		}
	})
}

// hostIPv4 gives the addresses of the host that the test runs on.
func hostIPv4(t *testing.T) []string {
	t.Helper()
	list, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, a := range list {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && !n.IP.IsLoopback() {
			all = append(all, n.IP.String())
		}
	}
	return all
}

// askDNS sends what a tunnel through DNS would, and waits for an answer.
func askDNS(to string) error {
	c, err := net.Dial("udp4", to)
	if err != nil {
		return err
	}
	defer c.Close()
	query := "\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x06secret\x07example\x03org\x00\x00\x10\x00\x01"
	if _, err := c.Write([]byte(query)); err != nil {
		return err
	}
	if err := c.SetReadDeadline(time.Now().Add(2 * time.Second)); err != nil {
		return err
	}
	_, err = c.Read(make([]byte, 512))
	return err
}

// sendRaw sends a packet of any protocol.
func sendRaw(protocol int, to netip.Addr, body []byte) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, protocol)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Sendto(fd, body, 0, &unix.SockaddrInet4{Addr: to.As4()})
}

// sendFrame sends a whole Ethernet frame, past everything in the sandbox.
func sendFrame(frame []byte) error {
	eth, err := net.InterfaceByName("eth0")
	if err != nil {
		return err
	}
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Sendto(fd, frame, 0, &unix.SockaddrLinklayer{Ifindex: eth.Index, Halen: 6, Addr: [8]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}})
}

// forged is a TCP SYN in somebody else's name.
func forged(from netip.Addr, to netip.AddrPort) []byte {
	ip := make([]byte, 40)
	ip[0], ip[8], ip[9] = 0x45, 64, unix.IPPROTO_TCP
	binary.BigEndian.PutUint16(ip[2:], 40)
	f, d := from.As4(), to.Addr().As4()
	copy(ip[12:], f[:])
	copy(ip[16:], d[:])
	binary.BigEndian.PutUint16(ip[20:], 40000)
	binary.BigEndian.PutUint16(ip[22:], to.Port())
	ip[32], ip[33] = 0x50, 0x02
	return append([]byte("\xff\xff\xff\xff\xff\xff\x02\x00\x00\x00\x00\x01\x08\x00"), ip...)
}

func TestParsePacketTakesAnything(t *testing.T) {
	t.Parallel()
	for n := range 60 {
		b := make([]byte, n)
		if n > 9 {
			b[0], b[9] = 0x4f, unix.IPPROTO_UDP
		}
		_, _, _, _ = parsePacket(b) // must not panic
	}
	from, to, protocol, ok := parsePacket(forged(web, netip.MustParseAddrPort("10.0.0.5:22"))[14:])
	if got := fmt.Sprintf("%s %s %s %v", from, to, protocol, ok); got != "93.184.215.14 10.0.0.5:22 tcp true" {
		t.Error(got)
	}
}
