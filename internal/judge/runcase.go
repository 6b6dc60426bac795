package judge

import (
	"context"
	"fmt"

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

// attempt is one run of the program on one case.
type attempt struct {
	exit    sandbox.Exit
	usage   sandbox.Usage
	check   Check
	verdict Verdict
	reason  string
	stderr  string
	stderrT bool
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
	cpu := a.usage.CPU()
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
	return a.usage.CPU() < b.usage.CPU()
}

// undisturbed runs case i until host and guest agree about the time.
func (x *session) undisturbed(ctx context.Context, i int) (a attempt, disturbed int, err error) {
	for {
		if a, err = x.runOnce(ctx, i); err != nil {
			return a, disturbed, err
		}
		if !a.usage.Disagree {
			return a, disturbed, nil
		}
		disturbed++
		if disturbed > maxRepeats {
			return a, disturbed, fault.Errorf(fault.Unavailable, "host and guest counted the CPU time differently in %d runs", disturbed)
		}
		if err := x.ensureProgram(ctx); err != nil {
			return a, disturbed, err
		}
	}
}

// runOnce runs the program on case i once. The input enters the machine now,
// not earlier; the expected output never does.
func (x *session) runOnce(ctx context.Context, i int) (attempt, error) {
	c := x.problem.Cases[i]
	if err := x.bringInput(ctx, i); err != nil {
		return attempt{}, err
	}
	spec := sandbox.ExecSpec{
		Argv: x.expand(x.lang.Run.Argv), Dir: workDir, User: "user",
		Env:       append([]string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + workDir, "TMPDIR=/tmp", "LANG=C.UTF-8"}, x.expand(x.lang.Run.Env)...),
		StdinFile: inFile, Isolated: true, FreshDirs: privateDirs, Limits: x.limits,
	}
	// A little more time than the limit, so that a run at the edge is measured
	// and not cut; Decide judges by the limit itself.
	spec.Limits.CPU = x.limits.CPU * 11 / 10

	checkCtx, stopCheck := context.WithCancel(ctx)
	defer stopCheck()
	check := startCheck(checkCtx, x.problem.Checker, c)
	stdout := &cappedWriter{w: check.in, left: x.limits.Output}
	stderr := &head{max: stderrKept}
	res, err := x.exec(ctx, spec, stdout, stderr)
	word := check.finish()
	if err != nil {
		return attempt{exit: res.Exit, usage: res.Usage}, fmt.Errorf("run the program: %w", err)
	}
	a := attempt{exit: res.Exit, usage: res.Usage, check: word}
	if stdout.over {
		a.exit.OutputTruncated = true
	}
	a.stderr, a.stderrT = stderr.text()
	if x.lang.outOfMemory(a.exit, a.stderr) {
		// The runtime keeps its own heap limit, which is the problem's.
		a.exit.Cause = guest.MemoryLimit
	}
	if word.Outcome == CheckFailed {
		return a, fault.Errorf(fault.Unavailable, "the checker failed: %s", word.Message)
	}
	a.verdict, a.reason = Decide(a.exit, a.usage, x.limits, word)
	if a.verdict == JudgeError && !a.usage.Disagree {
		return a, fault.Errorf(fault.Unavailable, "%s", a.reason)
	}
	return a, nil
}

func (x *session) bringInput(ctx context.Context, i int) error {
	if x.inputOf == i {
		return nil
	}
	x.inputOf = -1
	in, err := x.problem.Cases[i].Input.Open()
	if err != nil {
		return fmt.Errorf("open input: %w", err)
	}
	err = x.machine.WriteFile(ctx, inFile, in, 0o444)
	if closeErr := in.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return fmt.Errorf("write input: %w", err)
	}
	x.inputOf = i
	return nil
}

// fill writes the outcome of an attempt into a case's result.
func (a attempt) fill(res *CaseResult, l sandbox.Limits) {
	res.Verdict, res.Reason = a.verdict, a.reason
	res.Exit, res.Usage = a.exit, a.usage
	res.TimeUS, res.WallUS, res.MemoryBytes = a.usage.CPU().Microseconds(), a.usage.Wall.Microseconds(), a.usage.MemoryPeak
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
