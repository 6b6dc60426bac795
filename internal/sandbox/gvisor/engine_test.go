package gvisor

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"assay/internal/fault"
	"assay/internal/guest"
	"assay/internal/sandbox"
	"assay/internal/sandbox/drivertest"
)

// engine is a manager over this driver: what the engine promises and only a
// real machine can show.
type engine struct {
	*sandbox.Manager
	t        *testing.T
	template sandbox.Template
	probe    []byte
}

func newEngine(t *testing.T, change func(o *sandbox.Options)) *engine {
	t.Helper()
	cfg := setup(t)
	o := sandbox.Options{Driver: cfg.Driver, Dir: t.TempDir(), CPUs: 2, Memory: 4 << 30}
	if change != nil {
		change(&o)
	}
	m, err := sandbox.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var ran sync.WaitGroup
	ran.Go(func() { _ = m.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		ran.Wait()
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	probe, err := os.ReadFile(drivertest.BuildProbe(t))
	if err != nil {
		t.Fatal(err)
	}
	return &engine{Manager: m, t: t, probe: probe, template: sandbox.Template{
		Name: "base", Digest: "sha256:engine-test", Image: cfg.Image, Shape: drivertest.DefaultShape, Snapshots: filepath.Join(o.Dir, "warm"),
	}}
}

// create makes a sandbox with the probe in it.
func (e *engine) create(spec sandbox.Spec) *sandbox.Sandbox {
	e.t.Helper()
	spec.Template = &e.template
	s, err := e.Create(e.t.Context(), spec)
	if err != nil {
		e.t.Fatal(err)
	}
	e.t.Cleanup(func() { _ = s.Destroy() })
	if _, err := s.Guest().WriteFile(e.t.Context(), "/usr/local/bin/probe", bytes.NewReader(e.probe), guest.WriteOptions{Mode: 0o755, Owner: guest.OwnerRoot, MakeParents: true}); err != nil {
		e.t.Fatal(err)
	}
	return s
}

func probe(args ...string) []string { return append([]string{"/usr/local/bin/probe"}, args...) }

// TestConnect: two programs talk; snapshots are refused while they do, and work
// before and after.
func TestConnect(t *testing.T) {
	e := newEngine(t, nil)
	a, b := e.create(sandbox.Spec{}), e.create(sandbox.Spec{})
	w, err := e.Connect(t.Context(), a, b)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	spec := func(args ...string) sandbox.ExecSpec {
		return sandbox.ExecSpec{Argv: probe(args...), Wire: w.Name, Isolated: true, Limits: sandbox.Limits{Wall: 20 * time.Second}}
	}
	var pong sandbox.Result
	var pongErr error
	var running sync.WaitGroup
	running.Go(func() { pong, pongErr = b.Exec(t.Context(), spec("pong"), guest.IO{}) })
	if res, err := a.Exec(t.Context(), spec("ping", "100"), guest.IO{}); err != nil || res.Exit.Code != 0 {
		t.Fatalf("ping: %+v, %v", res.Exit, err)
	}
	if _, err := b.Snapshot(t.Context(), 0); !fault.Is(err, fault.Conflict) || fault.HintOf(err) == "" {
		t.Errorf("snapshot while connected: %v", err)
	}
	if _, err := b.Fork(t.Context(), 1, sandbox.Spec{}); !fault.Is(err, fault.Conflict) {
		t.Errorf("fork while connected: %v", err)
	}
	w.ReleaseA()
	running.Wait()
	if pongErr != nil || pong.Exit.Code != 0 || pong.Exit.Cause != guest.Exited {
		t.Errorf("pong: %+v, %v", pong.Exit, pongErr)
	}
	for _, s := range []*sandbox.Sandbox{a, b} {
		children, err := s.Fork(t.Context(), 1, sandbox.Spec{})
		if err != nil || children[0].Err != nil {
			t.Fatalf("fork after it: %v, %+v", err, children)
		}
		_ = children[0].Sandbox.Destroy()
	}
	// A machine that dies lets go of its ends.
	if w, err = e.Connect(t.Context(), a, b); err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	running.Go(func() { pong, pongErr = b.Exec(t.Context(), spec("hear"), guest.IO{}) })
	time.AfterFunc(300*time.Millisecond, func() { _ = a.Destroy() })
	if res, err := a.Exec(t.Context(), spec("sleep", "10s"), guest.IO{}); err != nil || res.Exit.Cause != guest.Killed {
		t.Errorf("in a sandbox that is destroyed: %+v, %v", res.Exit, err)
	}
	w.ReleaseA()
	running.Wait()
	if pongErr != nil || pong.Exit.Code != 0 {
		t.Errorf("the other of it: %+v, %v", pong.Exit, pongErr)
	}
}
