package judge

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"assay/internal/fault"
	"assay/internal/sandbox"
)

// Judge runs submissions. It keeps nothing between runs and may be used from
// many goroutines at once.
type Judge struct {
	machines  Machines
	languages *Languages
	options   Options
	building  *keyedLocks
}

// Options change how a Judge works.
type Options struct {
	// AllCases goes on after a case that failed; a failure of ours still stops.
	AllCases bool
	// Template is used in place of the language's own, when not empty.
	Template string
	// Host goes into every record.
	Host HostInfo
	// Cache keeps compiled jury programs between runs; nil is none.
	Cache Cache
	// Transcripts runs an interactive case that was not accepted once more, with
	// a recorder between program and interactor, for staff to read.
	Transcripts bool
}

// New makes a Judge that takes its machines from machines.
func New(machines Machines, languages *Languages, options Options) *Judge {
	return &Judge{machines: machines, languages: languages, options: options, building: &keyedLocks{}}
}

// With gives a Judge with other options.
func (j *Judge) With(options Options) *Judge {
	c := *j
	c.options = options
	return &c
}

// Run judges one submission in machines of its own and gives the record. The
// machines are gone when it returns.
//
// That the submission is bad in any way is a verdict. So is our own failure
// (JE), after one more try in a fresh machine. An error means that there is
// nothing to judge: Invalid for a submission or problem that makes no sense,
// the kind of Machines.Create when it refuses for good, Unsupported for limits
// the machine cannot give, or the cause of ctx when it ended.
func (j *Judge) Run(ctx context.Context, p Problem, s Submission, observe Observer) (Run, error) {
	lang, err := j.language(s)
	if err != nil {
		return Run{}, err
	}
	if len(p.Languages) > 0 && !slices.Contains(p.Languages, lang.ID) {
		return Run{}, fault.Errorf(fault.Invalid, "problem %s does not take %s", p.ShortName, lang.Name).
			WithHint("languages of the problem: %s", strings.Join(p.Languages, ", "))
	}
	placed, err := arrange(s, lang, p.Include)
	if err != nil {
		return Run{}, err
	}
	if p.Checker == nil && len(p.Checkers) == 0 && p.Interactor == nil {
		return Run{}, fault.Errorf(fault.Invalid, "problem %s has no checker", p.ShortName)
	}
	groups, err := newTree(p)
	if err != nil {
		return Run{}, err
	}
	x := &session{
		judge: j, problem: p, tree: groups, lang: lang, placed: placed, observe: observe, template: lang.Template, inputOf: -1,
		codeLimit: orDefault(p.Limits.Code, defaultCode),
		run: Run{
			ID:         "run-" + rand.Text(),
			Submission: SubmissionInfo{Name: s.Name, Language: lang.ID, Digest: s.Digest()},
			Problem:    ProblemInfo{ShortName: p.ShortName, Name: p.Name, Version: p.Version, Checker: p.DescribeChecker(), Cases: len(p.Cases)},
			Cases:      []CaseResult{},
			Host:       j.options.Host,
			StartedAt:  time.Now().UTC(),
		},
	}
	if j.options.Template != "" {
		x.template = j.options.Template
	}
	x.jury.x = x
	defer x.dropMachine(ctx)
	if err := x.work(ctx, s.Size()); err != nil {
		return Run{}, err
	}
	x.dropMachine(ctx)
	x.run.FinishedAt = time.Now().UTC()
	observe.tell(Event{Step: StepDone, Text: string(x.run.Verdict)})
	return x.run, nil
}

func (j *Judge) language(s Submission) (Language, error) {
	if s.Language != "" {
		return j.languages.ByID(s.Language)
	}
	return j.languages.Detect(s.Files)
}

// session is one Run in progress.
type session struct {
	judge     *Judge
	problem   Problem
	tree      tree
	lang      Language
	template  string
	placed    arranged
	codeLimit int64
	observe   Observer

	machine Machine
	limits  sandbox.Limits
	compile sandbox.Limits
	// jury runs the problem's own programs, in other machines.
	jury jury
	// ready says that the program lies in the machine.
	ready bool
	// inputOf is the index of the case whose input lies in the machine, or -1.
	inputOf int
	// workFiles says that files of a case lie in the working directory.
	workFiles bool
	// stopped says that nothing is run any more: a failure of ours.
	stopped bool

	run Run
}

