package bench

import (
	"bufio"
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"assay/internal/fault"
	"assay/internal/guest"
	"assay/internal/sandbox"
)

// Options say how much to measure.
type Options struct {
	// N is how often each thing is measured.
	N int
	// Stage is told what is measured now.
	Stage func(name string)
}

// Sandbox measures create, exec, snapshot, fork, memory and computing speed.
// pooled has a pool for the template, bare has none; both are open and running.
func Sandbox(ctx context.Context, pooled, bare *sandbox.Manager, t sandbox.Template, o Options) (Report, error) {
	b := &sandboxBench{ctx: ctx, pooled: pooled, bare: bare, t: t, n: o.N, emulated: bare.Emulated(t)}
	r, err := measureAll(ctx, o.Stage, []step{
		{"create from snapshot", b.fromSnapshot},
		{"create from pool", b.fromPool},
		{"16 at once", b.burst},
		{"exec", b.exec},
		{"snapshot and fork", b.fork},
		{"memory", b.memory},
		{"computing", b.computing},
	})
	for i := range r.Rows {
		if r.Rows[i].Unit == "us" {
			r.Rows[i].Units = r.Rows[i].P50 / r.UnitUS
		}
	}
	return r, err
}

// step is one part of a benchmark.
type step struct {
	name string
	run  func() ([]Row, error)
}

// measureAll runs the steps and measures the unit before and after them; stage,
// if not nil, is told their names.
func measureAll(ctx context.Context, stage func(string), steps []step) (Report, error) {
	before, err := unit(ctx)
	if err != nil {
		return Report{}, err
	}
	var r Report
	for _, s := range steps {
		if stage != nil {
			stage(s.name)
		}
		rows, err := s.run()
		if err != nil {
			return Report{}, fmt.Errorf("measure %s: %w", s.name, err)
		}
		r.Rows = append(r.Rows, rows...)
	}
	after, err := unit(ctx)
	if err != nil {
		return Report{}, err
	}
	r.UnitUS, r.UnitSpread = (before+after)/2, max(before, after)/min(before, after)
	return r, nil
}

type sandboxBench struct {
	ctx          context.Context // of one run of the benchmark, which is one call
	pooled, bare *sandbox.Manager
	t            sandbox.Template
	n            int
	emulated     bool
}

// emulatedCreate is the target of a create from a snapshot where the processor
// is emulated, in units: 330 ms on a host on which one is 2.3 ms.
const emulatedCreate = 143

// target is the one of a native processor; an emulated one is not held to it.
func (b *sandboxBench) target(native float64) float64 {
	if b.emulated {
		return 0
	}
	return native
}

func (b *sandboxBench) create(m *sandbox.Manager) (*sandbox.Sandbox, time.Duration, error) {
	t0 := time.Now()
	s, err := m.Create(b.ctx, sandbox.Spec{Template: &b.t})
	return s, time.Since(t0), err
}

func (b *sandboxBench) fromSnapshot() ([]Row, error) {
	var ends []float64
	values, err := sample(b.ctx, b.n, func() (time.Duration, error) {
		s, d, err := b.create(b.bare)
		if err != nil {
			return 0, err
		}
		t0 := time.Now()
		err = s.Destroy()
		ends = append(ends, float64(time.Since(t0).Microseconds()))
		return d, err
	})
	target := b.target(65)
	if b.emulated {
		target = emulatedCreate
	}
	return []Row{row("create from snapshot, no pool", "us", values, target), row("destroy", "us", ends, 0)}, err
}

// poolRest is longer than what a restore leaves to be done behind it.
const poolRest = 100 * time.Millisecond

func (b *sandboxBench) fromPool() ([]Row, error) {
	values, err := sample(b.ctx, b.n, func() (time.Duration, error) {
		if err := b.pooled.WaitPool(b.ctx, b.t); err != nil {
			return 0, err
		}
		// A caller finds a pool at rest, not one that has filled up this moment.
		select {
		case <-time.After(poolRest):
		case <-b.ctx.Done():
		}
		s, d, err := b.create(b.pooled)
		if err != nil {
			return 0, err
		}
		if mode := s.Info().BootMode; mode != sandbox.BootPool {
			return 0, fault.Errorf(fault.Internal, "the pool was full, and the sandbox came from %s", mode)
		}
		return d, s.Destroy()
	})
	return []Row{row("create from pool", "us", values, b.target(3))}, err
}

