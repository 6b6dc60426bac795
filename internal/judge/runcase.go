package judge

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"

	"assay/internal/fault"
	"assay/internal/guest"
	"assay/internal/sandbox"
)

const (
	// maxRepeats is how often a case at the knife edge, and a case that the host
	// disturbed, is run again.
	maxRepeats = 3
	// stderrKept is how much of standard error staff can see, in bytes.
	stderrKept = 16 << 10
)

// attempt is one judging of a case: one run of the program, or in a multi-pass
// problem one for each pass.
type attempt struct {
	// exit and usage are of the pass that decided; time and memory the largest.
	exit    sandbox.Exit
	usage   sandbox.Usage
	files   []guest.OutputFile
	passes  int
	check   Check
	verdict Verdict
	reason  string
	stderr  string
	stderrT bool
	// next is the input of the next pass, when there is to be one.
	next *spool
}

// judgeCase runs case i as often as fairness asks and fills res. An error is
// ours; the caller repeats in a fresh machine.
func (x *session) judgeCase(ctx context.Context, i int, res *CaseResult) error {
	if err := x.ensureProgram(ctx); err != nil {
		return err
	}
	best, disturbed, err := x.undisturbed(ctx, i)
	res.Disturbed += disturbed
	if err != nil {
		return err
	}
	res.Attempts = 1
	for last := best; atKnifeEdge(last, x.limits) && res.Attempts <= maxRepeats; {
		if res.Attempts > 1 && best.verdict != TimeLimitExceeded {
			break
		}
		res.KnifeEdge = true
		if err := x.ensureProgram(ctx); err != nil {
			return err
		}
		if last, disturbed, err = x.undisturbed(ctx, i); err != nil {
			return err
		}
		res.Disturbed += disturbed
		res.Attempts++
		if better(last, best) {
			best = last
		}
	}
	best.fill(res, x.limits)
	if res.KnifeEdge {
		res.Reason = joinReason(res.Reason, fmt.Sprintf("close to the time limit: best of %d runs", res.Attempts))
	}
	if err := x.score(i, res, best.check); err != nil {
		return err
	}
	if x.judge.options.Transcripts && x.problem.Interactor != nil && res.Verdict != Accepted {
		return x.transcribe(ctx, i, res)
	}
	return nil
}

// atKnifeEdge reports whether the time lies in [0.9, 1.1] x limit, and decides.
// A run that ended for another reason is not made better by another run.
func atKnifeEdge(a attempt, l sandbox.Limits) bool {
	switch a.verdict {
	case Accepted, WrongAnswer, PresentationError:
	case TimeLimitExceeded:
		if a.exit.Cause == guest.CPULimit || a.exit.Cause == guest.WallLimit {
			// The exec's own limit is at 1.1 x: whatever it ended lies beyond.
			return false
		}
	default:
		return false
	}
	cpu := timeOf(a.usage)
	return l.CPU > 0 && cpu*10 >= l.CPU*9 && cpu*10 <= l.CPU*11
}

// better prefers an accepted run, then one within its time, then the faster.
func better(a, b attempt) bool {
	rank := func(v Verdict) int {
		switch v {
		case Accepted:
			return 0
		case TimeLimitExceeded:
			return 2
		}
		return 1
	}
	if ra, rb := rank(a.verdict), rank(b.verdict); ra != rb {
		return ra < rb
	}
	return timeOf(a.usage) < timeOf(b.usage)
}

