package drivertest

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"assay/internal/guest"
)

var restoreTests = []test{
	{"counter_goes_on_in_children", testCounter},
	{"children_differ", testChildrenDiffer},
	{"clock_after_restore", testClock},
	{"snapshot_while_a_command_runs", testSnapshotWhileRunning},
	{"files_are_in_the_snapshot", testSnapshotFiles},
	{"snapshot_of_a_restored_machine", testSnapshotChain},
}

// readCounter asks the counter of testCounter.
func (b *box) readCounter() int {
	b.t.Helper()
	n, err := strconv.Atoi(strings.TrimSpace(b.probe("ask", "/tmp/counter")))
	if err != nil {
		b.t.Fatal(err)
	}
	return n
}

// testCounter is the proof that memory is forked: a number that exists only in
// a process goes on from the same value in each child, and in the parent.
func testCounter(t *testing.T, b *box) {
	out := newOutput()
	b.start(guest.ExecSpec{Key: "counter", Argv: verb("counter", "/tmp/counter"), Limits: guest.Limits{Wall: time.Minute}}, guest.IO{Stdout: out})
	out.started(t)
	until(t, "the counter has counted", func() bool { return b.readCounter() >= 100 })
	dir := t.TempDir()
	before := b.readCounter()
	b.snapshot(dir)
	after := b.readCounter()
	taken := time.Now()
	var first []int
	for i := range 4 {
		begin := time.Now()
		child := b.s.restoreFrom(t, dir)
		n := child.readCounter()
		// The child has counted since it was restored, one each 2 ms at most.
		if most := after + int(time.Since(begin)/(2*time.Millisecond)); n < before || n > most {
			t.Errorf("child %d counts %d; the parent had %d before the snapshot and %d after it", i, n, before, after)
		}
		until(t, "the child goes on counting", func() bool { return child.readCounter() > n })
		first = append(first, n)
		if err := child.m.Destroy(within(t, patience)); err != nil {
			t.Error(err)
		}
	}
	t.Logf("parent %d to %d, children %v, %v later", before, after, first, time.Since(taken).Round(time.Millisecond))
	until(t, "the parent goes on counting", func() bool { return b.readCounter() > after+4 })
}

// identify does what every caller does before it hands a restored machine out.
func (b *box) identify(n int) guest.Identity {
	b.t.Helper()
	var secret [64]byte
	_, _ = rand.Read(secret[:]) // never fails, by its documentation
	id := guest.Identity{
		Hostname: fmt.Sprint("box-", n), MachineID: hex.EncodeToString(secret[:16]), Now: time.Now(),
		Entropy: secret[16:], Generation: int64(n),
	}
	if err := b.Identify(within(b.t, patience), id); err != nil {
		b.t.Fatalf("identify: %v", err)
	}
	return id
}

func testChildrenDiffer(t *testing.T, b *box) {
	b.identify(1)
	b.probe("random") // so that the pool is in use when it is frozen
	dir := t.TempDir()
	b.snapshot(dir)
	seen := map[string]string{}
	note := func(what, who string) {
		if other, ok := seen[what]; ok {
			t.Errorf("%s and %s have %s in common", other, who, what)
		}
		seen[what] = who
	}
	for i := range 3 {
		child := b
		who := "the parent"
		if i > 0 {
			child, who = b.s.restoreFrom(t, dir), fmt.Sprint("child ", i)
			id := child.identify(i + 1)
			if got := child.probe("identity"); got != id.Hostname+"\n"+id.MachineID+"\n" {
				t.Errorf("%s goes by %q, want %s and %s", who, got, id.Hostname, id.MachineID)
			}
			hello, err := child.Hello(within(t, patience))
			if err != nil || hello.Generation != id.Generation {
				t.Errorf("%s has generation %d, want %d: %v", who, hello.Generation, id.Generation, err)
			}
			if got := strings.TrimSpace(child.probe("read", "/run/assay/generation")); got != fmt.Sprint(id.Generation) {
				t.Errorf("%s publishes generation %q, want %d", who, got, id.Generation)
			}
		}
		for _, line := range append(lines(child.probe("random")), lines(child.probe("identity"))...) {
			note(line, who)
		}
	}
}

// testClock: the machine of prepare is older than this; its clock must be the
// host's all the same.
func testClock(t *testing.T, b *box) {
	for _, identified := range []bool{false, true} {
		if identified {
			b.identify(9)
		}
		ns, err := strconv.ParseInt(strings.TrimSpace(b.probe("clock")), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		if off := time.Since(time.Unix(0, ns)); identified && off.Abs() > time.Second {
			t.Errorf("right after restore the guest's clock is off by %v", off)
		}
	}
	hello, err := b.Hello(within(t, patience))
	if err != nil {
		t.Fatal(err)
	}
	if off := time.Since(hello.Now).Abs(); off > time.Second {
		t.Errorf("guestd's clock is off by %v", off)
	}
}

// testSnapshotWhileRunning: a command goes on in the parent, to its end and
// without losing output, and in the child, where its key attaches to it.
func testSnapshotWhileRunning(t *testing.T, b *box) {
	spec := guest.ExecSpec{Key: "running", Argv: verb("tick", "100", "10ms")}
	out := newOutput()
	bg := b.start(spec, guest.IO{Stdout: out})
	out.started(t)
	dir := t.TempDir()
	b.snapshot(dir)
	child := b.s.restoreFrom(t, dir)
	var inChild lockedBuffer
	res, err := child.Run(within(t, patience), spec, guest.IO{Stdout: &inChild})
	if err != nil || res.Exit.Cause != guest.Exited || res.Exit.Code != 0 {
		t.Errorf("in the child: %+v, %v", res.Exit, err)
	}
	res, err = bg.wait(t, patience)
	if err != nil || res.Exit.Cause != guest.Exited || res.Exit.Code != 0 {
		t.Errorf("in the parent: %+v, %v", res.Exit, err)
	}
	if got := len(lines(out.String())); got != 100 {
		t.Errorf("%d lines of 100 in the parent", got)
	}
	if inChild.String() != out.String() {
		t.Errorf("%d bytes in the child, %d in the parent", len(inChild.String()), len(out.String()))
	}
}

func testSnapshotFiles(t *testing.T, b *box) {
	for _, dir := range []string{"/tmp", "/home/user", "/dev/shm"} {
		b.probe("append", dir+"/kept", "before")
	}
	snap := t.TempDir()
	b.snapshot(snap)
	child := b.s.restoreFrom(t, snap)
	for _, dir := range []string{"/tmp", "/home/user", "/dev/shm"} {
		b.probe("append", dir+"/kept", "parent")
		if got := child.probe("read", dir+"/kept"); got != "before\n" {
			t.Errorf("the child finds %q in %s", got, dir)
		}
		child.probe("append", dir+"/kept", "child")
		if got := b.probe("read", dir+"/kept"); got != "before\nparent\n" {
			t.Errorf("the parent finds %q in %s", got, dir)
		}
	}
}

func testSnapshotChain(t *testing.T, b *box) {
	for i := range 3 {
		b.probe("append", "/tmp/chain", fmt.Sprint(i))
		dir := t.TempDir()
		b.snapshot(dir)
		b = b.s.restoreFrom(t, dir)
	}
	if got := b.probe("read", "/tmp/chain"); got != "0\n1\n2\n" {
		t.Errorf("after three generations: %q", got)
	}
}
