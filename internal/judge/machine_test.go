package judge_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"strings"
	"sync"
	"time"

	"assay/internal/fault"
	"assay/internal/guest"
	"assay/internal/judge"
	"assay/internal/sandbox"
)

// fakeMachines makes machines that hold files in memory and run a tiny language
// of their own (see program.run). What it counts is shared by all its machines.
type fakeMachines struct {
	mu sync.Mutex
	// createErrs are given out by Create, one a call, before it succeeds.
	createErrs []error
	shape      sandbox.Shape
	emulated   bool
	// destroyTakes is how long the end of a machine takes.
	destroyTakes time.Duration
	made         []*fakeMachine
	// runs counts runs by input, over all machines; writes holds all that was
	// ever written into one.
	runs   map[string]int
	writes []string
}

func (f *fakeMachines) Connect(context.Context, judge.Machine, judge.Machine) (judge.Wire, error) {
	return nil, fault.Errorf(fault.Unsupported, "fake machines cannot be connected")
}

func (f *fakeMachines) Create(_ context.Context, req judge.MachineRequest) (judge.Machine, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.createErrs) > 0 {
		err := f.createErrs[0]
		f.createErrs = f.createErrs[1:]
		if err != nil {
			return nil, err
		}
	}
	m := &fakeMachine{owner: f, template: req.Template, id: len(f.made) + 1, files: map[string]fakeFile{}, dirs: map[string]bool{}}
	f.made = append(f.made, m)
	return m, nil
}

type fakeFile struct {
	data []byte
	mode fs.FileMode
}

type fakeMachine struct {
	owner     *fakeMachines
	template  string
	id        int
	files     map[string]fakeFile
	dirs      map[string]bool
	ended     sandbox.Cause
	destroyed int
	specs     []sandbox.ExecSpec
}

func (m *fakeMachine) alive() error {
	if m.destroyed > 0 || m.ended != "" {
		return fault.Errorf(fault.Unavailable, "machine %d is gone", m.id)
	}
	return nil
}

func (m *fakeMachine) WriteFile(_ context.Context, path string, r io.Reader, mode fs.FileMode) error {
	if err := m.alive(); err != nil {
		return err
	}
	data, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	if dir := path[:strings.LastIndexByte(path, '/')]; !m.dirs[dir] {
		return fault.Errorf(fault.NotFound, "folder %s does not exist", dir)
	}
	m.files[path] = fakeFile{data, mode}
	m.owner.writes = append(m.owner.writes, string(data))
	return nil
}

func (m *fakeMachine) MakeDir(_ context.Context, path string, _ fs.FileMode) error {
	m.dirs[path] = true
	return m.alive()
}

func (m *fakeMachine) ReadFile(_ context.Context, path string) (io.ReadCloser, error) {
	f, ok := m.files[path]
	if !ok {
		return nil, fault.Errorf(fault.NotFound, "%s does not exist", path)
	}
	return io.NopCloser(bytes.NewReader(f.data)), nil
}

func (m *fakeMachine) ReadTree(context.Context, string) (io.ReadCloser, error) {
	return nil, fault.Errorf(fault.Unsupported, "fake machines have no trees")
}

func (m *fakeMachine) WriteTree(context.Context, string, io.Reader) error {
	return fault.Errorf(fault.Unsupported, "fake machines have no trees")
}

func (m *fakeMachine) Remove(_ context.Context, path string) error {
	delete(m.files, path)
	for name := range m.files {
		if strings.HasPrefix(name, path+"/") {
			delete(m.files, name)
		}
	}
	delete(m.dirs, path)
	return m.alive()
}

func (m *fakeMachine) Describe() judge.MachineInfo {
	return judge.MachineInfo{
		Sandbox: fmt.Sprintf("fake-%d", m.id), Template: m.template, TemplateDigest: "sha256:t", Driver: "fake", DriverIdentity: "fake 1",
		Emulated: m.owner.emulated, Shape: m.owner.shape, BootMode: sandbox.BootCold,
	}
}

func (m *fakeMachine) Ended() (sandbox.Cause, bool) { return m.ended, m.ended != "" }

