package sandboxes_test

import (
	"context"
	"testing"
	"time"

	"assay/internal/account"
	"assay/internal/fault"
	"assay/internal/sandboxes"
)

// spend lets a sandbox use processor time and gives all that it has used.
func (e *env) spend(ctx context.Context, id string) sandboxes.Record {
	e.t.Helper()
	if res, err := e.Exec(ctx, id, sandboxes.ExecRequest{Argv: []string{"probe", "spin", "30ms"}}); err != nil || res.Result.Exit.Code != 0 {
		e.t.Fatalf("spin: %+v, %v", res.Result.Exit, err)
	}
	r, err := e.Get(ctx, id)
	must(e.t, err)
	return r
}

// TestPersistentSandboxIsKept: over a restart of the service a persistent sandbox
// has its row, its owner, its limits and its account, and others have ended.
func TestPersistentSandboxIsKept(t *testing.T) {
	t.Parallel()
	e := newEnv(t, nil)
	ann, bob := e.as("ann", account.Member), e.as("bob", account.Member)
	other := e.create(ann, nil)
	r := e.create(ann, func(c *sandboxes.CreateRequest) {
		c.Persistent, c.Name, c.Labels, c.TTL = true, "mine", map[string]string{"a": "b"}, 2*time.Hour
	})
	if !r.Persistent || other.Persistent {
		t.Errorf("persistent %v, another %v", r.Persistent, other.Persistent)
	}
	_, err := e.SetIdle(ann, r.ID, time.Hour)
	must(t, err)
	before := e.spend(ann, r.ID)
	must(t, e.Count(ann))
	for range 2 {
		e.restart()
	}
	if got := e.ended(ann, other.ID); got.End.Why == "" {
		t.Errorf("the other one: %+v", got.End)
	}
	got, err := e.Get(ann, r.ID)
	must(t, err)
	if !got.Live() || !got.Persistent || got.Name != "mine" || got.Labels["a"] != "b" || got.Idle != time.Hour || got.Deadline.Sub(r.Deadline).Abs() > time.Millisecond {
		t.Errorf("after a restart %+v", got)
	}
	if got.CPU < before.CPU {
		t.Errorf("used %v, before the restart %v", got.CPU, before.CPU)
	}
	wantKind(t, "another's", e.Kill(bob, r.ID), fault.NotFound)
	all := e.spend(ann, r.ID)
	must(t, e.Kill(ann, r.ID))
	end := e.ended(ann, r.ID)
	if end.End.Why != "killed by ann" {
		t.Errorf("ended %+v", end.End)
	}
	// What the store has is what the machine used, once.
	kept, err := e.store.Sandbox(t.Context(), r.ID)
	must(t, err)
	if kept.CPU.Milliseconds() < all.CPU.Milliseconds() || kept.CPU >= all.CPU+before.CPU {
		t.Errorf("the account says %v, the host counted %v", kept.CPU, all.CPU)
	}
	life := float64(kept.Shape.Memory) * kept.End.At.Sub(kept.Created).Seconds()
	if kept.ByteSeconds < 0.99*life-1 || kept.ByteSeconds > 1.01*life+float64(kept.Shape.Memory)*0.01 {
		t.Errorf("%g byte seconds for a life of %g", kept.ByteSeconds, life)
	}
}

// TestNobodysPersistentSandboxEnds: without a live row it is nobody's.
func TestNobodysPersistentSandboxEnds(t *testing.T) {
	t.Parallel()
	e := newEnv(t, nil)
	ann := e.as("ann", account.Member)
	r := e.create(ann, func(c *sandboxes.CreateRequest) { c.Persistent = true })
	must(t, e.Close())
	must(t, e.store.EndSandbox(t.Context(), r.ID, sandboxes.End{At: time.Now(), Why: "the node that had it is lost"}))
	e.restart()
	if ids := e.driver.Machines(); len(ids) > 0 {
		t.Errorf("machines %v live on", ids)
	}
	if got := e.ended(ann, r.ID); got.End.Why != "the node that had it is lost" {
		t.Errorf("ended %+v", got.End)
	}
}
