package drivertest

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"assay/internal/guest"
)

var causeTests = []test{
	{"causes", testCauses},
	{"killed", testKilled},
	{"killed_when_the_caller_leaves", testCallerLeaves},
	{"machine_lost", testMachineLost},
	{"killed_as_a_whole", testKilledAsAWhole},
	{"no_such_program", testNoSuchProgram},
	{"limits_do_not_stay", testLimitsDoNotStay},
}

// testCauses provokes every cause that a program can bring about by itself,
// once in the open and once isolated.
func testCauses(t *testing.T, b *box) {
	tests := []struct {
		name   string
		argv   []string
		limits guest.Limits
		want   guest.Exit
	}{
		{"exited_0", verb("exit", "0"), guest.Limits{}, guest.Exit{Cause: guest.Exited}},
		{"exited_7", verb("exit", "7"), guest.Limits{}, guest.Exit{Cause: guest.Exited, Code: 7}},
		{"exited_137", verb("exit", "137"), guest.Limits{}, guest.Exit{Cause: guest.Exited, Code: 137}},
		{"signaled_kill", verb("signal", "9"), guest.Limits{}, guest.Exit{Cause: guest.Signaled, Code: -1, Signal: 9}},
		{"signaled_term", verb("signal", "15"), guest.Limits{}, guest.Exit{Cause: guest.Signaled, Code: -1, Signal: 15}},
		{"cpu_limit", verb("spin", "20s"), guest.Limits{CPU: 200 * time.Millisecond}, guest.Exit{Cause: guest.CPULimit, Code: -1}},
		{"cpu_limit_of_a_tree", verb("children", "1000", "spin", "50ms"), guest.Limits{CPU: 300 * time.Millisecond}, guest.Exit{Cause: guest.CPULimit, Code: -1}},
		{"wall_limit", verb("sleep", "30s"), guest.Limits{Wall: 200 * time.Millisecond}, guest.Exit{Cause: guest.WallLimit, Code: -1}},
		{"memory_limit", verb("alloc", "134217728", "5s"), guest.Limits{Memory: 64 << 20}, guest.Exit{Cause: guest.MemoryLimit, Code: -1}},
		{"memory_limit_of_a_tree", verb("alloc", "33554432", "5s", "4"), guest.Limits{Memory: 96 << 20}, guest.Exit{Cause: guest.MemoryLimit, Code: -1}},
		{"output_limit_out", verb("flood", "out"), guest.Limits{Output: 1 << 20}, guest.Exit{Cause: guest.OutputLimit, Code: -1, OutputTruncated: true}},
		{"output_limit_err", verb("flood", "err"), guest.Limits{Output: 1 << 20}, guest.Exit{Cause: guest.OutputLimit, Code: -1, OutputTruncated: true}},
		{"process_limit", verb("fork", "100", "50ms"), guest.Limits{Processes: 30}, guest.Exit{Cause: guest.ProcessLimit, Code: -1}},
		{"disk_limit_by_file", verb("write", "/tmp/causes", "2097152"), guest.Limits{FileSize: 1 << 20}, guest.Exit{Cause: guest.DiskLimit, Code: -1}},
		{"disk_limit_in_all", verb("write", "/tmp/causes", "1048576", "64"), guest.Limits{Disk: 16 << 20}, guest.Exit{Cause: guest.DiskLimit, Code: -1}},
	}
	for _, tt := range tests {
		for _, isolated := range []bool{false, true} {
			name := tt.name
			if isolated {
				name += "_isolated"
			}
			t.Run(name, func(t *testing.T) {
				b := b.in(t)
				begin := time.Now()
				out, res := b.exec(guest.ExecSpec{Argv: tt.argv, Limits: tt.limits, Isolated: isolated}, guest.IO{})
				got := res.Exit
				if (got.StdoutDropped+got.StderrDropped > 0) != got.OutputTruncated {
					t.Errorf("%d and %d bytes dropped, truncated %v", got.StdoutDropped, got.StderrDropped, got.OutputTruncated)
				}
				got.StdoutDropped, got.StderrDropped = 0, 0
				if tt.want.Cause != guest.Signaled {
					got.Signal = 0 // how a limit ends the program is the driver's own
				}
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Errorf("exit (-want +got):\n%s%.200s", diff, out)
				}
				if d := time.Since(begin); d > loose(5*time.Second) {
					t.Errorf("it took %v", d)
				}
				b.alive()
			})
		}
	}
}