func (m *fakeMachine) Destroy(context.Context) error {
	if d := m.owner.destroyTakes; d > 0 {
		<-time.After(d)
	}
	m.destroyed++
	return nil
}

func (m *fakeMachine) Exec(ctx context.Context, spec sandbox.ExecSpec, _ io.Reader, stdout, stderr io.Writer) (sandbox.Result, error) {
	if err := errors.Join(m.alive(), spec.Check(), ctx.Err()); err != nil {
		return sandbox.Result{}, err
	}
	m.specs = append(m.specs, spec)
	if spec.Argv[0] == "/bin/sh" {
		return m.keep(spec)
	}
	if !spec.Isolated || spec.User != "user" {
		return sandbox.Result{}, fault.Errorf(fault.Invalid, "user code must run isolated and as user")
	}
	for _, d := range append([]string{spec.Dir}, spec.FreshDirs...) {
		if !m.dirs[d] {
			return sandbox.Result{}, fault.Errorf(fault.NotFound, "folder %s does not exist", d)
		}
	}
	if spec.Argv[0] == "fakecc" {
		return m.compile(spec, stderr)
	}
	f, ok := m.files[spec.Argv[0]]
	in, hasIn := m.files[spec.StdinFile]
	if !ok || !hasIn || f.mode != 0o555 || in.mode != 0o444 {
		return sandbox.Result{}, fault.Errorf(fault.NotFound, "program or input is not there, or open to changes")
	}
	p := program{m: m, spec: spec, in: string(in.data), stdout: stdout, stderr: stderr}
	m.owner.runs[p.in]++
	p.attempt = m.owner.runs[p.in]
	for line := range strings.Lines(string(f.data)) {
		if done, err := p.run(strings.Fields(line)); done || err != nil {
			return p.finish(), err
		}
	}
	return p.finish(), nil
}

// compile takes the words of a first line "compile …" as the compiler's fate.
func (m *fakeMachine) compile(spec sandbox.ExecSpec, stderr io.Writer) (sandbox.Result, error) {
	source := m.files[spec.Argv[len(spec.Argv)-1]].data
	res := sandbox.Result{Exit: sandbox.Exit{Cause: guest.Exited}, Usage: sandbox.Usage{CPUUser: 100 * time.Millisecond}}
	words := strings.Fields(strings.SplitN(string(source), "\n", 2)[0])
	if len(words) > 1 && words[0] == "compile" {
		switch words[1] {
		case "error":
			res.Exit.Code = 1
			_, _ = io.WriteString(stderr, strings.Repeat("syntax error \xff ", 10000))
			return res, nil
		case "bomb":
			res.Exit = sandbox.Exit{Code: -1, Cause: guest.MemoryLimit}
			return res, nil
		case "memwall":
			m.ended = guest.MemoryLimit
			return res, fault.Errorf(fault.Unavailable, "the link broke")
		case "nothing":
			return res, nil
		case "odd":
			source = nil // what keep takes for a link
		case "missing":
			res.Exit.Code = 127
			return res, nil
		case "only_first":
			if m.id > 1 {
				res.Exit.Code = 1
				return res, nil
			}
		case "lose":
			m.ended = guest.MachineLost
			res.Exit = sandbox.Exit{Code: -1, Cause: guest.MachineLost}
			return res, nil
		case "lose_once":
			if m.id == 1 {
				m.ended = guest.MachineLost
				return res, fault.Errorf(fault.Unavailable, "the link broke")
			}
		}
	}
	m.files[spec.Argv[2]] = fakeFile{source, 0o755}
	return res, nil
}

// keep does what the judge's script does: it runs as root, and copies the
// named regular files.
func (m *fakeMachine) keep(spec sandbox.ExecSpec) (sandbox.Result, error) {
	if spec.User != "root" {
		return sandbox.Result{}, fault.Errorf(fault.Invalid, "only root may keep a program")
	}
	res := sandbox.Result{Exit: sandbox.Exit{Cause: guest.Exited}}
	for _, name := range spec.Argv[4:] {
		f := m.files["/box/build/"+name]
		if f.data == nil {
			res.Exit.Code = 3
			return res, nil
		}
		m.files["/box/prog/"+name] = fakeFile{f.data, 0o555}
	}
	return res, nil
}