func (b *sandboxBench) burst() ([]Row, error) {
	const at = 16
	values, err := sample(b.ctx, max(3, b.n/10), func() (time.Duration, error) {
		var wg sync.WaitGroup
		made := make([]*sandbox.Sandbox, at)
		errs := make([]error, at)
		t0 := time.Now()
		for i := range at {
			wg.Go(func() { made[i], _, errs[i] = b.create(b.bare) })
		}
		wg.Wait()
		d := time.Since(t0)
		for i := range at {
			if errs[i] != nil {
				return 0, errs[i]
			}
			wg.Go(func() { errs[i] = made[i].Destroy() })
		}
		wg.Wait()
		return d, errs[0]
	})
	return []Row{row("16 at once, no pool, until all answer", "us", values, b.target(900))}, err
}

func (b *sandboxBench) exec() ([]Row, error) {
	s, _, err := b.create(b.bare)
	if err != nil {
		return nil, err
	}
	defer func() { _ = s.Destroy() }() // the measurement's own error matters more
	var rows []Row
	for _, isolated := range []bool{false, true} {
		name, target := "exec /bin/true in a warm machine", b.target(4)
		if isolated {
			name, target = "exec /bin/true, isolated", 0
		}
		run := func() (time.Duration, error) {
			t0 := time.Now()
			_, err := s.Exec(b.ctx, sandbox.ExecSpec{Argv: []string{"/bin/true"}, Isolated: isolated}, guest.IO{})
			return time.Since(t0), err
		}
		if _, err := sample(b.ctx, 5, run); err != nil { // the first ones warm caches
			return nil, err
		}
		values, err := sample(b.ctx, 4*b.n, run)
		if err != nil {
			return nil, err
		}
		rows = append(rows, row(name, "us", values, target))
	}
	return rows, nil
}

func (b *sandboxBench) fork() ([]Row, error) {
	var pauses, calls, forks []float64
	for range max(3, b.n/4) {
		s, _, err := b.create(b.bare)
		if err != nil {
			return nil, err
		}
		pause, call, snap, err := b.pause(s)
		if err != nil {
			return nil, err
		}
		pauses, calls = append(pauses, float64(pause.Microseconds())), append(calls, float64(call.Microseconds()))
		if err := b.bare.RemoveSnapshot(snap.ID); err != nil {
			return nil, err
		}
		t0 := time.Now()
		children, err := s.Fork(b.ctx, 4, sandbox.Spec{})
		forks = append(forks, float64(time.Since(t0).Microseconds()))
		if err != nil {
			return nil, err
		}
		for _, c := range children {
			if c.Err != nil {
				return nil, c.Err
			}
			if err := c.Sandbox.Destroy(); err != nil {
				return nil, err
			}
		}
		if err := s.Destroy(); err != nil {
			return nil, err
		}
	}
	return []Row{
		row("snapshot, how long the parent stood still", "us", pauses, b.target(25)),
		row("snapshot, the whole call", "us", calls, 0), row("fork of 4", "us", forks, b.target(260)),
	}, nil
}

// gapProgram prints the longest time, in seconds, in which it did not run.
const gapProgram = `import time
end = time.monotonic() + 0.8
last, gap = time.monotonic(), 0
print("ready", flush=True)
while last < end:
    now = time.monotonic()
    gap = max(gap, now - last)
    last = now
print(gap)
`

// pause snapshots a sandbox while a program in it watches the clock.
func (b *sandboxBench) pause(s *sandbox.Sandbox) (pause, call time.Duration, snap sandbox.Snapshot, err error) {
	r, w := io.Pipe()
	ran := make(chan error, 1)
	go func() {
		_, err := s.Exec(b.ctx, sandbox.ExecSpec{Argv: []string{"python3", "-c", gapProgram}}, guest.IO{Stdout: w})
		ran <- errors.Join(err, w.Close())
	}()
	lines := bufio.NewScanner(r)
	lines.Scan()
	if lines.Text() == "ready" {
		t0 := time.Now()
		snap, err = s.Snapshot(b.ctx, time.Hour)
		call = time.Since(t0)
	}
	var gap float64
	if lines.Scan() {
		_, scanErr := fmt.Sscan(lines.Text(), &gap)
		err = errors.Join(err, scanErr)
	}
	return time.Duration(gap * float64(time.Second)), call, snap, errors.Join(err, <-ran)
}

