package bench

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"assay/internal/fault"
	"assay/internal/guest"
	"assay/internal/judge"
	"assay/internal/sandbox"
)

// CalibrateOptions say how much to measure.
type CalibrateOptions struct {
	// N is how often each thing is measured, at least 2.
	N int
	// Stage is told what is measured now, and Step how much of all is done. Both
	// may be nil.
	Stage func(name string)
	Step  func(done, total int64)
}

// runTime is about how long a measured run takes.
const runTime = 200 * time.Millisecond

// calibrated are the programs: the table of one stays in the nearest cache, that
// of the other does not fit into most.
var calibrated = []struct{ name, kib string }{
	{"CPU-bound (16 KiB)", "16"},
	{"memory-bound (64 MiB)", "65536"},
}

// Calibrate measures how much the times of equal runs differ on this host: in
// machines as the judge has them, with the host counting, and natively, turn by
// turn. m is open and running and has nothing else in it. It fails with an
// Exhausted fault when the host cannot give a machine to each processor.
func Calibrate(ctx context.Context, m *sandbox.Manager, t sandbox.Template, host judge.HostInfo, o CalibrateOptions) (_ Calibration, err error) {
	c := &calibration{o: o, cores: max(host.Processors, 1)}
	defer func() { err = errors.Join(err, c.close()) }()
	for range c.cores {
		s, err := m.Create(ctx, sandbox.Spec{Template: &t, Dedicated: true, Cores: 1})
		if err != nil {
			return Calibration{}, fmt.Errorf("make a machine for each processor: %w", err)
		}
		c.machines = append(c.machines, s)
	}
	if err := c.build(ctx); err != nil {
		return Calibration{}, err
	}
	before := stealOf("/proc/stat")
	out := Calibration{Host: host, At: time.Now().UTC()}
	c.total = int64(c.o.N) * int64(1+4*len(calibrated))
	c.stage("a program that does nothing")
	fixed, err := c.repeat(ctx, c.inside, 1)
	if err != nil {
		return Calibration{}, err
	}
	out.FixedUS = timesOf(fixed).P50US
	for _, p := range calibrated {
		c.stage(p.name)
		one, err := c.program(ctx, p.name, p.kib)
		if err != nil {
			return Calibration{}, fmt.Errorf("measure the %s program: %w", p.name, err)
		}
		out.Programs = append(out.Programs, one)
	}
	after := stealOf("/proc/stat")
	out.Steal = ratio(after.steal-before.steal, after.all-before.all)
	out.Advice = Advise(out.Measured, host)
	return out, nil
}

type calibration struct {
	o           CalibrateOptions
	cores       int
	machines    []*sandbox.Sandbox
	dir         string
	native      string // the program on the host, or empty
	done, total int64
}

func (c *calibration) close() error {
	var errs []error
	for _, s := range c.machines {
		errs = append(errs, s.Destroy())
	}
	if c.dir != "" {
		errs = append(errs, os.RemoveAll(c.dir))
	}
	return errors.Join(errs...)
}

func (c *calibration) stage(name string) {
	if c.o.Stage != nil {
		c.o.Stage(name)
	}
}

//go:embed programs/spin.c
var spin []byte

const spinPath = "/box/spin"

// build puts one and the same program into every machine and onto the host. A
// host without a compiler has it built in a machine, and nothing to compare with.
func (c *calibration) build(ctx context.Context) (err error) {
	if c.dir, err = os.MkdirTemp("", "assay-calibrate-"); err != nil {
		return err
	}
	var program []byte
	if gcc, lookErr := exec.LookPath("gcc"); lookErr == nil {
		src, bin := filepath.Join(c.dir, "spin.c"), filepath.Join(c.dir, "spin")
		if err := os.WriteFile(src, spin, 0o600); err != nil {
			return err
		}
		if out, err := exec.CommandContext(ctx, gcc, "-O2", "-static", "-o", bin, src).CombinedOutput(); err != nil {
			return fault.Errorf(fault.Unsupported, "compile the program to measure: %w: %s", err, out).WithHint("apt-get install gcc libc6-dev")
		}
		if program, err = os.ReadFile(bin); err != nil {
			return err
		}
		c.native = bin
	} else if program, err = c.buildInside(ctx); err != nil {
		return err
	}
	for _, s := range c.machines {
		if _, err := s.Guest().WriteFile(ctx, spinPath, bytes.NewReader(program), guest.WriteOptions{Mode: 0o755, Owner: "root"}); err != nil {
			return err
		}
	}
	return nil
}

func (c *calibration) buildInside(ctx context.Context) ([]byte, error) {
	s := c.machines[0]
	if _, err := s.Guest().WriteFile(ctx, "/box/spin.c", bytes.NewReader(spin), guest.WriteOptions{Mode: 0o644, Owner: "root"}); err != nil {
		return nil, err
	}
	var said bytes.Buffer
	res, err := s.Exec(ctx, sandbox.ExecSpec{Argv: []string{"gcc", "-O2", "-static", "-o", "/box/built", "/box/spin.c"}, User: "root"},
		guest.IO{Stdout: &said, Stderr: &said})
	if err == nil && (res.Exit.Cause != guest.Exited || res.Exit.Code != 0) {
		err = fault.Errorf(fault.Unsupported, "compile the program to measure: %s", said.String()).WithHint("use a template with gcc")
	}
	if err != nil {
		return nil, err
	}
	r, err := s.Guest().ReadFile(ctx, "/box/built")
	if err != nil {
		return nil, err
	}
	defer r.Close()
	var program bytes.Buffer
	_, err = program.ReadFrom(r)
	return program.Bytes(), err
}

