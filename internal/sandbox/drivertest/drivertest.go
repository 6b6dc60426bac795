// Package drivertest is the one suite that every driver must pass: it works on
// sandbox.Driver and guestd's link alone, with programs that provoke each
// outcome. Start with Run. Behaviour that every driver owes is tested here and
// never in one driver's own test.
//
// It is imported by tests only and must not know any driver.
package drivertest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"assay/internal/guest"
	"assay/internal/sandbox"
)

// Config is what the suite needs of a driver.
type Config struct {
	Driver sandbox.Driver
	// Image is the root filesystem of every machine. The suite brings its own
	// program; what it needs besides guestd is /bin/sh.
	Image string
	// Shape is the machines' size; the zero value is a small machine with two
	// processors.
	Shape sandbox.Shape
	// Native is set for a driver that does the probe's verbs itself: no program
	// is built and put into the machine then.
	Native bool
	// Crash ends a machine as an accident would. Without it that promise is not
	// tested.
	Crash func(m sandbox.Machine)
	// Loose widens all bounds and limits of time, for a technology whose processor
	// is emulated. Zero is one: as stated.
	Loose float64
	// Beside runs as many machines at once as -parallel allows, for a driver whose
	// times say nothing anyway.
	Beside bool
}

// DefaultShape is the size of machines when Config does not say.
var DefaultShape = sandbox.Shape{VCPUs: 2, Memory: 512 << 20, Disk: 256 << 20, Processes: 512}

const (
	// patience bounds a call that should be quick.
	patience = 20 * time.Second
	// wall is the limit of a command that does not say its own.
	wall = 10 * time.Second
)

// probePath is where the probe lies in the machines.
const probePath = "/usr/local/bin/probe"

// test is one promise. Each gets a machine of its own.
type test struct {
	name string
	run  func(t *testing.T, b *box)
}

// Run runs the suite. Machines run one at a time where time is measured, so
// the subtests are parallel only if Config.Beside says so.
func Run(t *testing.T, cfg Config) {
	if cfg.Shape == (sandbox.Shape{}) {
		cfg.Shape = DefaultShape
	}
	s := newSuite(cfg)
	s.prepare(t)
	for _, group := range [][]test{causeTests, usageTests, streamTests, sessionTests, isolationTests, lifecycleTests, adoptTests, restoreTests, wireTests} {
		for _, tt := range group {
			t.Run(tt.name, func(t *testing.T) {
				s.beside(t)
				tt.run(t, s.restore(t))
			})
		}
	}
}

// beside lets a subtest run while others do, where the driver allows that.
func (s *suite) beside(t *testing.T) {
	if s.Beside {
		t.Parallel()
	}
}

// newSuite makes a run, and all waiting in it as long as the driver needs.
func newSuite(cfg Config) *suite {
	cfg.Loose = max(cfg.Loose, 1)
	looseness = cfg.Loose
	return &suite{Config: cfg}
}

// looseness is Config.Loose of the run under way: a process tests one driver.
var looseness = 1.0

// loose is a bound of time as wide as the driver needs it.
func loose(d time.Duration) time.Duration { return time.Duration(float64(d) * looseness) }

// suite is one run of the suite.
type suite struct {
	Config
	ready string // snapshot of a machine with the probe in it
}

var serial atomic.Int64

// config makes the configuration of a new machine.
func (s *suite) config(t testing.TB) sandbox.MachineConfig {
	t.Helper()
	return sandbox.MachineConfig{
		ID:    fmt.Sprintf("suite-%d-%d", os.Getpid(), serial.Add(1)),
		Dir:   t.TempDir(),
		Image: s.Image,
		Shape: s.Shape,
	}
}

// prepare boots the machine that all others are restored from.
func (s *suite) prepare(t *testing.T) {
	t.Helper()
	s.ready = t.TempDir()
	b := s.boot(t)
	if !s.Native {
		f, err := os.Open(BuildProbe(t))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := b.WriteFile(within(t, patience), probePath, f, guest.WriteOptions{Mode: 0o755, Owner: guest.OwnerRoot, MakeParents: true}); err != nil {
			t.Fatalf("put the probe into the machine: %v", err)
		}
	}
	if got := b.probe("echo", "ready"); got != "ready\n" {
		t.Fatalf("the probe says %q", got)
	}
	b.snapshot(s.ready)
}

// BuildProbe builds the probe for machines and gives its path.
func BuildProbe(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "probe")
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", path, "assay/internal/sandbox/drivertest/probe")
	cmd.Env = append(cmd.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build the probe: %v\n%s", err, out)
	}
	return path
}

// box is a machine under test, with the client that speaks to its guestd.
type box struct {
	*guest.Client
	t   testing.TB
	s   *suite
	m   sandbox.Machine
	cfg sandbox.MachineConfig
}

// boot makes a machine from nothing.
func (s *suite) boot(t testing.TB) *box {
	t.Helper()
	cfg := s.config(t)
	m, err := s.Driver.Boot(within(t, patience), cfg)
	if err != nil {
		t.Fatalf("boot: %v", err)
	}
	return s.open(t, m, cfg)
}

