package app

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"assay/internal/fault"
	"assay/internal/guest"
	"assay/internal/netguard"
	"assay/internal/require"
	"assay/internal/sandbox"
)

// standIn is the outside of a test: names and addresses that lead to its own
// servers on the loopback interface and nowhere else.
type standIn struct {
	names   map[string]string
	servers map[string]string // by address and port
}

var webServer = "93.184.215.14"

func newStandIn() *standIn {
	return &standIn{names: map[string]string{
		"web.example.org": webServer, "example.com": webServer, "beside.example.net": webServer, "metadata.example.org": "169.254.169.254",
	}, servers: map[string]string{}}
}

func (s *standIn) options() netguard.Options {
	return netguard.Options{
		Resolve: func(_ context.Context, name string) ([]netip.Addr, error) {
			if a, ok := s.names[name]; ok {
				return []netip.Addr{netip.MustParseAddr(a)}, nil
			}
			return nil, os.ErrNotExist
		},
		Dial: func(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
			at, ok := s.servers[to.String()]
			if !ok {
				return nil, fmt.Errorf("nobody at %s", to)
			}
			return new(net.Dialer).DialContext(ctx, "tcp", at)
		},
	}
}

// netEngine is an engine whose sandboxes reach a stand-in.
func netEngine(t testing.TB, s *standIn, pool int) (*Engine, sandbox.Template) {
	t.Helper()
	return netEngineOf(t, "gvisor", s, pool)
}

// netEngineOf is one of a driver; QEMU emulates, whatever this host can.
func netEngineOf(t testing.TB, driver string, s *standIn, pool int) (*Engine, sandbox.Template) {
	t.Helper()
	e, err := OpenEngine(t.Context(), Config{DataDir: testData(t), BinDir: require.Binaries(t), Driver: driver, Accel: "tcg", Pool: pool, Outside: s.options()})
	if driver == "qemu" && fault.Is(err, fault.Unsupported) {
		require.Thing(t, "qemu", false, err.Error())
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	base, err := e.Template(t.Context(), "base", nil)
	if err != nil {
		t.Fatal(err)
	}
	return e, base
}

func createOf(t *testing.T, e *Engine, spec sandbox.Spec) *sandbox.Sandbox {
	t.Helper()
	s, err := e.Manager.Create(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Destroy(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// runIn runs a command and gives what it wrote.
func runIn(t *testing.T, s *sandbox.Sandbox, user string, argv ...string) (string, sandbox.Exit) {
	t.Helper()
	var out bytes.Buffer
	res, err := s.Exec(t.Context(), sandbox.ExecSpec{Argv: argv, User: user, Limits: sandbox.Limits{Wall: 3 * time.Minute}}, guest.IO{Stdout: &out, Stderr: &out})
	if err != nil {
		t.Fatal(err)
	}
	return out.String(), res.Exit
}

// fetch asks for a URL as a program does, and prints its status and body.
const fetch = `
import sys, urllib.request, urllib.error
try:
    r = urllib.request.urlopen(sys.argv[1], timeout=20)
    print(r.status, r.read().decode())
except urllib.error.HTTPError as e:
    print(e.code, e.read().decode())
except OSError as e:
    print("no", e)
`

func fetchIn(t *testing.T, s *sandbox.Sandbox, url string) string {
	t.Helper()
	out, _ := runIn(t, s, "", "python3", "-c", fetch, url)
	return out
}

// attempts are those in a sandbox's log.
func attempts(s *sandbox.Sandbox) (list []map[string]any) {
	for _, e := range s.Events() {
		if a, ok := e.Detail["attempt"].(map[string]any); ok && e.Kind == "network" {
			list = append(list, a)
		}
	}
	return list
}

func logged(s *sandbox.Sandbox, how, target string, allowed bool) bool {
	return slices.ContainsFunc(attempts(s), func(a map[string]any) bool {
		return a["how"] == how && a["target"] == target && a["allowed"] == allowed
	})
}

// hostileProgram tries to reach things past the proxy, as user and as root of
// the machine, and prints what it reached.
const hostileProgram = `
import socket, struct, sys
def attempt(name, f):
    try:
        f()
        print("REACHED", name)
    except OSError as e:
        print("no", name, e)
def tcp(host, port, family=socket.AF_INET):
    s = socket.socket(family, socket.SOCK_STREAM); s.settimeout(2); s.connect((host, port))
def udp(host):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(.3)
    s.sendto(b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x06secret\x07example\x03org\x00\x00\x10\x00\x01", (host, 53)); s.recv(512)
def raw():
    s = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP); s.sendto(b"\x08\x00\xf7\xff\x00\x00\x00\x00", ("169.254.169.254", 0)); s.settimeout(.3); s.recv(512)
def ping():
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP); s.sendto(b"\x08\x00\xf7\xff\x00\x00\x00\x00", ("169.254.169.254", 0)); s.settimeout(.3); s.recv(512)
def packet():
    s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)); s.bind(("eth0", 0)); s.send(b"\xff" * 6 + b"\x02\0\0\0\0\1" + b"\x08\0" + b"\0" * 40); s.settimeout(.3); s.recv(2048)
for target in sys.argv[1:]:
    host, port = target.rsplit(":", 1)
    attempt("tcp " + target, lambda: tcp(host, int(port)))
for host in ("169.254.169.254", "93.184.215.14", "10.192.0.1"):
    attempt("dns " + host, lambda: udp(host))
attempt("raw", raw)
attempt("ping", ping)
attempt("packet", packet)
attempt("ipv6", lambda: tcp("fe80::1%eth0", 80, socket.AF_INET6))
`

// withWeb is an outside with a web server that says hello.
func withWeb(t *testing.T) *standIn {
	t.Helper()
	out := newStandIn()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "hello ", r.Host) }))
	t.Cleanup(srv.Close)
	out.servers[webServer+":80"] = srv.Listener.Addr().String()
	return out
}