// work compiles and runs the cases; what it finds is in x.run. Its errors are
// those of Judge.Run.
func (x *session) work(ctx context.Context, size int64) error {
	if len(x.problem.Cases) == 0 {
		x.run.Verdict, x.run.Reason = JudgeError, "the problem has no test cases"
		return nil
	}
	if size > x.codeLimit {
		x.run.Verdict = CompileError
		x.run.Reason = fmt.Sprintf("source of %s, limit %s", sizeText(size), sizeText(x.codeLimit))
		return nil
	}
	x.observe.tell(Event{Step: StepCompiling})
	if err := x.try(ctx, "compile", x.compileOnce); err != nil {
		return x.giveUp(ctx, err)
	}
	x.observe.tell(Event{Step: StepCompiled})
	if x.run.Verdict != "" {
		return nil
	}
	return x.runAll(ctx)
}

// refusal is a failure that a second try cannot mend and that is no verdict.
type refusal struct{ err error }

func (r *refusal) Error() string { return r.err.Error() }
func (r *refusal) Unwrap() error { return r.err }

// try does one step in a machine of the session. When we fail, it is done once
// more in a fresh machine; the second failure is returned.
func (x *session) try(ctx context.Context, doing string, step func(context.Context) error) error {
	for attempt := 1; ; attempt++ {
		err := x.ensureMachine(ctx)
		if err == nil {
			err = step(ctx)
		}
		if err == nil {
			return nil
		}
		x.dropMachine(ctx)
		if _, final := errors.AsType[*juryFault](err); final || x.refused(ctx, err) != nil || attempt == 2 {
			return err
		}
		x.run.Retries = append(x.run.Retries, Retry{Doing: doing, Error: err.Error()})
		x.observe.tell(Event{Step: StepRetrying, Text: err.Error()})
	}
}

// refused gives the error that Run must return, or nil when err is a failure
// that becomes JE.
func (x *session) refused(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("judge %s: %w", x.run.Submission.Name, context.Cause(ctx))
	}
	if r, ok := errors.AsType[*refusal](err); ok {
		return r.err
	}
	return nil
}

// failed is refused for an error that is final: what becomes JE by our failure
// is noted.
func (x *session) failed(ctx context.Context, err error) error {
	if final := x.refused(ctx, err); final != nil {
		return final
	}
	if _, jury := errors.AsType[*juryFault](err); !jury && x.run.Failure == nil {
		x.run.Failure = err
	}
	return nil
}

// giveUp turns a failure of ours into JE for the whole run.
func (x *session) giveUp(ctx context.Context, err error) error {
	if final := x.failed(ctx, err); final != nil {
		return final
	}
	x.run.Verdict, x.run.Reason = JudgeError, err.Error()
	return nil
}

// ensureMachine gives the session a machine with the sources in it.
func (x *session) ensureMachine(ctx context.Context) error {
	if x.machine != nil {
		if _, ended := x.machine.Ended(); !ended {
			return nil
		}
		x.dropMachine(ctx)
	}
	m, err := x.judge.machines.Create(ctx, MachineRequest{
		Template: x.template, Memory: machineNeed(x.problem.Limits, x.lang), Besides: x.jury.requests(),
	})
	if err != nil {
		err = fmt.Errorf("create a machine of template %s: %w", x.template, err)
		switch fault.KindOf(err) {
		case fault.Invalid, fault.NotFound, fault.Unsupported, fault.Denied:
			return &refusal{err}
		}
		return err
	}
	x.machine, x.ready, x.inputOf, x.workFiles = m, false, -1, false
	x.run.Machine = m.Describe()
	x.run.Machines++
	if x.run.Machine.Emulated && !slices.Contains(x.run.Warnings, EmulatedWarning) {
		x.run.Warnings = append(x.run.Warnings, EmulatedWarning)
	}
	limits := x.problem.Limits.in(x.run.Machine)
	if x.limits, err = caseLimits(limits, x.lang, x.run.Machine.Shape); err != nil {
		return &refusal{err}
	}
	if x.compile, err = compileLimits(limits, x.lang, x.run.Machine.Shape); err != nil {
		return &refusal{err}
	}
	x.run.Limits = limitsInfo(x.limits, x.compile, x.codeLimit)
	return x.furnish(ctx)
}

// destroyLimit is how long ending a machine may take.
const destroyLimit = 30 * time.Second

// dropMachine ends the machine and those beside it, whatever became of ctx.
func (x *session) dropMachine(ctx context.Context) {
	x.jury.close(ctx)
	if x.machine != nil {
		m := x.machine
		x.machine = nil
		x.destroy(ctx, m)
	}
}

func (x *session) destroy(ctx context.Context, m Machine) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), destroyLimit)
	defer cancel()
	if err := m.Destroy(ctx); err != nil {
		x.run.Warnings = append(x.run.Warnings, "destroy the machine: "+err.Error())
	}
}
