package judge

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"

	"assay/internal/fault"
	"assay/internal/guest"
	"assay/internal/sandbox"
)

// Where things lie in a machine that runs the jury's programs. feedbackDir is
// theirs to write in and is emptied for each case; all else is root's.
const (
	juryDir       = "/jury"
	juryBuildDir  = "/jury/build"
	juryWorkDir   = "/jury/work"
	feedbackDir   = "/jury/feedback"
	juryInput     = "/jury/input"
	juryAnswer    = "/jury/answer"
	juryOutput    = "/jury/output"
	juryTout      = feedbackDir + "/tout"
	juryNextPass  = feedbackDir + "/nextpass.in"
	juryTemplate  = "base"
	maxJuryBinary = 256 << 20
)

// juryFault is a jury program that did not do its work: JE, and not once more,
// since it would not do it the next time.
type juryFault struct{ text string }

func (j *juryFault) Error() string { return j.text }

func juryFaultf(format string, args ...any) error {
	return &juryFault{fmt.Sprintf(format, args...)}
}

// jury is where one run has the jury's programs called: machines beside the
// submission's, one for each template that they need, made when first needed.
// Nothing of a submission is ever executed there.
type jury struct {
	x        *session
	machines map[string]*juryMachine
}

// juryMachine is one machine and what lies in it.
type juryMachine struct {
	Machine
	template string
	limits   sandbox.Limits
	// dirs are where the programs lie, by their digest.
	dirs map[string]string
	// dataOf is the index of the case whose input and answer are there, or -1.
	dataOf int
}

// callable is a jury program that lies in a machine.
type callable struct {
	program Program
	machine *juryMachine
	argv    []string
	env     []string
}

// jurySpec is a program with its language found.
type jurySpec struct {
	program Program
	// lang is not set for a script.
	lang   Language
	script bool
	placed arranged
}

// specify finds out how a jury program is built and run.
func (s *Languages) specify(p Program) (jurySpec, error) {
	j := jurySpec{program: p}
	j.placed.files = p.Files
	for _, f := range p.Files {
		if f.Name == "build" || f.Name == "run" {
			j.script = true
			return j, nil
		}
	}
	if p.Language != "" {
		lang, err := s.ByID(p.Language)
		if err != nil {
			return j, err
		}
		j.lang = lang
	} else {
		for _, f := range p.Files {
			lang, ok := s.forFile(f.Name)
			// A C++ program may have parts in C.
			if ok && (j.lang.ID == "" || lang.ID == "cpp") {
				j.lang = lang
			}
		}
	}
	if j.lang.ID == "" {
		return j, fault.Errorf(fault.Invalid, "%s: no file is of a known language, and none is named build or run", p.Name)
	}
	for _, f := range p.Files {
		if j.lang.compiles(f.Name) || j.lang.ID == "cpp" && path.Ext(f.Name) == ".c" {
			j.placed.sources = append(j.placed.sources, f.Name)
		}
	}
	if len(j.placed.sources) == 0 {
		return j, fault.Errorf(fault.Invalid, "%s: no file is of %s", p.Name, j.lang.Name)
	}
	j.placed.entry = j.placed.sources[0]
	for _, name := range []string{"__main__" + path.Ext(j.placed.entry), j.lang.SourceFile} {
		if slices.Contains(j.placed.sources, name) {
			j.placed.entry = name
		}
	}
	return j, nil
}

func (s jurySpec) template() string {
	if s.script {
		return juryTemplate
	}
	return s.lang.Template
}

