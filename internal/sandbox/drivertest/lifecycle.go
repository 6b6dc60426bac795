package drivertest

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"assay/internal/fault"
	"assay/internal/guest"
)

var lifecycleTests = []test{
	{"destroy_is_idempotent", testDestroy},
	{"nothing_works_after_destroy", testAfterDestroy},
	{"pause_and_resume", testPause},
	{"reclaim_twice", testReclaim},
	{"reclaim_a_living_machine", testReclaimLiving},
	{"crash", testCrash},
	{"machine_out_of_memory", testMachineMemory},
	{"machine_out_of_processes", testMachineProcesses},
	{"dir_is_left_to_its_owner", testDir},
}

func testDestroy(t *testing.T, b *box) {
	var wg sync.WaitGroup
	errs := make([]error, 8)
	for i := range errs {
		wg.Go(func() { errs[i] = b.m.Destroy(within(t, patience)) })
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			t.Errorf("destroy: %v", err)
		}
	}
	select {
	case <-b.m.Ended():
	default:
		t.Error("the machine has not ended")
	}
	if got := b.m.End(); got != guest.Killed {
		t.Errorf("end %q, want killed", got)
	}
	if err := b.m.Destroy(within(t, patience)); err != nil {
		t.Errorf("once more: %v", err)
	}
}

// testAfterDestroy: every call gives an error, at once.
func testAfterDestroy(t *testing.T, b *box) {
	if err := b.m.Destroy(within(t, patience)); err != nil {
		t.Fatal(err)
	}
	ctx := within(t, 3*time.Second)
	calls := map[string]func() error{
		"hello":    func() error { _, err := b.Hello(ctx); return err },
		"run":      func() error { _, err := b.Run(ctx, guest.ExecSpec{Argv: verb("echo")}, guest.IO{}); return err },
		"snapshot": func() error { return b.m.Snapshot(ctx, t.TempDir()) },
		"pause":    func() error { return b.m.Pause(ctx) },
		"resume":   func() error { return b.m.Resume(ctx) },
	}
	for name, call := range calls {
		err := call()
		if err == nil {
			t.Errorf("%s works on a destroyed machine", name)
		}
		if ctx.Err() != nil {
			t.Fatalf("%s hangs on a destroyed machine: %v", name, err)
		}
	}
	if _, err := b.m.Link().Read(make([]byte, 1)); err == nil {
		t.Error("the link of a destroyed machine can be read")
	}
}

// testPause: a paused machine does nothing and uses nothing, and then goes on.
func testPause(t *testing.T, b *box) {
	out := newOutput()
	bg := b.start(guest.ExecSpec{Argv: verb("tick", "60", "5ms")}, guest.IO{Stdout: out})
	out.started(t)
	if err := b.m.Pause(within(t, patience)); err != nil {
		t.Fatal(err)
	}
	settled := out.String()
	until(t, "what was under way arrives", func() bool {
		<-time.After(30 * time.Millisecond)
		again := out.String()
		same := again == settled
		settled = again
		return same
	})
	before, err := b.m.Usage()
	if err != nil {
		t.Fatal(err)
	}
	<-time.After(200 * time.Millisecond)
	if got := out.String(); got != settled {
		t.Errorf("a paused machine goes on: %d lines, then %d", len(lines(settled)), len(lines(got)))
	}
	after, err := b.m.Usage()
	if err != nil {
		t.Fatal(err)
	}
	if d := after.CPU - before.CPU; d > 40*time.Millisecond {
		t.Errorf("a paused machine uses %v of CPU in 200 ms", d)
	}
	if err := b.m.Resume(within(t, patience)); err != nil {
		t.Fatal(err)
	}
	if res, err := bg.wait(t, patience); err != nil || res.Exit.Cause != guest.Exited {
		t.Errorf("after the pause: %+v, %v", res.Exit, err)
	}
	if got := len(lines(out.String())); got != 60 {
		t.Errorf("%d lines over the pause, want 60", got)
	}
	b.alive()
}

func testReclaim(t *testing.T, b *box) {
	// A machine that ended by itself, one that never was, and one twice.
	if err := b.m.Destroy(within(t, patience)); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := b.s.Driver.Reclaim(within(t, patience), b.cfg.ID, b.cfg.Dir); err != nil {
			t.Errorf("reclaim a destroyed machine: %v", err)
		}
	}
	if err := b.s.Driver.Reclaim(within(t, patience), "never-was", t.TempDir()); err != nil {
		t.Errorf("reclaim a machine that never was: %v", err)
	}
	// The ID and the directory can be used again.
	m, err := b.s.Driver.Restore(within(t, patience), b.cfg, b.s.ready)
	if err != nil {
		t.Fatalf("restore under the same ID: %v", err)
	}
	b.s.open(t, m, b.cfg).alive()
}