// memory measures what an idle machine costs among ten: the pages of its host
// processes that no other process shares, and its share of all (PSS).
func (b *sandboxBench) memory() ([]Row, error) {
	var made []*sandbox.Sandbox
	defer func() {
		for _, s := range made {
			_ = s.Destroy() // the measurement's own error matters more
		}
	}()
	for range 10 {
		s, _, err := b.create(b.bare)
		if err != nil {
			return nil, err
		}
		made = append(made, s)
	}
	var unshared, shares []float64
	for _, s := range made {
		var own, share int64
		for _, pid := range s.HostProcesses() {
			kinds := memoryOf(pid)
			own += kinds["Private_Clean:"] + kinds["Private_Dirty:"]
			share += kinds["Pss:"]
		}
		unshared, shares = append(unshared, float64(own)), append(shares, float64(share))
	}
	return []Row{
		row("unshared memory of an idle machine", "bytes", unshared, b.target(16<<20)),
		row("memory of each of 10, what is shared divided (PSS)", "bytes", shares, 0),
	}, nil
}

// memoryOf is a process's memory by kind, in bytes; nothing if it has ended.
func memoryOf(pid int) map[string]int64 {
	b, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "smaps_rollup"))
	if err != nil {
		return nil
	}
	kinds := map[string]int64{}
	for line := range bytes.Lines(b) {
		if f := bytes.Fields(line); len(f) >= 2 {
			n, _ := strconv.ParseInt(string(f[1]), 10, 64) // the first line is no kind
			kinds[string(f[0])] += n << 10
		}
	}
	return kinds
}

//go:embed programs/compute.cc
var compute []byte

// computing compares a CPU-bound C++ program on the host and in a machine: the
// same static binary, its own clock, turn by turn.
func (b *sandboxBench) computing() ([]Row, error) {
	dir, err := os.MkdirTemp("", "assay-bench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	src, bin := filepath.Join(dir, "compute.cc"), filepath.Join(dir, "compute")
	if err := os.WriteFile(src, compute, 0o600); err != nil {
		return nil, err
	}
	if out, err := exec.CommandContext(b.ctx, "g++", "-O2", "-static", "-o", bin, src).CombinedOutput(); err != nil {
		return nil, fault.Errorf(fault.Unsupported, "compile the program to compare: %w: %s", err, out).WithHint("apt-get install g++")
	}
	s, _, err := b.create(b.bare)
	if err != nil {
		return nil, err
	}
	defer func() { _ = s.Destroy() }() // the measurement's own error matters more
	f, err := os.Open(bin)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if _, err := s.Guest().WriteFile(b.ctx, "/box/compute", f, guest.WriteOptions{Mode: 0o755, Owner: "root"}); err != nil {
		return nil, err
	}
	var rows []Row
	for _, what := range []struct {
		name   string
		kib    string
		target float64
	}{
		{"CPU-bound C++ (16 KiB), inside / native", "16", b.target(1.03)},
		{"memory-bound C++ (64 MiB), inside / native", "65536", 0},
	} {
		var ratios []float64
		for range max(5, b.n/4) {
			native, err := exec.CommandContext(b.ctx, bin, what.kib).Output()
			if err != nil {
				return nil, err
			}
			var inside bytes.Buffer
			if _, err := s.Exec(b.ctx, sandbox.ExecSpec{Argv: []string{"/box/compute", what.kib}}, guest.IO{Stdout: &inside}); err != nil {
				return nil, err
			}
			var x, y float64
			if _, err := fmt.Sscan(string(native), &x); err != nil {
				return nil, err
			}
			if _, err := fmt.Sscan(inside.String(), &y); err != nil {
				return nil, err
			}
			ratios = append(ratios, y/x)
		}
		rows = append(rows, row(what.name, "x", ratios, what.target))
	}
	return rows, nil
}