// restore makes a machine from the one that prepare left.
func (s *suite) restore(t testing.TB) *box {
	t.Helper()
	return s.restoreFrom(t, s.ready)
}

func (s *suite) restoreFrom(t testing.TB, dir string) *box {
	t.Helper()
	cfg := s.config(t)
	m, err := s.Driver.Restore(within(t, patience), cfg, dir)
	if err != nil {
		t.Fatalf("restore: %v", err)
	}
	return s.open(t, m, cfg)
}

// open waits for guestd's first answer; the machine ends with the test.
func (s *suite) open(t testing.TB, m sandbox.Machine, cfg sandbox.MachineConfig) *box {
	t.Helper()
	b := &box{Client: guest.NewClient(m.Link()), t: t, s: s, m: m, cfg: cfg}
	t.Cleanup(func() {
		b.Close()
		ctx, cancel := context.WithTimeout(context.Background(), loose(patience))
		defer cancel()
		if err := m.Destroy(ctx); err != nil {
			t.Errorf("destroy %s: %v", cfg.ID, err)
		}
	})
	if _, err := b.Hello(within(t, patience)); err != nil {
		t.Fatalf("guestd does not answer: %v", err)
	}
	return b
}

// within gives a context that ends with the test or after d, more for a loose
// driver.
func within(t testing.TB, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), loose(d))
	t.Cleanup(cancel)
	return ctx
}

// exec runs a command to its end. stdout and stderr together are what it gives
// where the caller has no place for them.
func (b *box) exec(spec guest.ExecSpec, streams guest.IO) (string, guest.Result) {
	b.t.Helper()
	var out lockedBuffer
	if streams.Stdout == nil {
		streams.Stdout = &out
	}
	if streams.Stderr == nil {
		streams.Stderr = &out
	}
	if spec.Limits.Wall == 0 {
		spec.Limits.Wall = loose(wall)
	}
	res, err := b.Run(within(b.t, spec.Limits.Wall+patience), spec, streams)
	if err != nil {
		b.t.Fatalf("exec %q: %v", spec.Argv, err)
	}
	return out.String(), res
}

// verb is a probe's command line.
func verb(args ...string) []string { return append([]string{probePath}, args...) }

// probe runs a verb that must succeed and gives its output.
func (b *box) probe(args ...string) string {
	b.t.Helper()
	return b.probeAs(guest.ExecSpec{}, args...)
}

// probeAs is probe with more of the spec.
func (b *box) probeAs(spec guest.ExecSpec, args ...string) string {
	b.t.Helper()
	spec.Argv = verb(args...)
	out, res := b.exec(spec, guest.IO{})
	if res.Exit.Cause != guest.Exited || res.Exit.Code != 0 {
		b.t.Fatalf("probe %q ended as %+v: %s", args, res.Exit, out)
	}
	return out
}

// alive fails the test unless the machine runs a command as it should.
func (b *box) alive() {
	b.t.Helper()
	if got := b.probe("echo", "alive"); got != "alive\n" {
		b.t.Errorf("after it the machine says %q, want alive", got)
	}
}

// background is a command that runs beside the test.
type background struct {
	res  guest.Result
	err  error
	done chan struct{}
}

// start runs a command beside the test. The test ends it, or its wall limit.
func (b *box) start(spec guest.ExecSpec, streams guest.IO) *background {
	b.t.Helper()
	if spec.Limits.Wall == 0 {
		spec.Limits.Wall = loose(wall)
	}
	ctx := within(b.t, spec.Limits.Wall+patience)
	bg := &background{done: make(chan struct{})}
	go func() {
		defer close(bg.done)
		bg.res, bg.err = b.Run(ctx, spec, streams)
	}()
	return bg
}

// wait gives the result of a command, which must come within d.
func (bg *background) wait(t testing.TB, d time.Duration) (guest.Result, error) {
	t.Helper()
	select {
	case <-bg.done:
		return bg.res, bg.err
	case <-within(t, d).Done():
		t.Fatalf("the command has not ended within %v", d)
		return guest.Result{}, nil
	}
}

// snapshot takes a snapshot between two sessions.
func (b *box) snapshot(dir string) {
	b.t.Helper()
	err := b.Between(within(b.t, patience), func(ctx context.Context) error { return b.m.Snapshot(ctx, dir) })
	if err != nil {
		b.t.Fatalf("snapshot: %v", err)
	}
}

// output collects what a command writes and says when something is there.
type output struct {
	lockedBuffer
	first signalOnce
}

func newOutput() *output { return &output{first: newSignal()} }

func (o *output) Write(p []byte) (int, error) {
	n, err := o.lockedBuffer.Write(p)
	o.first.fire()
	return n, err
}

// started waits until a command has written something.
func (o *output) started(t testing.TB) {
	t.Helper()
	select {
	case <-o.first.c:
	case <-within(t, patience).Done():
		t.Fatal("the command has written nothing")
	}
}

func lines(s string) []string { return strings.Split(strings.TrimSuffix(s, "\n"), "\n") }

func head(b []byte) string { return string(b[:min(len(b), 200)]) }

// in gives the same machine to a subtest.
func (b *box) in(t testing.TB) *box {
	c := *b
	c.t = t
	return &c
}
