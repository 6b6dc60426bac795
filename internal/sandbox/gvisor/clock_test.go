package gvisor

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"assay/internal/guest"
	"assay/internal/sandbox"
)

// quantile of a list, by the nearest rank.
func quantile(list []float64, q float64) float64 {
	list = slices.Clone(list)
	slices.Sort(list)
	return list[min(len(list)-1, int(q*float64(len(list))))]
}

// TestHostClock: on a crowded core the guest's clock runs too fast; the limit is
// kept by the host's, and who was in the way is told.
func TestHostClock(t *testing.T) {
	const limit = 300 * time.Millisecond
	e := newEngine(t, nil)
	own := e.create(sandbox.Spec{Dedicated: true, Cores: 1, BesideMemory: e.template.Shape.Memory})
	beside := e.create(sandbox.Spec{Beside: own})
	spin := func() sandbox.Usage {
		t.Helper()
		res, err := own.Exec(t.Context(), sandbox.ExecSpec{
			Argv: probe("spin", "20s"), Isolated: true, Limits: sandbox.Limits{CPU: limit, Wall: 15 * time.Second},
		}, guest.IO{})
		if err != nil || res.Exit.Cause != guest.CPULimit || res.Exit.Code != -1 {
			t.Fatalf("%+v, %v", res.Exit, err)
		}
		u := res.Usage
		t.Logf("counted %v, guest %v, host %v, wall %v, disturbed %q", u.Counted, u.CPU(), u.HostCPU, u.Wall, u.Disturbed)
		if u.Counted < limit || u.Counted > limit+limit/5 || u.Counted > u.HostCPU {
			t.Errorf("ended at %v of %v", u.Counted, limit)
		}
		return u
	}
	spin()
	var other sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	started := make(chan struct{})
	other.Go(func() {
		_, _ = beside.Exec(ctx, sandbox.ExecSpec{Argv: probe("spin", "30s")}, guest.IO{Started: func() { close(started) }})
	})
	select {
	case <-started:
	case <-time.After(20 * time.Second):
		t.Fatal("the one beside does not start")
	}
	if u := spin(); u.Disturbed == "" || u.Wall < limit+limit/4 {
		t.Errorf("beside one that works: disturbed %q, wall %v", u.Disturbed, u.Wall)
	}
	cancel()
	other.Wait()
	// With processors that are shared, or others in the machine, the guest counts.
	shared := e.create(sandbox.Spec{})
	res, err := shared.Exec(t.Context(), sandbox.ExecSpec{Argv: probe("spin", "100ms")}, guest.IO{})
	if err != nil || res.Usage.Counted != res.Usage.CPU() {
		t.Errorf("shared: counted %v, guest %v, %v", res.Usage.Counted, res.Usage.CPU(), err)
	}
}
