package fake

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"assay/internal/guest"
	"assay/internal/sandbox"
	"assay/internal/sandbox/drivertest"
)

func TestDriver(t *testing.T) {
	d := New()
	t.Cleanup(func() { // after the suite's own machine has ended
		if left := d.Machines(); len(left) > 0 {
			t.Errorf("machines are left: %v", left)
		}
	})
	drivertest.Run(t, drivertest.Config{
		Driver: d, Native: true,
		Crash: func(m sandbox.Machine) { d.Crash(m.(*machine).cfg.ID, guest.MachineLost) },
	})
}

func config(t *testing.T, id string) sandbox.MachineConfig {
	t.Helper()
	return sandbox.MachineConfig{ID: id, Dir: t.TempDir(), Shape: drivertest.DefaultShape}
}

// TestBubble runs a machine's whole life on a clock of its own: an hour takes
// no time, limits are exact, and the bubble finds what is left running.
func TestBubble(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		d := New()
		d.SetFaults(Faults{BootTime: 3 * time.Second})
		begin := time.Now()
		m, err := d.Boot(ctx, config(t, "one"))
		if err != nil {
			t.Fatal(err)
		}
		if got := time.Since(begin); got != 3*time.Second {
			t.Errorf("boot took %v", got)
		}
		c := guest.NewClient(m.Link())
		if _, err := c.Hello(ctx); err != nil {
			t.Fatal(err)
		}
		begin = time.Now()
		res, err := c.Run(ctx, guest.ExecSpec{Argv: []string{"sleep", "7200"}, Limits: guest.Limits{Wall: time.Hour}}, guest.IO{})
		if err != nil || res.Exit.Cause != guest.WallLimit || res.Usage.Wall != time.Hour || time.Since(begin) != time.Hour {
			t.Errorf("%+v, %v after %v", res, err, time.Since(begin))
		}
		done := make(chan guest.Result, 2)
		spec := guest.ExecSpec{Key: "long", Argv: []string{"probe", "spin", "10s"}}
		follow := func(c *guest.Client) {
			res, err := c.Run(ctx, spec, guest.IO{})
			if err != nil {
				t.Error(err)
			}
			done <- res
		}
		go follow(c)
		time.Sleep(4 * time.Second)
		dir := t.TempDir()
		if err := c.Between(ctx, func(ctx context.Context) error { return m.Snapshot(ctx, dir) }); err != nil {
			t.Fatal(err)
		}
		child, err := d.Restore(ctx, config(t, "two"), dir)
		if err != nil {
			t.Fatal(err)
		}
		cc := guest.NewClient(child.Link())
		go follow(cc)
		for range 2 {
			if res := <-done; res.Usage.CPU() != 10*time.Second {
				t.Errorf("CPU %v, want 10s", res.Usage.CPU())
			}
		}
		ids := d.Machines()
		slices.Sort(ids)
		if !slices.Equal(ids, []string{"one", "two"}) {
			t.Errorf("machines %v", ids)
		}
		for _, m := range []sandbox.Machine{m, child} {
			if err := m.Destroy(ctx); err != nil {
				t.Error(err)
			}
		}
		c.Close()
		cc.Close()
		if ids := d.Machines(); len(ids) > 0 {
			t.Errorf("machines %v", ids)
		}
	})
}

func TestFaults(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		d := New()
		broken := errors.New("broken")
		d.SetFaults(Faults{Boot: func(id string) error {
			if id == "bad" {
				return broken
			}
			return nil
		}, Silent: func(id string) bool { return id == "silent" }, BootTime: time.Minute})
		if _, err := d.Boot(ctx, config(t, "bad")); !errors.Is(err, broken) {
			t.Errorf("boot: %v", err)
		}
		short, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		if _, err := d.Boot(short, config(t, "late")); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("boot beyond its deadline: %v", err)
		}
		silent, err := d.Boot(ctx, config(t, "silent"))
		if err != nil {
			t.Fatal(err)
		}
		c := guest.NewClient(silent.Link())
		short, cancel = context.WithTimeout(ctx, time.Hour)
		defer cancel()
		if _, err := c.Hello(short); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("hello of a silent machine: %v", err)
		}
		if err := silent.Destroy(ctx); err != nil {
			t.Error(err)
		}
		m, err := d.Boot(ctx, config(t, "dies"))
		if err != nil {
			t.Fatal(err)
		}
		d.Crash("dies", guest.MemoryLimit)
		if <-m.Ended(); m.End() != guest.MemoryLimit {
			t.Errorf("end %q", m.End())
		}
		if err := m.Destroy(ctx); err != nil {
			t.Error(err)
		}
		if m.End() != guest.MemoryLimit {
			t.Errorf("Destroy changes the end to %q", m.End())
		}
	})
}

// TestMachineMemory: a machine whose programs hold more than its shape is ended
// by the host.
func TestMachineMemory(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := New()
		m, err := d.Boot(t.Context(), config(t, "full"))
		if err != nil {
			t.Fatal(err)
		}
		c := guest.NewClient(m.Link())
		var out bytes.Buffer
		if _, err := c.Run(t.Context(), guest.ExecSpec{Argv: []string{"probe", "alloc", "2000000000", "1s"}}, guest.IO{Stdout: &out}); err == nil {
			t.Error("no error of a machine that was ended")
		}
		<-m.Ended()
		if m.End() != guest.MemoryLimit {
			t.Errorf("end %q, want memory_limit", m.End())
		}
		if err := m.Destroy(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