// runner runs the program once; place is which of those at the same time it is.
type runner func(ctx context.Context, place int, args ...string) (timed, error)

// calibrateLimits end a run that hangs. The judge's runs have limits too.
var calibrateLimits = sandbox.Limits{CPU: 30 * time.Second, Wall: 90 * time.Second}

func (c *calibration) inside(ctx context.Context, place int, args ...string) (timed, error) {
	res, err := c.machines[place].Exec(ctx, sandbox.ExecSpec{
		Argv: append([]string{spinPath}, args...), User: "user", Isolated: true, Limits: calibrateLimits,
	}, guest.IO{})
	if err == nil && (res.Exit.Cause != guest.Exited || res.Exit.Code != 0) {
		err = fault.Errorf(fault.Internal, "the program ended by %s with code %d", res.Exit.Cause, res.Exit.Code)
	}
	return timed{float64(res.Usage.Counted.Nanoseconds()) / 1e3, res.Usage.Disturbed != ""}, err
}

func (c *calibration) outside(ctx context.Context, _ int, args ...string) (timed, error) {
	cmd := exec.CommandContext(ctx, c.native, args...)
	if err := cmd.Run(); err != nil {
		return timed{}, fault.Errorf(fault.Internal, "run the program natively: %w", err)
	}
	used := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	return timed{us: float64(used.Nanoseconds()) / 1e3}, nil
}

// program measures one program in all four ways, turn by turn: a host that
// changes its speed changes it for all.
func (c *calibration) program(ctx context.Context, name, kib string) (Program, error) {
	rounds, err := c.rounds(ctx, kib)
	if err != nil {
		return Program{}, err
	}
	var in, out [2][]timed
	for range c.o.N {
		for i, atOnce := range []int{1, c.cores} {
			got, err := c.atOnce(ctx, c.inside, atOnce, kib, rounds)
			if err != nil {
				return Program{}, err
			}
			in[i] = append(in[i], got...)
			if c.native == "" {
				c.step()
				continue
			}
			if got, err = c.atOnce(ctx, c.outside, atOnce, kib, rounds); err != nil {
				return Program{}, err
			}
			out[i] = append(out[i], got...)
		}
	}
	p := Program{Name: name, Inside: placed(in[0], in[1])}
	if c.native != "" {
		native := placed(out[0], out[1])
		p.Native, p.Ratio = &native, ratio(p.Inside.Alone.P50US, native.Alone.P50US)
	}
	return p, nil
}

// rounds finds how many rounds take about runTime in a machine.
func (c *calibration) rounds(ctx context.Context, kib string) (string, error) {
	n := 2_000_000
	var base, got timed
	var err error
	if base, err = c.inside(ctx, 0, kib, "1"); err != nil { // also warms the caches
		return "", err
	}
	for range 3 {
		if got, err = c.inside(ctx, 0, kib, strconv.Itoa(n)); err != nil {
			return "", err
		}
		each := max(got.us-base.us, 1) / float64(n)
		n = max(int((float64(runTime.Microseconds())-base.us)/each), 1_000_000)
	}
	return strconv.Itoa(n), nil
}

// repeat runs something N times, n at once.
func (c *calibration) repeat(ctx context.Context, run runner, n int, args ...string) ([]timed, error) {
	var all []timed
	for range c.o.N {
		got, err := c.atOnce(ctx, run, n, args...)
		if err != nil {
			return nil, err
		}
		all = append(all, got...)
	}
	return all, nil
}

// atOnce runs the program n times at the same time, each in a machine of its own.
func (c *calibration) atOnce(ctx context.Context, run runner, n int, args ...string) ([]timed, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	got, errs := make([]timed, n), make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { got[i], errs[i] = run(ctx, i, args...) })
	}
	wg.Wait()
	c.step()
	return got, errors.Join(errs...)
}

func (c *calibration) step() {
	c.done++
	if c.o.Step != nil {
		c.o.Step(min(c.done, c.total), c.total)
	}
}

// stolen is the processors' time, and what of it the host's host took, in ticks.
type stolen struct{ steal, all float64 }

func stealOf(file string) stolen {
	var s stolen
	data, err := os.ReadFile(file)
	if err != nil {
		return s // No other system tells.
	}
	for line := range bytes.Lines(data) {
		f := bytes.Fields(line)
		if len(f) < 9 || string(f[0]) != "cpu" {
			continue
		}
		for i, word := range f[1:9] { // user to steal; guests are in user already
			n, _ := strconv.ParseFloat(string(word), 64)
			s.all += n
			if i == 7 {
				s.steal = n
			}
		}
	}
	return s
}