// undisturbed runs case i until the host did not disturb the run, where that
// could have changed its verdict. After maxRepeats the best run is taken: on a
// host that never rests the processor time is still right, and only what waited
// for it is not.
func (x *session) undisturbed(ctx context.Context, i int) (best attempt, disturbed int, err error) {
	for {
		a, err := x.runOnce(ctx, i)
		if err != nil {
			return a, disturbed, err
		}
		if disturbed == 0 || better(a, best) {
			best = a
		}
		if !a.usage.Disagree && (a.usage.Disturbed == "" || !timeMatters(a, x.limits)) {
			return best, disturbed, nil
		}
		disturbed++
		if disturbed > maxRepeats {
			if best.usage.Disagree {
				err = fault.Errorf(fault.Unavailable, "host and guest counted the CPU time differently in %d runs", disturbed)
			}
			best.reason = joinReason(best.reason, fmt.Sprintf("the host disturbed all of %d runs: %s", disturbed, best.usage.Disturbed))
			return best, disturbed, err
		}
		if err := x.ensureProgram(ctx); err != nil {
			return a, disturbed, err
		}
	}
}

// timeMatters reports whether a disturbance could have changed the verdict: the
// run was ended for its time, or came to more than half of a limit.
func timeMatters(a attempt, l sandbox.Limits) bool {
	return a.verdict == TimeLimitExceeded || timeOf(a.usage) > l.CPU/2 || a.usage.Wall > l.Wall/2
}

// runOnce judges case i once: a pass, and those that follow from it.
func (x *session) runOnce(ctx context.Context, i int) (attempt, error) {
	var whole attempt
	for pass := 1; ; pass++ {
		one, err := x.runPass(ctx, i, whole.next, nil)
		if whole.next != nil {
			whole.next.close()
		}
		whole = whole.then(one)
		if err != nil || one.next == nil {
			return whole, err
		}
		if pass >= max(1, x.problem.Passes) {
			one.next.close()
			return whole, juryFaultf("the checker asks for more than %d passes", x.problem.Passes)
		}
	}
}

// then adds a later pass.
func (a attempt) then(b attempt) attempt {
	if a.passes > 0 {
		if timeOf(a.usage) > timeOf(b.usage) {
			b.usage.CPUUser, b.usage.CPUSystem, b.usage.Counted = a.usage.CPUUser, a.usage.CPUSystem, a.usage.Counted
		}
		b.usage.Wall = max(a.usage.Wall, b.usage.Wall)
		b.usage.MemoryPeak = max(a.usage.MemoryPeak, b.usage.MemoryPeak)
	}
	b.passes = a.passes + 1
	return b
}

// runPass runs the program once on case i, or on the input of a later pass. The
// input enters the machine now, not earlier; the expected output never does.
// record, when not nil, gets what program and interactor say to each other.
func (x *session) runPass(ctx context.Context, i int, input *spool, record *transcript) (attempt, error) {
	if err := x.bringInput(ctx, i, input); err != nil {
		return attempt{}, err
	}
	spec, err := x.runSpec(ctx, i)
	if err != nil {
		return attempt{}, err
	}
	var a attempt
	switch {
	case x.problem.Interactor != nil:
		a, err = x.interact(ctx, i, input, spec, record)
	case len(x.problem.Checkers) > 0:
		a, err = x.runThenCheck(ctx, i, input, spec)
	default:
		a, err = x.runAndCompare(ctx, i, spec)
	}
	if err != nil {
		return a, err
	}
	x.expectExit(i, &a)
	a.verdict, a.reason = Decide(a.exit, a.usage, x.limits, a.check)
	if a.verdict == JudgeError && !a.usage.Disagree {
		err = fault.Errorf(fault.Unavailable, "%s", a.reason)
	}
	return a, err
}

