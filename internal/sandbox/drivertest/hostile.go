package drivertest

import (
	"archive/tar"
	"bytes"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"assay/internal/guest"
)

// hostileManifest is examples/hostile/manifest.yaml; its README says what the
// keys mean.
type hostileManifest struct {
	Limits   hostileLimits    `yaml:"limits"`
	Programs []hostileProgram `yaml:"programs"`
}

type hostileLimits struct {
	CPU    *time.Duration `yaml:"cpu"`
	Wall   *time.Duration `yaml:"wall"`
	Memory *int64         `yaml:"memory"`
	PIDs   *int           `yaml:"pids"`
	Output *int64         `yaml:"output"`
	Disk   *int64         `yaml:"disk"`
}

type hostileProgram struct {
	File           string        `yaml:"file"`
	Does           string        `yaml:"does"`
	Open           bool          `yaml:"open"`
	User           string        `yaml:"user"`
	Args           []string      `yaml:"args"`
	Limits         hostileLimits `yaml:"limits"`
	Causes         []guest.Cause `yaml:"causes"`
	Machine        []guest.Cause `yaml:"machine"`
	Code           int           `yaml:"code"`
	Prints         string        `yaml:"prints"`
	Outputs        []string      `yaml:"outputs"`
	OutputsRefused bool          `yaml:"outputs_refused"`
}

// apply sets the limits that are given.
func (h hostileLimits) apply(l *guest.Limits) {
	set(&l.CPU, h.CPU)
	set(&l.Wall, h.Wall)
	set(&l.Memory, h.Memory)
	set(&l.Processes, h.PIDs)
	set(&l.Output, h.Output)
	set(&l.Disk, h.Disk)
}

func set[T any](to, from *T) {
	if from != nil {
		*to = *from
	}
}

// hostileDir is where the programs lie in the machines.
const hostileDir = "/hostile"

// secret must not be found in any machine.
const secret = "assay-hostile-secret"

