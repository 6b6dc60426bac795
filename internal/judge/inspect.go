package judge

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"

	"assay/internal/fault"
	"assay/internal/guest"
)

// Finding is something about a problem that its authors should see to.
type Finding struct {
	// Wrong says that the problem must not be used as it is; else it is a warning.
	Wrong bool `json:"wrong"`
	// Where is the file or program it is about; empty is the whole problem.
	Where string `json:"where,omitempty"`
	Text  string `json:"text"`
}

// TrialKind is what a Trial must show.
type TrialKind string

// The kinds of trial.
const (
	// TrialInvalidInput must be refused by at least one input validator.
	TrialInvalidInput TrialKind = "invalid_input"
	// TrialInvalidOutput must be rejected by the checker, TrialValidOutput
	// accepted; the input of both is valid.
	TrialInvalidOutput TrialKind = "invalid_output"
	TrialValidOutput   TrialKind = "valid_output"
)

// Trial is a case that the validators themselves are tried on. Case.Answer is
// empty for an invalid input; Output is empty for it, too.
type Trial struct {
	Kind   TrialKind
	Case   Case
	Output Blob
}

// Inspection tells how far an Inspect is.
type Inspection struct {
	// Doing says what is done ("input_validators/check.py"); Done of Total cases
	// are through.
	Doing       string
	Done, Total int
}