// runSpec is how the program is run on case i. Files of the case lie in its
// working directory then.
func (x *session) runSpec(ctx context.Context, i int) (sandbox.ExecSpec, error) {
	c := x.problem.Cases[i]
	spec := sandbox.ExecSpec{
		Argv: append(x.expand(x.lang.Run.Argv), c.Args...), Dir: workDir, User: "user",
		Env:       slices.Concat(baseEnv(workDir), x.expand(x.lang.Run.Env), x.problem.Env),
		StdinFile: inFile, Isolated: true, Limits: x.limits,
	}
	// A little more time than the limit, so that a run at the edge is measured
	// and not cut; Decide judges by the limit itself.
	spec.Limits.CPU = x.limits.CPU * 11 / 10
	for _, o := range c.Outputs {
		spec.Outputs = append(spec.Outputs, path.Join(workDir, o.Name()))
	}
	for _, d := range privateDirs {
		if d != workDir || len(c.Files) == 0 && !x.problem.ReadOnly {
			spec.FreshDirs = append(spec.FreshDirs, d)
		}
	}
	if len(c.Files) == 0 && !x.workFiles {
		return spec, nil
	}
	// Whatever an earlier run left there is gone.
	dirMode, fileMode := fs.FileMode(0o777), fs.FileMode(0o666)
	if x.problem.ReadOnly {
		dirMode, fileMode = 0o755, 0o444
	} else if len(c.Files) > 0 {
		spec.WritableDirs = []string{workDir}
	}
	if err := errors.Join(x.machine.Remove(ctx, workDir), x.machine.MakeDir(ctx, workDir, dirMode)); err != nil {
		return spec, fmt.Errorf("empty the working directory: %w", err)
	}
	x.workFiles = len(c.Files) > 0
	for _, f := range c.Files {
		to := path.Join(workDir, f.Name)
		if dir := path.Dir(to); dir != workDir {
			if err := x.machine.MakeDir(ctx, dir, dirMode); err != nil {
				return spec, fmt.Errorf("make %s: %w", dir, err)
			}
		}
		if err := bringBlobMode(ctx, x.machine, f.Blob, to, fileMode); err != nil {
			return spec, err
		}
	}
	return spec, nil
}

// runAndCompare runs the program while the host compares what it writes.
func (x *session) runAndCompare(ctx context.Context, i int, spec sandbox.ExecSpec) (attempt, error) {
	checkCtx, stopCheck := context.WithCancel(ctx)
	defer stopCheck()
	check := startCheck(checkCtx, x.problem.Checker, x.problem.Cases[i])
	a, err := x.runProgram(ctx, spec, check.in)
	a.check = check.finish()
	if c := x.problem.Cases[i]; err == nil && len(c.Outputs) > 0 && a.check.Outcome == CheckAccepted && x.undecided(a) {
		a.check, err = x.compareFiles(ctx, c, a.files)
	}
	if err == nil && a.check.Outcome == CheckFailed {
		err = fault.Errorf(fault.Unavailable, "the checker failed: %s", a.check.Message)
	}
	return a, err
}

// expectExit holds the exit code against a case that wants another than zero:
// the one wanted is then as good as zero, and any other is a wrong answer.
func (x *session) expectExit(i int, a *attempt) {
	want := x.problem.Cases[i].Exit
	if want == 0 || a.exit.Cause != guest.Exited {
		return
	}
	if a.exit.Code != want {
		a.check = Check{Outcome: CheckRejected, Message: fmt.Sprintf("exit code %d, not %d", a.exit.Code, want)}
	}
	a.exit.Code = 0
}

// compareFiles has the checker compare the files that the case wants.
func (x *session) compareFiles(ctx context.Context, c Case, files []guest.OutputFile) (Check, error) {
	for i, want := range c.Outputs {
		if i >= len(files) {
			return Check{}, fault.Errorf(fault.Internal, "the machine says nothing of the file %s", want.Name())
		}
		if files[i].Refused != "" {
			return Check{Outcome: CheckRejected, Message: fmt.Sprintf("the file %s %s", want.Name(), files[i].Refused)}, nil
		}
		of := c
		of.Name, of.Answer = c.Name+"/"+want.Name(), want
		check, err := x.problem.Checker.Check(ctx, CheckRequest{Case: of, Output: bytes.NewReader(files[i].Data)})
		if err != nil || check.Outcome != CheckAccepted {
			check.Message = joinReason("file "+want.Name(), check.Message)
			return check, err
		}
	}
	return Check{Outcome: CheckAccepted}, nil
}