func testKilled(t *testing.T, b *box) {
	out := newOutput()
	bg := b.start(guest.ExecSpec{Key: "victim", Argv: verb("tick", "100000", "5ms")}, guest.IO{Stdout: out})
	out.started(t)
	if err := b.Kill(within(t, patience), "victim"); err != nil {
		t.Fatal(err)
	}
	res, err := bg.wait(t, patience)
	if err != nil {
		t.Fatal(err)
	}
	if res.Exit.Cause != guest.Killed || res.Exit.Code != -1 {
		t.Errorf("exit %+v, want killed", res.Exit)
	}
	if res.Usage.StdoutBytes == 0 {
		t.Error("what it had done before is not in its usage")
	}
	b.alive()
}

// testCallerLeaves: a command nobody waits for any more must not go on.
func testCallerLeaves(t *testing.T, b *box) {
	ctx, cancel := context.WithCancel(within(t, patience))
	out := newOutput()
	done := make(chan error, 1)
	go func() {
		_, err := b.Run(ctx, guest.ExecSpec{Argv: verb("tick", "100000", "5ms"), Limits: guest.Limits{Wall: wall}}, guest.IO{Stdout: out})
		done <- err
	}()
	out.started(t)
	cancel()
	if err := <-done; err == nil {
		t.Error("no error for the caller that left")
	}
	until(t, "the command is gone", func() bool { return !strings.Contains(b.probe("pids"), "tick") })
}

func testMachineLost(t *testing.T, b *box) {
	out := newOutput()
	bg := b.start(guest.ExecSpec{Argv: verb("tick", "100000", "5ms")}, guest.IO{Stdout: out})
	out.started(t)
	if err := b.m.Destroy(within(t, patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := bg.wait(t, patience); err == nil {
		t.Error("an exec in a destroyed machine gives no error")
	}
	select {
	case <-b.m.Ended():
	default:
		t.Error("a destroyed machine has not ended")
	}
	if got := b.m.End(); got != guest.Killed {
		t.Errorf("the machine ended by %q, want killed: its owner destroyed it", got)
	}
}

func testKilledAsAWhole(t *testing.T, b *box) {
	for _, isolated := range []bool{false, true} {
		// The daemon is in a session of its own and its parent has ended.
		const file = "/tmp/daemon"
		spec := guest.ExecSpec{Isolated: isolated}
		b.probeAs(spec, "daemon", file)
		if got := b.probe("pids"); strings.Contains(got, "daemon") {
			t.Errorf("isolated %v: a daemon outlives its command: %s", isolated, got)
		}
	}
	spec := guest.ExecSpec{Argv: verb("children", "1", "sleep", "30s"), Limits: guest.Limits{Wall: 200 * time.Millisecond}}
	if _, res := b.exec(spec, guest.IO{}); res.Exit.Cause != guest.WallLimit {
		t.Errorf("exit %+v, want wall_limit", res.Exit)
	}
	if got := b.probe("pids"); strings.Contains(got, "sleep") {
		t.Errorf("a child outlives its command: %s", got)
	}
}

func testNoSuchProgram(t *testing.T, b *box) {
	for _, tt := range []struct {
		argv []string
		dir  string
		code int
	}{
		{[]string{"no-such-program"}, "", 127},
		{[]string{"/no/such/program"}, "", 127},
		{[]string{"/tmp"}, "", 126},
	} {
		out, res := b.exec(guest.ExecSpec{Argv: tt.argv, Dir: tt.dir}, guest.IO{})
		if res.Exit.Cause != guest.Exited || res.Exit.Code != tt.code {
			t.Errorf("%q: exit %+v, want code %d", tt.argv, res.Exit, tt.code)
		}
		if !strings.Contains(out, tt.argv[0]) {
			t.Errorf("%q: says %q, want the program's name", tt.argv, out)
		}
	}
	if _, err := b.Run(within(t, patience), guest.ExecSpec{Argv: verb("echo"), Limits: guest.Limits{CPU: -1}}, guest.IO{}); err == nil {
		t.Error("a negative limit is no error")
	}
}

// testLimitsDoNotStay: what one command was allowed says nothing about the
// next.
func testLimitsDoNotStay(t *testing.T, b *box) {
	b.exec(guest.ExecSpec{Argv: verb("exit", "0"), Limits: guest.Limits{
		CPU: time.Second, Memory: 32 << 20, Processes: 20, FileSize: 1, OpenFiles: 10, Output: 10,
	}}, guest.IO{})
	if got := b.probe("fork", "60", "1ms"); got != "60\n" {
		t.Errorf("60 processes: %q", got)
	}
	b.probe("write", "/tmp/limits", "100000")
	b.probe("alloc", "67108864", "1ms")
	b.probe("flood", "out", "1000")
}

// until asks again until the claim holds.
func until(t testing.TB, claim string, holds func() bool) {
	t.Helper()
	ctx := within(t, patience)
	for !holds() {
		select {
		case <-ctx.Done():
			t.Fatalf("in time: %s", claim)
		case <-time.After(5 * time.Millisecond):
		}
	}
}