// Inspect checks a problem without any submission: that all programs of the
// jury can be built, that the input validators take every input and refuse the
// invalid ones, and that the checker takes every answer, where an answer is an
// output, and says of the trials what it should. Nothing of the problem runs on
// the host; one machine is in use at a time. tell may be nil.
//
// Findings are about the problem. An error is our own failure, the cause of
// ctx, or Invalid for a problem that cannot be looked at.
func (j *Judge) Inspect(ctx context.Context, p Problem, trials []Trial, tell func(Inspection)) ([]Finding, error) {
	if _, err := newTree(p); err != nil {
		return nil, err
	}
	n := len(p.Cases)
	p.Cases = slices.Clone(p.Cases)
	for _, t := range trials {
		t.Case.Group = 0
		p.Cases = append(p.Cases, t.Case)
	}
	x := &session{judge: j, problem: p, inputOf: -1}
	x.jury.x = x
	x.run.Submission.Name = "the jury's programs of " + p.ShortName
	in := &inspector{x: x, cases: n, trials: trials, tell: tell}
	defer x.dropMachine(ctx)
	in.data()
	for _, step := range []func(context.Context) error{in.inputs, in.outputs, in.others} {
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	for _, w := range x.run.Warnings {
		in.warn("", "%s", w)
	}
	return in.found, nil
}

// inspector is one Inspect in progress. The cases of its session are the
// problem's, and then the trials'.
type inspector struct {
	x      *session
	cases  int
	trials []Trial
	tell   func(Inspection)
	found  []Finding
}

func (in *inspector) wrong(where, format string, args ...any) {
	in.found = append(in.found, Finding{Wrong: true, Where: where, Text: fmt.Sprintf(format, args...)})
}

func (in *inspector) warn(where, format string, args ...any) {
	in.found = append(in.found, Finding{Where: where, Text: fmt.Sprintf(format, args...)})
}

func (in *inspector) say(doing string, done, total int) {
	if in.tell != nil {
		in.tell(Inspection{Doing: doing, Done: done, Total: total})
	}
}

// data checks what needs no machine.
func (in *inspector) data() {
	p := in.x.problem
	if in.cases == 0 {
		in.wrong("", "the problem has no test cases")
	}
	if !slices.ContainsFunc(p.Cases[:in.cases], func(c Case) bool { return c.Sample }) {
		in.warn("", "the problem has no sample cases")
	}
	if !slices.ContainsFunc(p.Cases[:in.cases], func(c Case) bool { return !c.Sample }) && in.cases > 0 {
		in.warn("", "the problem has no secret cases")
	}
	type content struct {
		group     int
		sum, args string
	}
	first := map[content]string{}
	for _, c := range p.Cases[:in.cases] {
		k := content{c.Group, c.Input.SHA256(), fmt.Sprintf("%q %q", c.Args, c.CheckerArgs)}
		if other, ok := first[k]; ok && len(c.Files) == 0 {
			in.warn(c.Input.Name(), "the same input as %s", other)
		} else {
			first[k] = c.Input.Name()
		}
	}
	if len(p.InputValidators) == 0 {
		in.warn("", "no input validator checks the inputs")
	}
}

// program makes a program ready and gives nil for one that cannot be built,
// which is a finding then. Machines of other templates are given back first: a
// host may have one core only.
func (in *inspector) program(ctx context.Context, p Program) (*callable, error) {
	var c callable
	why, err := in.attempt(ctx, func(ctx context.Context) (err error) {
		s, err := in.x.judge.languages.specify(p)
		if err != nil {
			return juryFaultf("%v", err)
		}
		for _, m := range in.x.jury.machines {
			if m.template != s.template() {
				in.x.jury.drop(ctx, m)
			}
		}
		c, err = in.x.jury.ready(ctx, p)
		return err
	})
	if err != nil {
		return nil, err
	}
	if why != "" {
		in.wrong(p.Name, "%s", why)
		return nil, nil
	}
	return &c, nil
}

// attempt does one step, once more in fresh machines when we fail. wrong is a
// fault of the jury's program, for people.
func (in *inspector) attempt(ctx context.Context, step func(context.Context) error) (wrong string, err error) {
	for attempt := 1; ; attempt++ {
		err := step(ctx)
		if err == nil {
			return "", nil
		}
		if final := in.x.refused(ctx, err); final != nil {
			return "", final
		}
		if jf, ok := errors.AsType[*juryFault](err); ok {
			return jf.text, nil
		}
		in.x.jury.close(ctx)
		if attempt == 2 {
			return "", fmt.Errorf("inspect the problem: %w", err)
		}
	}
}

// mostFindings bounds the findings of one program: ten thousand cases that all
// fail need not all be told.
const mostFindings = 20

// overCases calls look for each of the cases with a program that is ready.
func (in *inspector) overCases(ctx context.Context, p Program, cases []int, look func(ctx context.Context, c callable, i int) error) error {
	c, err := in.program(ctx, p)
	if c == nil || err != nil {
		return err
	}
	before := len(in.found)
	for k, i := range cases {
		in.say(p.Name, k, len(cases))
		if len(in.found)-before >= mostFindings {
			in.wrong(p.Name, "there may be more: %d of %d cases were not looked at", len(cases)-k, len(cases))
			return nil
		}
		why, err := in.attempt(ctx, func(ctx context.Context) error {
			ready, err := in.x.jury.ready(ctx, p)
			if err != nil {
				return err
			}
			return look(ctx, ready, i)
		})
		if err != nil {
			return err
		}
		if why != "" {
			in.wrong(in.x.problem.Cases[i].Input.Name(), "%s", why)
		}
	}
	return nil
}

// inputs has the input validators look at every input.
func (in *inspector) inputs(ctx context.Context) error {
	all := make([]int, len(in.x.problem.Cases))
	for i := range all {
		all[i] = i
	}
	refused := map[int]bool{}
	for _, p := range in.x.problem.InputValidators {
		err := in.overCases(ctx, p, all, func(ctx context.Context, c callable, i int) error {
			ok, said, err := in.x.jury.validate(ctx, c, i)
			switch {
			case err != nil:
				return err
			case ok:
			case i >= in.cases && in.trials[i-in.cases].Kind == TrialInvalidInput:
				refused[i] = true
			default:
				in.wrong(in.x.problem.Cases[i].Input.Name(), "%s refuses it: %s", p.Name, said)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	for k, t := range in.trials {
		if i := in.cases + k; t.Kind == TrialInvalidInput && !refused[i] {
			in.wrong(t.Case.Input.Name(), "no input validator refuses it, and it is in %s", t.Kind)
		}
	}
	return nil
}

// validate has an input validator look at the input of case i. ok is its word,
// and said what it wrote. Any way to end but accepting is a refusal, as the
// formats have it; one that was ended by a limit did not do its work.
func (j *jury) validate(ctx context.Context, c callable, i int) (ok bool, said string, err error) {
	k := j.x.problem.Cases[i]
	if c.machine.dataOf != i {
		c.machine.dataOf = -1
		if err := bringBlob(ctx, c.machine, k.Input, juryInput); err != nil {
			return false, "", err
		}
	}
	if err := j.emptyFeedback(ctx, c.machine); err != nil {
		return false, "", err
	}
	args, named := k.ValidatorArgs[path.Base(c.program.Name)]
	if !named {
		args = k.ValidatorArgs[""]
	}
	spec := c.spec(args)
	spec.StdinFile, spec.Outputs = juryInput, nil
	text := &head{max: stderrKept}
	res, err := execIn(ctx, c.machine, spec, text, text)
	if err != nil {
		return false, "", fmt.Errorf("run the input validator: %w", err)
	}
	good := kattisAccept
	if c.program.Protocol == Testlib {
		good = testlibOK
	}
	switch res.Exit.Cause {
	case guest.Exited, guest.Signaled:
	default:
		return false, "", juryFaultf("%s: %s", c.program.Name, exitText(res.Exit))
	}
	if res.Exit.Cause == guest.Exited && res.Exit.Code == good {
		return true, "", nil
	}
	words, _ := text.text()
	return false, clipText(joinReason(exitText(res.Exit), words), 300), nil
}

// outputs has the checker look at the answers, where they are outputs, and at
// the trials.
func (in *inspector) outputs(ctx context.Context) error {
	p := in.x.problem
	var cases []int
	for i := range p.Cases {
		switch {
		case p.Interactor != nil, p.Passes > 1:
		case i < in.cases, in.trials[i-in.cases].Kind != TrialInvalidInput:
			cases = append(cases, i)
		}
	}
	accepted := map[int]bool{}
	for _, i := range cases {
		accepted[i] = true
	}
	if p.Interactor == nil && len(p.Checkers) == 0 && p.Checker != nil {
		for k, i := range cases {
			in.say("the checker", k, len(cases))
			if err := ctx.Err(); err != nil {
				return context.Cause(ctx)
			}
			word, err := in.checkHere(ctx, i)
			if err != nil {
				return fmt.Errorf("check %s: %w", in.output(i).Name(), err)
			}
			in.judgeWord(i, "the default checker", word, accepted)
		}
	}
	for _, checker := range p.Checkers {
		err := in.overCases(ctx, checker, cases, func(ctx context.Context, c callable, i int) error {
			word, err := in.checkThere(ctx, c, i)
			if err == nil {
				in.judgeWord(i, checker.Name, word, accepted)
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	for k, t := range in.trials {
		if i := in.cases + k; t.Kind == TrialInvalidOutput && accepted[i] {
			in.wrong(t.Output.Name(), "the checker accepts it, and it is in %s", t.Kind)
		}
	}
	return nil
}

// output is what the checker is given for case i.
func (in *inspector) output(i int) Blob {
	if i >= in.cases {
		return in.trials[i-in.cases].Output
	}
	return in.x.problem.Cases[i].Answer
}

// judgeWord takes a checker's word about the output of case i.
func (in *inspector) judgeWord(i int, who string, word Check, accepted map[int]bool) {
	if word.Outcome == CheckAccepted {
		return
	}
	accepted[i] = false
	switch {
	case i < in.cases && len(in.x.problem.Checkers) > 0:
		// Some packages keep notes for their checker where the answer would be.
		in.warn(in.output(i).Name(), "%s rejects the answer as an output: %s", who, clipText(word.Message, 300))
	case i < in.cases || in.trials[i-in.cases].Kind == TrialValidOutput:
		in.wrong(in.output(i).Name(), "%s rejects it: %s", who, clipText(word.Message, 300))
	}
}

// checkHere has the built-in checker decide.
func (in *inspector) checkHere(ctx context.Context, i int) (Check, error) {
	r, err := in.output(i).Open()
	if err != nil {
		return Check{}, err
	}
	word, err := in.x.problem.Checker.Check(ctx, CheckRequest{Case: in.x.problem.Cases[i], Output: r})
	return word, errors.Join(err, r.Close())
}

// checkThere has a checker of the jury decide, in its machine.
func (in *inspector) checkThere(ctx context.Context, c callable, i int) (Check, error) {
	r, err := in.output(i).Open()
	if err != nil {
		return Check{}, err
	}
	s := &spool{}
	defer s.close()
	if _, err := io.Copy(s, r); err != nil {
		return Check{}, errors.Join(err, r.Close())
	}
	if err := r.Close(); err != nil {
		return Check{}, fault.Errorf(fault.Unavailable, "read %s: %w", in.output(i).Name(), err)
	}
	if err := in.x.jury.bring(ctx, c.machine, i, nil); err != nil {
		return Check{}, err
	}
	return in.x.jury.checkWith(ctx, c, i, s)
}

// others builds the programs that only a submission can try.
func (in *inspector) others(ctx context.Context) error {
	p := in.x.problem
	p.InputValidators, p.Checkers = nil, nil
	if in.x.problem.Interactor != nil || in.x.problem.Passes > 1 {
		p.Checkers = in.x.problem.Checkers
	}
	for _, program := range p.programs() {
		in.say(program.Name, 0, 0)
		if _, err := in.program(ctx, program); err != nil {
			return err
		}
	}
	return nil
}