// TestSandboxReachesNamesOfItsPolicy is one table for all drivers.
func TestSandboxReachesNamesOfItsPolicy(t *testing.T) {
	for _, driver := range []string{"gvisor", "qemu"} {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			reachesNamesOfItsPolicy(t, driver)
		})
	}
}

func reachesNamesOfItsPolicy(t *testing.T, driver string) {
	out := withWeb(t)
	e, base := netEngineOf(t, driver, out, 0)
	none := createOf(t, e, sandbox.Spec{Template: &base})
	open := createOf(t, e, sandbox.Spec{Template: &base, Network: &sandbox.NetworkPolicy{Allow: []string{"*.example.org"}}})
	other := createOf(t, e, sandbox.Spec{Template: &base, Network: &sandbox.NetworkPolicy{Allow: []string{"*.example.org"}}})

	if got, _ := runIn(t, none, "", "python3", "-c", "import socket; print([n for _, n in socket.if_nameindex()])"); strings.TrimSpace(got) != "['lo']" {
		t.Errorf("a sandbox without a policy has %q", got)
	}
	if err := none.SetNetwork(sandbox.NetworkPolicy{}); !fault.Is(err, fault.Conflict) {
		t.Errorf("a sandbox without a network got one: %v", err)
	}
	if got := fetchIn(t, open, "http://web.example.org/x"); !strings.Contains(got, "200 hello web.example.org") || !logged(open, "http", "web.example.org:80", true) {
		t.Errorf("allowed name: %q, log %v", got, attempts(open))
	}
	for url, target := range map[string]string{
		"http://beside.example.net/": "beside.example.net", "http://169.254.169.254/": "169.254.169.254", "http://metadata.example.org/": "metadata.example.org:80",
		"http://2852039166/": "2852039166", "http://0xa9fea9fe/": "0xa9fea9fe", "http://0251.0376.0251.0376/": "0251.0376.0251.0376",
	} {
		if got := fetchIn(t, open, url); !strings.HasPrefix(got, "403 ") || !logged(open, "http", target, false) {
			t.Errorf("%s: %q, log %v", url, got, attempts(open))
		}
	}
	targets := []string{"169.254.169.254:80", webServer + ":80", "10.0.0.1:22", "10.192.0.1:22", "10.192.0.10:3128", "10.192.0.9:3128", "10.192.0.6:80", "192.168.1.1:80"}
	host, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range host {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && !n.IP.IsLoopback() {
			targets = append(targets, n.IP.String()+":22")
		}
	}
	for _, user := range []string{"user", "root"} {
		got, x := runIn(t, open, user, append([]string{"python3", "-c", hostileProgram}, targets...)...)
		if x.Code != 0 || strings.Contains(got, "REACHED") || strings.Count(got, "no ") < len(targets)+7 {
			t.Errorf("as %s: %+v\n%s", user, x, got)
		}
	}
	for _, target := range []string{"169.254.169.254:80", "10.0.0.1:22", "169.254.169.254:53"} {
		if !logged(open, "direct", target, false) {
			t.Errorf("the log has no word of %s: %v", target, attempts(open))
		}
	}
	// A program that resolves by itself does not wait for nobody.
	wall := 8 * time.Second
	if driver == "qemu" {
		wall *= 15 // emulated
	}
	for _, s := range []*sandbox.Sandbox{none, open} {
		var out bytes.Buffer
		res, err := s.Exec(t.Context(), sandbox.ExecSpec{
			Argv:   []string{"python3", "-c", "import socket\ntry: socket.getaddrinfo('web.example.org', 80)\nexcept OSError as e: print('no', e)"},
			Limits: sandbox.Limits{Wall: wall},
		}, guest.IO{Stdout: &out})
		if err != nil || res.Exit.Cause != guest.Exited || !strings.HasPrefix(out.String(), "no ") {
			t.Errorf("a lookup: %q, %+v, %v", out.String(), res.Exit, err)
		}
	}
	if !logged(open, "direct", "10.192.0.1:53", false) {
		t.Errorf("the log has no word of a query: %v", attempts(open))
	}
	if got := attempts(other); len(got) != 0 {
		t.Errorf("the other sandbox has %v", got)
	}
	t.Run("off", func(t *testing.T) {
		if err := open.SetNetwork(sandbox.NetworkPolicy{}); err != nil {
			t.Fatal(err)
		}
		if got := fetchIn(t, open, "http://web.example.org/"); !strings.HasPrefix(got, "no ") {
			t.Errorf("after off: %q", got)
		}
		if got := fetchIn(t, other, "http://web.example.org/"); !strings.HasPrefix(got, "200 ") {
			t.Errorf("the other one: %q", got)
		}
		if err := open.SetNetwork(sandbox.NetworkPolicy{Allow: []string{"web.example.org"}}); err != nil {
			t.Fatal(err)
		}
		if got := fetchIn(t, open, "http://web.example.org/"); !strings.HasPrefix(got, "200 ") {
			t.Errorf("after on: %q", got)
		}
	})
}