// program is one run of a fake program.
type program struct {
	m              *fakeMachine
	spec           sandbox.ExecSpec
	in             string
	attempt        int
	stdout, stderr io.Writer
	res            sandbox.Result
}

func (p *program) finish() sandbox.Result {
	l := p.spec.Limits
	u := &p.res.Usage
	if p.res.Exit.Cause != "" {
		return p.res
	}
	p.res.Exit.Cause = guest.Exited
	switch {
	case u.CPUUser >= l.CPU:
		p.res.Exit = sandbox.Exit{Code: -1, Signal: 9, Cause: guest.CPULimit}
		u.CPUUser = l.CPU + 2*time.Millisecond
	case u.Wall >= l.Wall:
		p.res.Exit = sandbox.Exit{Code: -1, Signal: 9, Cause: guest.WallLimit}
		u.Wall = l.Wall
	case u.MemoryPeak >= l.Memory:
		p.res.Exit = sandbox.Exit{Code: -1, Signal: 9, Cause: guest.MemoryLimit}
		u.MemoryPeak = l.Memory
	}
	return p.res
}

// run does one line. Of several values after cpu, the nth run of a case takes
// the nth, and later ones the last.
func (p *program) run(w []string) (done bool, err error) {
	if len(w) == 0 || w[0] == "compile" {
		return false, nil
	}
	switch w[0] {
	case "on": // on INPUT command…
		if strings.TrimSpace(p.in) != w[1] {
			return false, nil
		}
		return p.run(w[2:])
	case "first": // first N command…: only in the first N runs of this case
		if n, err := strconv.Atoi(w[1]); err != nil || p.attempt > n {
			return false, err
		}
		return p.run(w[2:])
	case "echo":
		_, err = io.WriteString(p.stdout, p.in)
	case "print":
		_, err = io.WriteString(p.stdout, strings.Join(w[1:], " ")+"\n")
	case "complain":
		_, err = io.WriteString(p.stderr, strings.Join(w[1:], " ")+"\n")
	case "cpu":
		p.res.Usage.CPUUser, err = time.ParseDuration(w[min(p.attempt, len(w)-1)])
	case "wall":
		p.res.Usage.Wall, err = time.ParseDuration(w[1])
	case "mem":
		p.res.Usage.MemoryPeak, err = strconv.ParseInt(w[1], 10, 64)
	case "exit":
		p.res.Exit = sandbox.Exit{Cause: guest.Exited}
		p.res.Exit.Code, err = strconv.Atoi(w[1])
		return true, err
	case "signal":
		p.res.Exit = sandbox.Exit{Code: -1, Cause: guest.Signaled}
		p.res.Exit.Signal, err = strconv.Atoi(w[1])
		return true, err
	case "fork":
		p.res.Exit = sandbox.Exit{Code: -1, Cause: guest.ProcessLimit}
		return true, nil
	case "flood", "floodliar": // a liar's guest does not keep the cap
		out := p.stdout
		if w[1] == "stderr" {
			out = p.stderr
		}
		for range p.spec.Limits.Output/4096 + 1 {
			if _, err := out.Write(bytes.Repeat([]byte("x\n"), 2048)); err != nil {
				return true, err
			}
		}
		if w[0] == "flood" {
			p.res.Exit = sandbox.Exit{Code: -1, Cause: guest.OutputLimit, OutputTruncated: true, StdoutDropped: 1}
		}
		return true, nil
	case "disagree":
		p.res.Usage.Disagree = true
	case "lose":
		p.m.ended = guest.MachineLost
		p.res.Exit = sandbox.Exit{Code: -1, Cause: guest.MachineLost}
		return true, nil
	case "break":
		return true, fault.Errorf(fault.Unavailable, "the link broke")
	case "memwall":
		p.m.ended = guest.MemoryLimit
		p.res.Exit = sandbox.Exit{Code: -1, Cause: guest.MachineLost}
		return true, nil
	default:
		err = fmt.Errorf("fake program: unknown word %q", w[0])
	}
	return false, err
}