// testReclaimLiving: Reclaim needs no more than ID and Dir to end a machine.
func testReclaimLiving(t *testing.T, b *box) {
	if err := b.s.Driver.Reclaim(within(t, patience), b.cfg.ID, b.cfg.Dir); err != nil {
		t.Fatal(err)
	}
	select {
	case <-b.m.Ended():
	case <-within(t, patience).Done():
		t.Fatal("the machine lives after Reclaim")
	}
	if got := b.m.End(); got != guest.MachineLost {
		t.Errorf("end %q, want machine_lost: its owner did not destroy it", got)
	}
}

// testCrash: a machine that dies by itself is lost, and its calls end.
func testCrash(t *testing.T, b *box) {
	if b.s.Crash == nil {
		t.Skip("no Crash in the suite's Config")
	}
	out := newOutput()
	bg := b.start(guest.ExecSpec{Argv: verb("tick", "100000", "5ms")}, guest.IO{Stdout: out})
	out.started(t)
	b.s.Crash(b.m)
	if _, err := bg.wait(t, patience); err == nil {
		t.Error("an exec in a dead machine gives no error")
	}
	select {
	case <-b.m.Ended():
	case <-within(t, patience).Done():
		t.Fatal("the dead machine has not ended")
	}
	if got := b.m.End(); got != guest.MachineLost {
		t.Errorf("end %q, want machine_lost", got)
	}
}

// testMachineMemory: a command without a limit that fills the machine ends by
// memory_limit, or the machine as a whole does.
func testMachineMemory(t *testing.T, b *box) {
	size := b.s.Shape.Memory + b.s.Shape.Disk + 256<<20
	res, err := b.Run(within(t, time.Minute), guest.ExecSpec{
		Argv: verb("alloc", fmt.Sprint(size), "20s"), Limits: guest.Limits{Wall: 30 * time.Second},
	}, guest.IO{})
	if err == nil {
		if res.Exit.Cause != guest.MemoryLimit {
			t.Errorf("exit %+v, want memory_limit", res.Exit)
		}
		b.alive()
		return
	}
	select {
	case <-b.m.Ended():
	case <-within(t, patience).Done():
		t.Fatalf("the machine lives and the command's end is unknown: %v", err)
	}
	if got := b.m.End(); got != guest.MemoryLimit {
		t.Errorf("the machine ended by %q, want memory_limit", got)
	}
}

// testMachineProcesses: a command without a limit cannot have more processes
// than the machine, or more than fit into its memory, and the machine stays
// well.
func testMachineProcesses(t *testing.T, b *box) {
	_, res := b.exec(guest.ExecSpec{Argv: verb("fork", fmt.Sprint(2*b.s.Shape.Processes), "10ms")}, guest.IO{})
	if c := res.Exit.Cause; c != guest.ProcessLimit && c != guest.MemoryLimit {
		t.Errorf("exit %+v, want process_limit or memory_limit", res.Exit)
	}
	if most := b.s.Shape.Processes; res.Usage.ProcessesPeak > most {
		t.Errorf("%d processes in a machine for %d", res.Usage.ProcessesPeak, most)
	}
	b.alive()
}

// testDir: Destroy leaves the directory, empty of the driver's things.
func testDir(t *testing.T, b *box) {
	if err := b.m.Destroy(within(t, patience)); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(b.cfg.Dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		t.Errorf("left behind: %s", e.Name())
	}
	// A call that fails leaves nothing either.
	cfg := b.s.config(t)
	m, err := b.s.Driver.Restore(within(t, patience), cfg, filepath.Join(t.TempDir(), "no-snapshot"))
	if err == nil {
		_ = m.Destroy(within(t, patience))
		t.Fatal("a snapshot that is not there is restored")
	}
	if fault.Is(err, fault.Unavailable) {
		t.Errorf("kind %v of %v says to try again", fault.KindOf(err), err)
	}
	if entries, _ := os.ReadDir(cfg.Dir); len(entries) > 0 {
		t.Errorf("a failed restore leaves %v", entries)
	}
}