// digest names the program and how it is built.
func (s jurySpec) digest() string {
	sum := sha256.New()
	fmt.Fprintf(sum, "%v %q %q %q\n", s.script, s.lang.ID, s.lang.Compile.Argv, s.placed.entry)
	for _, f := range s.program.Files {
		fmt.Fprintf(sum, "%q %d\n", f.Name, len(f.Data))
		sum.Write(f.Data)
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// requests are for the machines that the problem's programs need.
func (j *jury) requests() []MachineRequest {
	p := j.x.problem
	programs := slices.Clone(p.Checkers)
	for _, more := range []*Program{p.Interactor, p.StaticValidator} {
		if more != nil {
			programs = append(programs, *more)
		}
	}
	for _, g := range p.Groups {
		if g.Legacy != nil && g.Legacy.Grader != nil {
			programs = append(programs, *g.Legacy.Grader)
		}
	}
	var list []MachineRequest
	for _, program := range programs {
		s, err := j.x.judge.languages.specify(program)
		if err != nil {
			continue // It is JE when it is called.
		}
		if !slices.ContainsFunc(list, func(r MachineRequest) bool { return r.Template == s.template() }) {
			list = append(list, j.request(s.template()))
		}
	}
	return list
}

func (j *jury) request(template string) MachineRequest {
	return MachineRequest{Template: template, Memory: orDefault(j.x.problem.Limits.ValidationMemory, defaultMemory)}
}

// machine gives the jury's machine of a template.
func (j *jury) machine(ctx context.Context, template string) (*juryMachine, error) {
	if m := j.machines[template]; m != nil {
		if _, ended := m.Ended(); !ended {
			return m, nil
		}
		j.drop(ctx, m)
	}
	req := j.request(template)
	req.Beside = j.x.machine
	raw, err := j.x.judge.machines.Create(ctx, req)
	if err != nil {
		return nil, fmt.Errorf("create a machine of template %s for the checker: %w", template, err)
	}
	m := &juryMachine{Machine: raw, template: template, dirs: map[string]string{}, dataOf: -1}
	if j.machines == nil {
		j.machines = map[string]*juryMachine{}
	}
	j.machines[template] = m
	if m.limits, err = validationLimits(j.x.problem.Limits, raw.Describe().Shape); err != nil {
		return nil, &refusal{err}
	}
	for _, d := range []string{juryDir, juryWorkDir} {
		if err := m.MakeDir(ctx, d, 0o755); err != nil {
			return nil, fmt.Errorf("make %s: %w", d, err)
		}
	}
	return m, nil
}

// drop ends one machine, close all of them.
func (j *jury) drop(ctx context.Context, m *juryMachine) {
	delete(j.machines, m.template)
	j.x.destroy(ctx, m.Machine)
}

func (j *jury) close(ctx context.Context) {
	for _, m := range j.machines {
		j.drop(ctx, m)
	}
}

// ready gives a program that can be called, built if it has not been.
func (j *jury) ready(ctx context.Context, p Program) (callable, error) {
	s, err := j.x.judge.languages.specify(p)
	if err != nil {
		return callable{}, juryFaultf("%v", err)
	}
	m, err := j.machine(ctx, s.template())
	if err != nil {
		return callable{}, err
	}
	digest := s.digest()
	dir, ok := m.dirs[digest]
	if !ok {
		built, err := j.built(ctx, s, m, digest)
		if err != nil {
			return callable{}, err
		}
		dir = juryDir + "/p" + strconv.Itoa(len(m.dirs))
		if err := m.WriteTree(ctx, dir, bytes.NewReader(built)); err != nil {
			return callable{}, fmt.Errorf("write %s: %w", p.Name, err)
		}
		m.dirs[digest] = dir
	}
	c := callable{program: p, machine: m, argv: []string{dir + "/run"}, env: baseEnv(juryWorkDir)}
	if !s.script {
		l := layout{src: dir, prog: dir}
		c.argv = l.expand(s.lang, s.placed, m.limits.Memory, s.lang.Run.Argv)
		c.env = append(c.env, l.expand(s.lang, s.placed, m.limits.Memory, s.lang.Run.Env)...)
	}
	return c, nil
}

// built gives the program's directory as a tar archive: from the cache, or made
// now in the machine. Runs that need the same program wait for the first.
func (j *jury) built(ctx context.Context, s jurySpec, m *juryMachine, digest string) ([]byte, error) {
	sum := sha256.Sum256([]byte(digest + " " + m.Describe().TemplateDigest))
	key := hex.EncodeToString(sum[:])
	unlock := j.x.judge.building.lock(key)
	defer unlock()
	cache := j.x.judge.options.Cache
	if cache != nil {
		data, err := cache.Get(key)
		if err != nil {
			return nil, fmt.Errorf("look up %s: %w", s.program.Name, err)
		}
		if data != nil {
			return data, nil
		}
	}
	data, err := j.build(ctx, s, m)
	if err == nil && cache != nil {
		err = cache.Put(key, data)
	}
	return data, err
}

func (j *jury) build(ctx context.Context, s jurySpec, m *juryMachine) (data []byte, err error) {
	j.x.observe.tell(Event{Step: StepCompiling, Text: s.program.Name})
	if err := errors.Join(m.Remove(ctx, juryBuildDir), m.MakeDir(ctx, juryBuildDir, 0o777)); err != nil {
		return nil, fmt.Errorf("make %s: %w", juryBuildDir, err)
	}
	if err := writeSources(ctx, m, juryBuildDir, s.program.Files); err != nil {
		return nil, err
	}
	if argv := s.buildArgv(); len(argv) > 0 {
		limits, err := compileLimits(j.x.problem.Limits, s.lang, m.Describe().Shape)
		if err != nil {
			return nil, &refusal{err}
		}
		said := &head{max: stderrKept}
		res, err := execIn(ctx, m, sandbox.ExecSpec{
			Argv: argv, Dir: juryBuildDir, User: "user", Env: append(baseEnv(juryBuildDir), s.buildEnv()...),
			Isolated: true, WritableDirs: []string{juryBuildDir}, KeepOutput: true, Limits: limits,
		}, said, said)
		if err != nil {
			return nil, fmt.Errorf("compile %s: %w", s.program.Name, err)
		}
		ok, reason, err := decideCompile(res.Exit, limits)
		if err != nil {
			return nil, err
		}
		if !ok {
			text, _ := said.text()
			return nil, juryFaultf("%s does not compile: %s: %s", s.program.Name, reason, clipText(strings.TrimSpace(text), 500))
		}
	}
	tree, err := m.ReadTree(ctx, juryBuildDir)
	if err != nil {
		return nil, fmt.Errorf("read what %s was compiled to: %w", s.program.Name, err)
	}
	data, err = io.ReadAll(io.LimitReader(tree, maxJuryBinary+1))
	if err = errors.Join(err, tree.Close()); err != nil {
		return nil, fmt.Errorf("read what %s was compiled to: %w", s.program.Name, err)
	}
	if len(data) > maxJuryBinary {
		return nil, juryFaultf("%s is larger than %s when compiled", s.program.Name, sizeText(maxJuryBinary))
	}
	return data, m.Remove(ctx, juryBuildDir)
}

func (s jurySpec) buildArgv() []string {
	if !s.script {
		l := layout{src: juryBuildDir, build: juryBuildDir, prog: juryBuildDir}
		return l.expand(s.lang, s.placed, 0, s.lang.Compile.Argv)
	}
	for _, f := range s.program.Files {
		if f.Name == "build" {
			return []string{"./build"}
		}
	}
	return nil
}

func (s jurySpec) buildEnv() []string {
	l := layout{src: juryBuildDir, build: juryBuildDir, prog: juryBuildDir}
	return l.expand(s.lang, s.placed, 0, s.lang.Compile.Env)
}

// writeSources writes files, which may have folders in their names, below dir.
// Those that a script runs are executable.
func writeSources(ctx context.Context, m Machine, dir string, files []SourceFile) error {
	made := map[string]bool{".": true}
	for _, f := range files {
		if d := path.Dir(f.Name); !made[d] {
			made[d] = true
			if err := m.MakeDir(ctx, path.Join(dir, d), 0o777); err != nil {
				return fmt.Errorf("make %s: %w", d, err)
			}
		}
		mode := fs.FileMode(0o444)
		if f.Name == "build" || f.Name == "run" || bytes.HasPrefix(f.Data, []byte("#!")) {
			mode = 0o555
		}
		if err := m.WriteFile(ctx, path.Join(dir, f.Name), bytes.NewReader(f.Data), mode); err != nil {
			return fmt.Errorf("write source %s: %w", f.Name, err)
		}
	}
	return nil
}

// bring lays input and answer of case i into the machine and empties the
// feedback directory. For a later pass, which has an input, only that is new:
// what the earlier ones left as feedback stays.
func (j *jury) bring(ctx context.Context, m *juryMachine, i int, input *spool) error {
	if input != nil {
		m.dataOf = -1
		if err := m.WriteFile(ctx, juryInput, input.reader(), 0o444); err != nil {
			return fmt.Errorf("write the input of a later pass: %w", err)
		}
		return nil
	}
	if m.dataOf != i {
		m.dataOf = -1
		c := j.x.problem.Cases[i]
		if err := bringBlob(ctx, m, c.Input, juryInput); err != nil {
			return err
		}
		if err := bringBlob(ctx, m, c.Answer, juryAnswer); err != nil {
			return err
		}
		m.dataOf = i
	}
	return j.emptyFeedback(ctx, m)
}

func (j *jury) emptyFeedback(ctx context.Context, m *juryMachine) error {
	if err := errors.Join(m.Remove(ctx, feedbackDir), m.MakeDir(ctx, feedbackDir, 0o777)); err != nil {
		return fmt.Errorf("empty the feedback directory: %w", err)
	}
	return nil
}

// spec is the exec of a call.
func (c callable) spec(args []string) sandbox.ExecSpec {
	return sandbox.ExecSpec{
		Argv: append(slices.Clone(c.argv), args...), Dir: juryWorkDir, User: "user", Env: c.env,
		Isolated: true, FreshDirs: []string{juryWorkDir}, WritableDirs: []string{feedbackDir},
		Outputs: feedbackFiles, Limits: c.machine.limits,
	}
}

// grade calls a grader of the legacy format.
func (j *jury) grade(ctx context.Context, l LegacyGrading, members []member) (member, error) {
	c, err := j.ready(ctx, *l.Grader)
	if err != nil {
		return member{}, err
	}
	if err := j.emptyFeedback(ctx, c.machine); err != nil {
		return member{}, err
	}
	if err := c.machine.WriteFile(ctx, juryOutput, strings.NewReader(graderInput(members)), 0o444); err != nil {
		return member{}, fmt.Errorf("write the grader's input: %w", err)
	}
	spec := c.spec(l.Args)
	spec.StdinFile, spec.Outputs = juryOutput, nil
	out, said := &head{max: stderrKept}, &head{max: stderrKept}
	res, err := execIn(ctx, c.machine, spec, out, said)
	if err != nil {
		return member{}, fmt.Errorf("run the grader: %w", err)
	}
	if res.Exit.Cause != guest.Exited || res.Exit.Code != 0 {
		return member{}, juryFaultf("grader %s: %s", c.program.Name, exitText(res.Exit))
	}
	text, _ := out.text()
	m, err := parseGrade(text)
	if err != nil {
		return member{}, juryFaultf("grader %s: %v", c.program.Name, err)
	}
	return m, nil
}

// keyedLocks are locks by name.
type keyedLocks struct {
	mu    sync.Mutex
	locks map[string]*keyedLock
}

type keyedLock struct {
	// held has room for the one that holds the lock.
	held  chan struct{}
	users int
}

// lock waits for the name and gives the function that frees it.
func (k *keyedLocks) lock(name string) (unlock func()) {
	k.mu.Lock()
	if k.locks == nil {
		k.locks = map[string]*keyedLock{}
	}
	l := k.locks[name]
	if l == nil {
		l = &keyedLock{held: make(chan struct{}, 1)}
		k.locks[name] = l
	}
	l.users++
	k.mu.Unlock()
	l.held <- struct{}{}
	return func() {
		<-l.held
		k.mu.Lock()
		defer k.mu.Unlock()
		if l.users--; l.users == 0 {
			delete(k.locks, name)
		}
	}
}