func TestForksAndSnapshotsNeverReachMore(t *testing.T) {
	for _, driver := range []string{"gvisor", "qemu"} {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			forksNeverReachMore(t, driver)
		})
	}
}

func forksNeverReachMore(t *testing.T, driver string) {
	out := withWeb(t)
	e, base := netEngineOf(t, driver, out, 0)
	policy := sandbox.NetworkPolicy{Allow: []string{"web.example.org"}, Phase: netguard.Setup}
	origin := createOf(t, e, sandbox.Spec{Template: &base, Network: &policy})
	if got := fetchIn(t, origin, "http://web.example.org/"); !strings.HasPrefix(got, "200 ") {
		t.Fatalf("in its setup: %q", got)
	}
	snap, err := origin.Snapshot(t.Context(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Manager.RemoveSnapshot(snap.ID) })
	wider := sandbox.NetworkPolicy{Allow: []string{"*.example.org"}}
	longer := sandbox.NetworkPolicy{Allow: []string{"web.example.org"}}
	for _, p := range []sandbox.NetworkPolicy{wider, longer} {
		if _, err := origin.Fork(t.Context(), 1, sandbox.Spec{Network: &p}); !fault.Is(err, fault.Denied) {
			t.Errorf("fork with %v: %v", p, err)
		}
		if _, err := e.Manager.Create(t.Context(), sandbox.Spec{Snapshot: snap.ID, Network: &p}); !fault.Is(err, fault.Denied) {
			t.Errorf("snapshot with %v: %v", p, err)
		}
	}
	children, err := origin.Fork(t.Context(), 1, sandbox.Spec{})
	if err != nil || children[0].Err != nil {
		t.Fatal(err, children)
	}
	child := children[0].Sandbox
	t.Cleanup(func() { _ = child.Destroy() })
	if got := fetchIn(t, child, "http://web.example.org/"); !strings.HasPrefix(got, "200 ") {
		t.Errorf("a child in the setup: %q", got)
	}
	// Somebody joins: the setup is over, for the children made from now on too.
	term, err := origin.OpenTerminal(t.Context(), guest.TerminalSpec{Argv: []string{"/bin/sh"}})
	if err != nil {
		t.Fatal(err)
	}
	defer term.Close()
	if got := fetchIn(t, origin, "http://web.example.org/"); !strings.HasPrefix(got, "no ") {
		t.Errorf("after somebody joined: %q", got)
	}
	late, err := origin.Fork(t.Context(), 1, sandbox.Spec{})
	if err != nil || late[0].Err != nil {
		t.Fatal(err, late)
	}
	t.Cleanup(func() { _ = late[0].Sandbox.Destroy() })
	if got := fetchIn(t, late[0].Sandbox, "http://web.example.org/"); !strings.HasPrefix(got, "no ") {
		t.Errorf("a child after the setup: %q", got)
	}
	restored := createOf(t, e, sandbox.Spec{Snapshot: snap.ID})
	if got := fetchIn(t, restored, "http://web.example.org/"); !strings.HasPrefix(got, "200 ") {
		t.Errorf("of the snapshot from the setup: %q", got)
	}
	closed := createOf(t, e, sandbox.Spec{Snapshot: snap.ID, Network: &sandbox.NetworkPolicy{}})
	if got := fetchIn(t, closed, "http://web.example.org/"); !strings.HasPrefix(got, "no ") {
		t.Errorf("of the snapshot with less: %q", got)
	}
}

// BenchmarkPooledCreate is what a network adds to a sandbox out of the pool.
func BenchmarkPooledCreate(b *testing.B) {
	for _, tt := range []struct {
		name   string
		policy *sandbox.NetworkPolicy
	}{{"without", nil}, {"network", &sandbox.NetworkPolicy{Allow: []string{"web.example.org"}}}} {
		b.Run(tt.name, func(b *testing.B) {
			e, base := netEngine(b, newStandIn(), 1)
			var took []time.Duration
			for b.Loop() {
				b.StopTimer()
				began := time.Now()
				s, err := e.Manager.Create(b.Context(), sandbox.Spec{Template: &base, Network: tt.policy})
				if err != nil {
					b.Fatal(err)
				}
				if s.Info().BootMode == sandbox.BootPool {
					took = append(took, time.Since(began))
				}
				b.StartTimer()
				if err := s.Destroy(); err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				// The next one waits again before it is asked for.
				if err := e.Manager.WaitPool(b.Context(), base); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
			}
			slices.Sort(took)
			if len(took) > 0 {
				b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-us")
			}
		})
	}
}
