package drivertest

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"assay/internal/fault"
	"assay/internal/guest"
	"assay/internal/sandbox"
)

// wireTests are promises of drivers whose machines are Passers.
var wireTests = []test{
	{"wire_10000_round_trips", testPingPong},
	{"wire_reader_gone", testReaderGone},
	{"wire_full_both_ways", testFullBothWays},
	{"wire_output_is_not_counted", testWireOutput},
	{"wire_serves_one_exec", testWireOnce},
	{"wire_and_snapshot", testWireSnapshot},
	{"wire_holder_killed", testWireHolderKilled},
}

// pair is two machines with pipes between them, and the host's copies.
type pair struct {
	a, b     *box
	name     string
	releaseA func() // closes the host's copies of a's ends
}

// connect hands the ends of two pipes to two machines.
func (b *box) connect(other *box) *pair {
	b.t.Helper()
	pipe := func() (r, w *os.File) {
		var fds [2]int
		if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
			b.t.Fatal(err)
		}
		r, w = os.NewFile(uintptr(fds[0]), "r"), os.NewFile(uintptr(fds[1]), "w")
		b.t.Cleanup(func() { _, _ = r.Close(), w.Close() })
		return r, w
	}
	p := &pair{a: b, b: other, name: "wire-" + strconv.FormatInt(serial.Add(1), 10)}
	toA, fromB := pipe()
	toB, fromA := pipe()
	p.releaseA = func() { _, _ = toA.Close(), fromA.Close() }
	for _, side := range []struct {
		b       *box
		in, out *os.File
	}{{p.a, toA, fromA}, {p.b, toB, fromB}} {
		passer, ok := side.b.m.(sandbox.Passer)
		if !ok {
			b.t.Skipf("driver %s hands no files to its machines", b.s.Driver.Name())
		}
		if err := passer.Pass(within(b.t, patience), p.name, side.in, side.out); err != nil {
			b.t.Fatalf("pass: %v", err)
		}
	}
	return p
}

// on is a verb's exec on the wire.
func (p *pair) on(args ...string) guest.ExecSpec {
	return guest.ExecSpec{Argv: verb(args...), Wire: p.name, Isolated: true}
}

// other gives a second machine, if the driver's can be connected.
func (b *box) other(t testing.TB) *box {
	if _, ok := b.m.(sandbox.Passer); !ok {
		t.Skipf("driver %s hands no files to its machines", b.s.Driver.Name())
	}
	return b.s.restore(t)
}

// testPingPong: 10,000 lines there and back; and the end of the one is not seen
// by the other until the host lets go.
func testPingPong(t *testing.T, b *box) {
	p := b.connect(b.other(t))
	var errB lockedBuffer
	pong := p.b.start(p.on("pong"), guest.IO{Stderr: &errB})
	var errA lockedBuffer
	spec := p.on("ping", "10000")
	spec.Limits.Wall = time.Minute
	if res, err := p.a.start(spec, guest.IO{Stderr: &errA}).wait(t, time.Minute); err != nil || res.Exit.Code != 0 || res.Exit.Cause != guest.Exited {
		t.Fatalf("ping: %+v, %v: %s", res.Exit, err, errA.String())
	}
	t.Logf("10000 round trips: %s µs", strings.TrimSpace(errA.String()))
	select {
	case <-pong.done:
		t.Error("the other saw the end before the host let go")
	case <-time.After(100 * time.Millisecond):
	}
	p.releaseA()
	if res, err := pong.wait(t, patience); err != nil || res.Exit.Code != 0 || errB.String() != "end\n" {
		t.Errorf("pong: %+v, %v: %q", res.Exit, err, errB.String())
	}
}

// testReaderGone: who writes to nobody is ended by SIGPIPE, once the host has
// let go.
func testReaderGone(t *testing.T, b *box) {
	p := b.connect(b.other(t))
	writer := p.b.start(p.on("flood", "out"), guest.IO{})
	if res, err := p.a.start(p.on("exit", "3"), guest.IO{}).wait(t, patience); err != nil || res.Exit.Code != 3 {
		t.Fatalf("exit: %+v, %v", res.Exit, err)
	}
	select {
	case <-writer.done:
		t.Error("the writer ended while the host held its reader's end")
	case <-time.After(200 * time.Millisecond):
	}
	p.releaseA()
	if res, err := writer.wait(t, patience); err != nil || res.Exit.Cause != guest.Signaled || res.Exit.Signal != int(unix.SIGPIPE) {
		t.Errorf("the writer: %+v, %v", res.Exit, err)
	}
}

// testFullBothWays: two who only write wait for each other until the limit.
func testFullBothWays(t *testing.T, b *box) {
	p := b.connect(b.other(t))
	spec := p.on("flood", "out")
	spec.Limits.Wall = 500 * time.Millisecond
	began := time.Now()
	one, two := p.a.start(spec, guest.IO{}), p.b.start(spec, guest.IO{})
	for _, bg := range []*background{one, two} {
		if res, err := bg.wait(t, patience); err != nil || res.Exit.Cause != guest.WallLimit {
			t.Errorf("%+v, %v", res.Exit, err)
		}
	}
	if d := time.Since(began); d > 3*time.Second {
		t.Errorf("they ended after %v", d)
	}
	p.a.alive()
	p.b.alive()
}