// RunHostile runs the hostile programs of dir, each in a machine of its own.
// The image needs /bin/sh, tar, gcc and python3.
func RunHostile(t *testing.T, cfg Config, dir string) {
	if cfg.Shape.Memory == 0 {
		cfg.Shape = DefaultShape
	}
	t.Setenv("ASSAY_HOSTILE", secret)
	text, err := os.ReadFile(filepath.Join(dir, "manifest.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var manifest hostileManifest
	if err := yaml.UnmarshalWithOptions(text, &manifest, yaml.Strict()); err != nil {
		t.Fatalf("manifest.yaml: %v", err)
	}
	s := newSuite(cfg)
	s.prepareHostile(t, dir)
	host := watchHost(t)
	seen := map[string]bool{}
	for _, p := range manifest.Programs {
		seen[p.File] = true
		name := strings.ReplaceAll(p.File, ".", "_")
		if p.Open {
			name += "_open"
		}
		if p.User != "" {
			name += "_" + p.User
		}
		t.Run(name, func(t *testing.T) {
			s.beside(t)
			s.hostile(t, host, manifest.Limits, p)
		})
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if ext := filepath.Ext(f.Name()); slices.Contains([]string{".c", ".py", ".sh"}, ext) && !seen[f.Name()] {
			t.Errorf("%s is not in the manifest", f.Name())
		}
	}
}

// prepareHostile brings the programs into a machine and compiles them.
func (s *suite) prepareHostile(t *testing.T, dir string) {
	t.Helper()
	s.ready = t.TempDir()
	files, err := filepath.Glob(filepath.Join(dir, "*.*"))
	if err != nil {
		t.Fatal(err)
	}
	var archive bytes.Buffer
	tw := tar.NewWriter(&archive)
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := tw.WriteHeader(&tar.Header{Name: filepath.Base(name), Mode: 0o755, Size: int64(len(b))}); err != nil {
			t.Fatal(err)
		}
		if _, err := tw.Write(b); err != nil {
			t.Fatal(err)
		}
	}
	if err := tw.Close(); err != nil {
		t.Fatal(err)
	}
	b := s.boot(t)
	const build = `mkdir -p ` + hostileDir + ` && cd ` + hostileDir + ` && tar xf - --no-same-owner &&
		ls *.c | xargs -P 2 -I{} gcc -O1 -w -pthread -o {}.program {}`
	out, res := b.exec(guest.ExecSpec{Argv: []string{"/bin/sh", "-c", build}, User: "root", Limits: guest.Limits{Wall: loose(2 * time.Minute)}}, guest.IO{Stdin: &archive})
	if res.Exit.Cause != guest.Exited || res.Exit.Code != 0 {
		t.Fatalf("build the programs: %+v %s", res.Exit, out)
	}
	b.snapshot(s.ready)
}

// hostile runs one program and looks at everything afterwards.
func (s *suite) hostile(t *testing.T, host *hostWatch, limits hostileLimits, p hostileProgram) {
	b := s.restore(t)
	spec := guest.ExecSpec{User: p.User, Isolated: !p.Open, Outputs: p.Outputs, Dir: "/tmp"}
	switch path := hostileDir + "/" + p.File; filepath.Ext(p.File) {
	case ".c":
		spec.Argv = []string{path + ".program"}
	case ".py":
		spec.Argv = []string{"python3", path}
	default:
		spec.Argv = []string{"/bin/sh", path}
	}
	for _, a := range p.Args {
		switch a {
		case "{host_addresses}":
			spec.Argv = append(spec.Argv, host.addresses...)
		case "{host_sockets}":
			spec.Argv = append(spec.Argv, host.socket)
		default:
			spec.Argv = append(spec.Argv, a)
		}
	}
	limits.apply(&spec.Limits)
	p.Limits.apply(&spec.Limits)
	spec.Limits.Wall = loose(spec.Limits.Wall)
	if looseness > 1 && !onlyTime(p.Causes) {
		// An emulated processor that the host gives little counts time that it never
		// had: no other limit may be met after this one for that. Who is to meet this
		// one does it in any case, and need not burn more than was meant.
		spec.Limits.CPU = 2 * loose(spec.Limits.CPU)
	}

	begin := time.Now()
	out, res, ok := b.attempt(spec, p)
	if !ok {
		s.afterwards(t, host, b, p)
		s.restore(t).correct(hostileProgram{})
		return
	}
	took := time.Since(begin)
	if !slices.Contains(p.Causes, res.Exit.Cause) {
		t.Errorf("%s: cause %s, want one of %v; %+v\n%.500s", p.Does, res.Exit.Cause, p.Causes, res.Exit, out)
	}
	if res.Exit.Cause == guest.Exited && res.Exit.Code != p.Code {
		t.Errorf("%s: exit code %d, want %d\n%.500s", p.Does, res.Exit.Code, p.Code, out)
	}
	if p.Prints != "" && strings.TrimSpace(out) != p.Prints || strings.Contains(out, "breach") {
		t.Errorf("%s: it prints %.500q, want %q", p.Does, out, p.Prints)
	}
	if most := spec.Limits.Wall + loose(2*time.Second); took > most {
		t.Errorf("%s: it took %v, want at most %v", p.Does, took, most)
	}
	for _, f := range res.Files {
		if p.OutputsRefused && f.Refused == "" {
			t.Errorf("%s: %s came out: %.100q", p.Does, f.Path, f.Data)
		}
	}
	ok = b.correct(p)
	s.afterwards(t, host, b, p)
	if !ok {
		s.restore(t).correct(hostileProgram{})
	}
}

// onlyTime reports whether limits of time are all that a program can meet.
func onlyTime(causes []guest.Cause) bool {
	return !slices.ContainsFunc(causes, func(c guest.Cause) bool { return c != guest.CPULimit && c != guest.WallLimit })
}

// attempt runs a program; it is not ok when the machine as a whole was the
// victim, which must be one of the ends that p allows.
func (b *box) attempt(spec guest.ExecSpec, p hostileProgram) (string, guest.Result, bool) {
	b.t.Helper()
	var out lockedBuffer
	res, err := b.Run(within(b.t, spec.Limits.Wall+patience), spec, guest.IO{Stdout: &out, Stderr: &out})
	if err == nil {
		return out.String(), res, true
	}
	select {
	case <-b.m.Ended():
	case <-within(b.t, patience).Done():
		b.t.Fatalf("%s: the machine lives and the program's end is unknown: %v", p.Does, err)
	}
	if end := b.m.End(); !slices.Contains(p.Machine, end) {
		b.t.Errorf("%s: the machine ended by %s, want one of %v: %v", p.Does, end, p.Machine, err)
	}
	return out.String(), res, false
}

// afterwards ends the machine and looks at what is left of it, and at the host.
func (s *suite) afterwards(t *testing.T, host *hostWatch, b *box, p hostileProgram) {
	t.Helper()
	b.Close()
	if err := b.m.Destroy(within(t, patience)); err != nil {
		t.Errorf("%s: destroy: %v", p.Does, err)
	}
	for _, left := range leftovers(b.cfg.ID, b.cfg.Dir) {
		t.Errorf("%s: left on the host: %s", p.Does, left)
	}
	host.check(t)
}

// correct fails the test unless the machine shows no process of the program
// before and runs the next one as a fresh machine would. It gives false when the
// machine as a whole fell victim to what p left in it, where p may do that.
func (b *box) correct(p hostileProgram) bool {
	b.t.Helper()
	const next = `printf '%s ' $((6 * 7)); ulimit -n; python3 -c 'print(sum(range(1000)), len(bytearray(20 << 20)))'
		cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\0' ' ' | grep -o '/hostile/[a-z][a-z_.]*'; echo end`
	for _, isolated := range []bool{false, true} {
		begin := time.Now()
		out, res, ok := b.attempt(guest.ExecSpec{
			Argv: []string{"/bin/sh", "-c", next}, Isolated: isolated,
			Limits: guest.Limits{Wall: loose(5 * time.Second), Memory: 128 << 20, Processes: 16},
		}, p)
		if !ok {
			return false
		}
		if want := "42 1024\n499500 20971520\nend\n"; out != want || res.Exit.Cause != guest.Exited {
			b.t.Errorf("after it, the next command (isolated %v) says %q, want %q; %+v", isolated, out, want, res.Exit)
		}
		if d := time.Since(begin); d > loose(3*time.Second) {
			b.t.Errorf("after it, the next command takes %v", d)
		}
	}
	return true
}

// hostWatch is what hostile programs try to reach on the host.
type hostWatch struct {
	addresses []string
	socket    string
	reached   atomic.Int64
	wall      time.Time
}

func watchHost(t *testing.T) *hostWatch {
	t.Helper()
	h := &hostWatch{socket: fmt.Sprintf("assay-hostile-%d", os.Getpid()), wall: time.Now()}
	listen := func(network, address string) net.Listener {
		ln, err := net.Listen(network, address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = ln.Close() })
		go func() {
			for {
				c, err := ln.Accept()
				if err != nil {
					return
				}
				h.reached.Add(1)
				_ = c.Close()
			}
		}()
		return ln
	}
	_, port, err := net.SplitHostPort(listen("tcp4", "0.0.0.0:0").Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	listen("unix", "@"+h.socket)
	own, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range own {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil {
			h.addresses = append(h.addresses, net.JoinHostPort(n.IP.String(), port))
		}
	}
	return h
}

// check fails the test when a program has reached the host.
func (h *hostWatch) check(t *testing.T) {
	t.Helper()
	if n := h.reached.Load(); n > 0 {
		t.Errorf("%d connections from machines to the host", n)
	}
	// The monotonic clock, which nobody can set, against the wall clock.
	elapsed := time.Since(h.wall)
	if off := (time.Now().Round(0).Sub(h.wall.Round(0)) - elapsed).Abs(); off > 500*time.Millisecond {
		t.Errorf("the host's clock was set: off by %v", off)
	}
}
