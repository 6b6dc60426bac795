package gvisor

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"assay/internal/fault"
	"assay/internal/guest"
	"assay/internal/sandbox"
)

// affinity is where the threads of a sandbox may run; they must agree.
func affinity(t *testing.T, s *sandbox.Sandbox) []int {
	t.Helper()
	var cores []int
	threads := 0
	for _, pid := range s.HostProcesses() {
		tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
		if err != nil {
			continue
		}
		for _, task := range tasks {
			tid, _ := strconv.Atoi(task.Name())
			var set unix.CPUSet
			if unix.SchedGetaffinity(tid, &set) != nil {
				continue
			}
			var on []int
			for i := range 1024 {
				if set.IsSet(i) {
					on = append(on, i)
				}
			}
			if threads++; threads > 1 && !slices.Equal(on, cores) {
				t.Errorf("thread %d of process %d runs on %v, others on %v", tid, pid, on, cores)
			}
			cores = on
		}
	}
	if threads == 0 {
		t.Error("the sandbox has no threads")
	}
	return cores
}

// TestCores: a dedicated sandbox has its core to itself, from the pool or a
// fork or restored; those beside it share it; the others keep off while they
// can, and come back.
func TestCores(t *testing.T) {
	var all unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil || all.Count() < 2 {
		t.Skipf("needs two processors: %v", err)
	}
	// One processor more than there are: a shared sandbox keeps a part of one.
	e := newEngine(t, func(o *sandbox.Options) { o.Pool, o.CPUs = 1, all.Count()+1 })
	if err := e.WaitPool(t.Context(), e.template); err != nil {
		t.Fatal(err)
	}
	one := sandbox.Spec{Dedicated: true, Cores: 1, BesideMemory: e.template.Shape.Memory}
	shared := e.create(sandbox.Spec{})
	free := affinity(t, shared)
	first := e.create(one)
	own := first.Info().Cores
	if len(own) != 1 || !slices.Equal(affinity(t, first), own) {
		t.Fatalf("cores %v, threads on %v, from %s", own, affinity(t, first), first.Info().BootMode)
	}
	rest := slices.DeleteFunc(slices.Clone(free), func(c int) bool { return c == own[0] })
	if got := affinity(t, shared); !slices.Equal(got, rest) || shared.Info().Cores != nil {
		t.Errorf("the shared one runs on %v, want %v", got, rest)
	}
	beside := e.create(sandbox.Spec{Beside: first})
	if !slices.Equal(affinity(t, beside), own) || !slices.Equal(beside.Info().Cores, own) {
		t.Errorf("beside it: %v", affinity(t, beside))
	}
	// Threads and processes that are made later are bound, too.
	if res, err := first.Exec(t.Context(), sandbox.ExecSpec{Argv: probe("spin", "100ms", "2"), Limits: sandbox.Limits{Wall: 10 * time.Second}}, guest.IO{}); err != nil || res.Exit.Code != 0 {
		t.Fatalf("%+v, %v", res.Exit, err)
	}
	if !slices.Equal(affinity(t, first), own) {
		t.Errorf("after a program: %v", affinity(t, first))
	}
	children, err := first.Fork(t.Context(), 1, sandbox.Spec{Dedicated: true, Cores: len(rest)})
	if err != nil || children[0].Err != nil {
		t.Fatal(err, children)
	}
	child := children[0].Sandbox
	t.Cleanup(func() { _ = child.Destroy() })
	if !slices.Equal(affinity(t, child), rest) {
		t.Errorf("the fork runs on %v, want %v", affinity(t, child), rest)
	}
	if got := affinity(t, shared); !slices.Equal(got, free) {
		t.Errorf("with no core left the shared one runs on %v, want %v", got, free)
	}
	if err := first.Destroy(); err != nil {
		t.Fatal(err)
	}
	if got := affinity(t, beside); !slices.Equal(got, own) { // the only one that is not reserved
		t.Errorf("what was beside runs on %v, want %v", got, own)
	}
	if _, err := e.Create(t.Context(), sandbox.Spec{Template: &e.template, Beside: first}); !fault.Is(err, fault.Conflict) {
		t.Errorf("beside one that has ended: %v", err)
	}
	if err := child.Destroy(); err != nil {
		t.Fatal(err)
	}
	for _, s := range []*sandbox.Sandbox{shared, beside} {
		if got := affinity(t, s); !slices.Equal(got, free) {
			t.Errorf("when all is over one runs on %v, want %v", got, free)
		}
	}
}
