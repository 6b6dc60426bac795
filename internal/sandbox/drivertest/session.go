package drivertest

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"assay/internal/guest"
)

var sessionTests = []test{
	{"broken_session_runs_nothing_twice", testBrokenSession},
	{"broken_session_loses_no_output", testBrokenSessionOutput},
	{"broken_session_loses_no_input", testBrokenSessionInput},
	{"same_key_attaches", testSameKey},
	{"sessions_follow_each_other", testSessions},
}

// testBrokenSession breaks the session again and again while commands start
// and run; each must have run exactly once.
func testBrokenSession(t *testing.T, b *box) {
	const n = 6
	for i := range n {
		bg := b.start(guest.ExecSpec{Argv: verb("append", "/tmp/once", fmt.Sprint("run ", i))}, guest.IO{})
		select {
		case <-bg.done:
		case <-time.After(time.Duration(i) * 4 * time.Millisecond):
		}
		b.Break()
		if res, err := bg.wait(t, patience); err != nil || res.Exit.Code != 0 {
			t.Fatalf("command %d: %+v, %v", i, res.Exit, err)
		}
	}
	got := lines(b.probe("read", "/tmp/once"))
	if len(got) != n {
		t.Errorf("%d commands left %d lines: %q", n, len(got), got)
	}
}

func testBrokenSessionOutput(t *testing.T, b *box) {
	const n = 200
	var want strings.Builder
	for i := range n {
		fmt.Fprintln(&want, i)
	}
	var out lockedBuffer
	bg := b.start(guest.ExecSpec{Argv: verb("tick", fmt.Sprint(n), "2ms")}, guest.IO{Stdout: &out})
	for range 2 {
		select {
		case <-bg.done:
		case <-time.After(50 * time.Millisecond):
		}
		b.Break()
	}
	if res, err := bg.wait(t, patience); err != nil || res.Exit.Cause != guest.Exited {
		t.Fatalf("%+v, %v", res.Exit, err)
	}
	if out.String() != want.String() {
		t.Errorf("output over broken sessions: %d bytes, want %d", len(out.String()), want.Len())
	}
	// The same at full speed, where more is under way.
	var fast bytes.Buffer
	bg = b.start(guest.ExecSpec{Argv: verb("flood", "out", "20000000")}, guest.IO{Stdout: &fast})
	for range 2 {
		select {
		case <-bg.done:
		case <-time.After(15 * time.Millisecond):
		}
		b.Break()
	}
	res, err := bg.wait(t, patience)
	if err != nil || fast.Len() != 20_000_000 || res.Usage.StdoutBytes != 20_000_000 {
		t.Errorf("20 MB over broken sessions: %d bytes arrived, usage says %d: %v", fast.Len(), res.Usage.StdoutBytes, err)
	}
	if want := bytes.Repeat([]byte("0123456789abcde\n"), 20_000_000/16); !bytes.Equal(fast.Bytes(), want) {
		t.Error("20 MB over broken sessions are not the bytes written")
	}
}

// testBrokenSessionInput: what is fed while the session breaks arrives once and
// in order.
func testBrokenSessionInput(t *testing.T, b *box) {
	want := bytes.Repeat([]byte("0123456789abcde\n"), 5_000_000/16)
	var out bytes.Buffer
	bg := b.start(guest.ExecSpec{Argv: verb("cat")}, guest.IO{Stdin: bytes.NewReader(want), Stdout: &out})
	for range 2 {
		select {
		case <-bg.done:
		case <-time.After(15 * time.Millisecond):
		}
		b.Break()
	}
	res, err := bg.wait(t, patience)
	if err != nil || res.Exit.Cause != guest.Exited {
		t.Fatalf("%+v, %v", res.Exit, err)
	}
	if !bytes.Equal(out.Bytes(), want) {
		t.Errorf("%d bytes of input came back as %d, or others", len(want), out.Len())
	}
}

func testSameKey(t *testing.T, b *box) {
	first := newOutput()
	spec := guest.ExecSpec{Key: "same", Argv: verb("tick", "30", "10ms")}
	bg := b.start(spec, guest.IO{Stdout: first})
	first.started(t)
	var second lockedBuffer
	res, err := b.Run(within(t, patience), spec, guest.IO{Stdout: &second})
	if err != nil || res.Exit.Cause != guest.Exited {
		t.Fatalf("%+v, %v", res.Exit, err)
	}
	if _, err := bg.wait(t, patience); err != nil {
		t.Fatal(err)
	}
	if first.String() != second.String() || len(lines(first.String())) != 30 {
		t.Errorf("one command, two readers: %d and %d bytes", len(first.String()), len(second.String()))
	}
}

func testSessions(t *testing.T, b *box) {
	for range 3 {
		b.alive()
		if err := b.Between(within(t, patience), func(context.Context) error { return nil }); err != nil {
			t.Fatal(err)
		}
		b.alive()
		b.Break()
	}
	// What comes out of a session that ends while it is flooded must not be
	// taken for the next one's.
	bg := b.start(guest.ExecSpec{Key: "flood", Argv: verb("flood", "out"), Limits: guest.Limits{Wall: 5 * time.Second}}, guest.IO{Stdout: new(countingWriter)})
	for range 2 {
		b.alive()
		b.Break()
	}
	if err := b.Kill(within(t, patience), "flood"); err != nil {
		t.Fatal(err)
	}
	if _, err := bg.wait(t, patience); err != nil {
		t.Error(err)
	}
	b.alive()
}
