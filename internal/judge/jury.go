package judge

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

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
	info := raw.Describe()
	if m.limits, err = validationLimits(j.x.problem.Limits.in(info), info.Shape); err != nil {
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