// testWireOutput: what goes over the wire is neither capped nor counted, stderr
// is.
func testWireOutput(t *testing.T, b *box) {
	p := b.connect(b.other(t))
	var heard lockedBuffer
	listener := p.b.start(p.on("hear"), guest.IO{Stderr: &heard})
	spec := p.on("flood", "out", "5000000")
	spec.Limits.Output = 1000
	var out bytes.Buffer
	res, err := p.a.start(spec, guest.IO{Stdout: &out}).wait(t, patience)
	if err != nil || res.Exit.Cause != guest.Exited || res.Usage.StdoutBytes != 0 || out.Len() != 0 {
		t.Errorf("writer: %+v, %v, counted %d, seen %d", res.Exit, err, res.Usage.StdoutBytes, out.Len())
	}
	p.releaseA()
	if res, err := listener.wait(t, patience); err != nil || res.Exit.Code != 0 || heard.String() != "5000000\n" {
		t.Errorf("listener: %+v, %v: heard %q", res.Exit, err, heard.String())
	}
	p = b.connect(p.b)
	spec = p.on("flood", "err", "5000")
	spec.Limits.Output = 1000
	if res, err := p.a.start(spec, guest.IO{}).wait(t, patience); err != nil || res.Exit.Cause != guest.OutputLimit {
		t.Errorf("stderr beyond its cap: %+v, %v", res.Exit, err)
	}
}

func testWireOnce(t *testing.T, b *box) {
	p := b.connect(b.other(t))
	if _, err := p.a.Run(within(t, patience), p.on("exit", "0"), guest.IO{}); err != nil {
		t.Fatal(err)
	}
	if _, err := p.a.Run(within(t, patience), p.on("exit", "0"), guest.IO{}); !fault.Is(err, fault.NotFound) || fault.HintOf(err) == "" {
		t.Errorf("a wire that was used: %v", err)
	}
	spec := p.on("exit", "0")
	spec.Wire = "unknown"
	if _, err := p.a.Run(within(t, patience), spec, guest.IO{}); !fault.Is(err, fault.NotFound) {
		t.Errorf("a wire that never was: %v", err)
	}
	spec = p.on("exit", "0")
	spec.StdinFile = "/etc/hostname"
	if _, err := p.b.Run(within(t, patience), spec, guest.IO{}); !fault.Is(err, fault.Invalid) {
		t.Errorf("a wire and an input file: %v", err)
	}
	// A program that is not there takes the wire with it.
	spec = p.on("exit", "0")
	spec.Argv = []string{"/no/such/program"}
	if res, err := p.b.Run(within(t, patience), spec, guest.IO{}); err != nil || res.Exit.Code != 127 {
		t.Errorf("no program: %+v, %v", res.Exit, err)
	}
	p.b.alive()
}

// testWireSnapshot: a snapshot drops what waits; after an exec on a wire the
// machine holds nothing that a snapshot could not.
func testWireSnapshot(t *testing.T, b *box) {
	p := b.connect(b.other(t))
	dir := t.TempDir()
	p.a.snapshot(dir)
	child := p.a.s.restoreFrom(t, dir)
	for _, m := range []*box{p.a, child} {
		if _, err := m.Run(within(t, patience), p.on("exit", "0"), guest.IO{}); !fault.Is(err, fault.NotFound) {
			t.Errorf("after a snapshot: %v", err)
		}
	}
	// The child's own wires work, and so do the parent's.
	p = child.connect(p.a)
	pong := p.b.start(p.on("pong"), guest.IO{})
	if res, err := p.a.start(p.on("ping", "10"), guest.IO{}).wait(t, patience); err != nil || res.Exit.Code != 0 {
		t.Errorf("ping in the child: %+v, %v", res.Exit, err)
	}
	p.releaseA()
	if res, err := pong.wait(t, patience); err != nil || res.Exit.Code != 0 {
		t.Errorf("pong in the parent: %+v, %v", res.Exit, err)
	}
	for _, m := range []*box{p.a, p.b} {
		m.snapshot(t.TempDir())
		m.alive()
	}
}

// testWireHolderKilled: a tree that is killed holds nothing any more when its
// result comes, also what it started and left.
func testWireHolderKilled(t *testing.T, b *box) {
	p := b.connect(b.other(t))
	listener := p.b.start(p.on("hear"), guest.IO{})
	spec := p.on("fork", "20", "10s")
	spec.Isolated = false
	spec.Limits.Wall = 300 * time.Millisecond
	if res, err := p.a.start(spec, guest.IO{}).wait(t, patience); err != nil || res.Exit.Cause != guest.WallLimit {
		t.Errorf("holder: %+v, %v", res.Exit, err)
	}
	p.releaseA()
	if res, err := listener.wait(t, time.Second); err != nil || res.Exit.Code != 0 {
		t.Errorf("listener: %+v, %v", res.Exit, err)
	}
	p.a.snapshot(t.TempDir())
	p.a.alive()
}