// runThenCheck runs the program, and then the checkers if its end leaves
// anything to decide: they do not use the processor while it is measured.
func (x *session) runThenCheck(ctx context.Context, i int, input *spool, spec sandbox.ExecSpec) (attempt, error) {
	output := &spool{}
	defer output.close()
	a, err := x.runProgram(ctx, spec, output)
	if err != nil || !x.undecided(a) {
		return a, err
	}
	a.check, a.next, err = x.jury.check(ctx, i, output, input)
	return a, err
}

// undecided reports whether the verdict hangs on the checker's word.
func (x *session) undecided(a attempt) bool {
	v, _ := Decide(a.exit, a.usage, x.limits, Check{Outcome: CheckAccepted})
	return v == Accepted
}

// runProgram runs the program with its output going to w, up to the limit.
func (x *session) runProgram(ctx context.Context, spec sandbox.ExecSpec, w io.Writer) (attempt, error) {
	stdout := &cappedWriter{w: w, left: x.limits.Output}
	stderr := &head{max: stderrKept}
	res, err := execIn(ctx, x.machine, spec, stdout, stderr)
	a := x.observed(res, stderr)
	if stdout.over {
		a.exit.OutputTruncated = true
	}
	if err != nil {
		err = fmt.Errorf("run the program: %w", err)
	}
	return a, err
}

// observed makes an attempt of what an exec of the program gave.
func (x *session) observed(res sandbox.Result, stderr *head) attempt {
	a := attempt{exit: res.Exit, usage: res.Usage, files: res.Files}
	a.stderr, a.stderrT = stderr.text()
	if x.lang.OutOfMemory(a.exit, a.stderr) {
		// The runtime keeps its own heap limit, which is the problem's.
		a.exit.Cause = guest.MemoryLimit
	}
	return a
}

// bringInput lays the input into the machine: that of case i, or of a later
// pass.
func (x *session) bringInput(ctx context.Context, i int, later *spool) error {
	if later != nil {
		x.inputOf = -1
		if err := x.machine.WriteFile(ctx, inFile, later.reader(), 0o444); err != nil {
			return fmt.Errorf("write input: %w", err)
		}
		return nil
	}
	if x.inputOf == i {
		return nil
	}
	x.inputOf = -1
	input := x.problem.Cases[i].Input
	if x.problem.Interactor != nil {
		// Only the interactor may see it.
		input = BytesBlob("empty", nil)
	}
	if err := bringBlob(ctx, x.machine, input, inFile); err != nil {
		return err
	}
	x.inputOf = i
	return nil
}

func bringBlob(ctx context.Context, m Machine, b Blob, to string) error {
	return bringBlobMode(ctx, m, b, to, 0o444)
}

func bringBlobMode(ctx context.Context, m Machine, b Blob, to string, mode fs.FileMode) error {
	r, err := b.Open()
	if err != nil {
		return fmt.Errorf("open %s: %w", b.Name(), err)
	}
	err = m.WriteFile(ctx, to, r, mode)
	if closeErr := r.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", b.Name(), err)
	}
	return nil
}

// fill writes the outcome of an attempt into a case's result.
func (a attempt) fill(res *CaseResult, l sandbox.Limits) {
	res.Verdict, res.Reason = a.verdict, a.reason
	res.Exit, res.Usage, res.Message = a.exit, a.usage, a.check.TeamMessage
	if a.passes > 1 {
		res.Passes = a.passes
	}
	res.TimeUS, res.WallUS, res.MemoryBytes = timeOf(a.usage).Microseconds(), a.usage.Wall.Microseconds(), a.usage.MemoryPeak
	if a.exit.Cause == guest.CPULimit {
		res.TimeUS, res.TimeAtLeast = l.CPU.Microseconds(), true
	}
	if a.check.Message != "" || a.stderr != "" {
		res.Staff = &StaffInfo{CheckMessage: a.check.Message, Stderr: a.stderr, StderrTruncated: a.stderrT}
	}
}

func joinReason(a, b string) string {
	if a == "" {
		return b
	}
	return a + "; " + b
}
