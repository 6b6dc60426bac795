package drivertest

import (
	"fmt"
	"strings"
	"testing"

	"assay/internal/fault"
	"assay/internal/guest"
	"assay/internal/sandbox"
)

var adoptTests = []test{
	{"adopted_machine_goes_on", testAdopt},
	{"persistence_is_refused_or_kept", testPersistent},
}

// persistent gives a machine that outlives its process, and who takes it over.
func (b *box) persistent(t *testing.T) (*box, sandbox.Adopter) {
	t.Helper()
	adopter, ok := b.s.Driver.(sandbox.Adopter)
	if !ok {
		t.Skip("machines of this driver end with their process")
	}
	cfg := b.s.config(t)
	cfg.Persistent = true
	m, err := b.s.Driver.Restore(within(t, patience), cfg, b.s.ready)
	if err != nil {
		t.Fatalf("restore a persistent machine: %v", err)
	}
	t.Cleanup(func() { // whoever has it last has ended it, if all went well
		if err := b.s.Driver.Reclaim(t.Context(), cfg.ID, cfg.Dir); err != nil {
			t.Errorf("reclaim %s: %v", cfg.ID, err)
		}
	})
	return &box{Client: guest.NewClient(m.Link()), t: t, s: b.s, m: m, cfg: cfg}, adopter
}

// pass gives up a machine in the middle of whatever it does, and adopts it.
func (b *box) pass(adopter sandbox.Adopter) *box {
	b.t.Helper()
	b.Close()
	if err := b.m.(sandbox.Detacher).Detach(); err != nil {
		b.t.Fatalf("detach: %v", err)
	}
	m, err := adopter.Adopt(within(b.t, patience), b.cfg)
	if err != nil {
		b.t.Fatalf("adopt: %v", err)
	}
	next := *b
	next.m, next.Client = m, guest.Continue(m.Link())
	if _, err := next.Hello(within(b.t, patience)); err != nil {
		b.t.Fatalf("guestd of an adopted machine does not answer: %v", err)
	}
	return &next
}

// testAdopt: a command that runs while one owner leaves and the next comes goes
// on, once, and loses nothing; and the next owner has all verbs.
func testAdopt(t *testing.T, b *box) {
	b, adopter := b.persistent(t)
	spec := guest.ExecSpec{Key: "counter", Argv: verb("tick", "100000", "5ms"), Limits: guest.Limits{Wall: loose(wall)}}
	for range 2 {
		out := newOutput()
		bg := b.start(spec, guest.IO{Stdout: out})
		out.started(t)
		before, err := b.m.Usage()
		if err != nil {
			t.Fatal(err)
		}
		b = b.pass(adopter)
		if _, err := bg.wait(t, patience); err == nil {
			t.Error("a call outlives the owner of its machine")
		}
		after, err := b.m.Usage()
		if err != nil || after.CPU < before.CPU {
			t.Errorf("the next owner counts %v of CPU, the last one %v: %v", after.CPU, before.CPU, err)
		}
	}
	out := newOutput()
	bg := b.start(spec, guest.IO{Stdout: out})
	out.started(t)
	if err := b.Kill(within(t, patience), spec.Key); err != nil {
		t.Fatal(err)
	}
	if res, err := bg.wait(t, patience); err != nil || res.Exit.Cause != guest.Killed {
		t.Errorf("the counter ended as %+v, %v", res.Exit, err)
	}
	got := lines(out.String())
	for i, line := range got {
		if strings.TrimSpace(line) != fmt.Sprint(i) {
			t.Fatalf("line %d of the counter is %q: it was run twice, or lines were lost", i, line)
		}
	}
	if err := b.m.Pause(within(t, patience)); err != nil {
		t.Errorf("pause: %v", err)
	}
	if err := b.m.Resume(within(t, patience)); err != nil {
		t.Errorf("resume: %v", err)
	}
	b.alive()
	dir := t.TempDir()
	b.snapshot(dir)
	b.s.restoreFrom(t, dir).alive()
	b.alive()
	if err := b.m.Destroy(within(t, patience)); err != nil {
		t.Fatal(err)
	}
	b.Close()
	if got := b.m.End(); got != guest.Killed {
		t.Errorf("end %q, want killed", got)
	}
	if m, err := adopter.Adopt(within(t, patience), b.cfg); !fault.Is(err, fault.NotFound) {
		t.Errorf("a destroyed machine is adopted: %v, %v", m, err)
	}
}

// testPersistent: a driver whose machines end with their process says so, and
// makes nothing; one that can keeps them apart from others.
func testPersistent(t *testing.T, b *box) {
	if _, ok := b.s.Driver.(sandbox.Adopter); ok {
		if d, ok := b.m.(sandbox.Detacher); ok && !fault.Is(d.Detach(), fault.Conflict) {
			t.Error("a machine that ends with its process is given up")
		}
		b.alive()
		return
	}
	cfg := b.s.config(t)
	cfg.Persistent = true
	m, err := b.s.Driver.Restore(within(t, patience), cfg, b.s.ready)
	if err == nil {
		_ = m.Destroy(within(t, patience))
	}
	if !fault.Is(err, fault.Unsupported) {
		t.Errorf("a persistent machine of a driver without adoption: %v, want unsupported", err)
	}
}
