package judge

import (
	"fmt"
	"strings"
	"time"

	"assay/internal/guest"
	"assay/internal/sandbox"
)

// Verdict is the outcome of a case or of a run.
type Verdict string

// The verdicts. PE is given only where a checker says so itself.
const (
	Accepted            Verdict = "AC"
	WrongAnswer         Verdict = "WA"
	PresentationError   Verdict = "PE"
	TimeLimitExceeded   Verdict = "TLE"
	MemoryLimitExceeded Verdict = "MLE"
	OutputLimitExceeded Verdict = "OLE"
	RunTimeError        Verdict = "RE"
	CompileError        Verdict = "CE"
	JudgeError          Verdict = "JE"
	Skipped             Verdict = "SK"
)

var verdictTexts = map[Verdict]string{
	Accepted:            "accepted",
	WrongAnswer:         "wrong answer",
	PresentationError:   "presentation error",
	TimeLimitExceeded:   "time limit exceeded",
	MemoryLimitExceeded: "memory limit exceeded",
	OutputLimitExceeded: "output limit exceeded",
	RunTimeError:        "run-time error",
	CompileError:        "compile error",
	JudgeError:          "judge error",
	Skipped:             "skipped",
}

// Text is the verdict in words ("time limit exceeded").
func (v Verdict) Text() string { return verdictTexts[v] }

// Known reports whether v is one of the verdicts.
func (v Verdict) Known() bool { _, ok := verdictTexts[v]; return ok }

// CheckOutcome is what a checker or interactor said.
type CheckOutcome int

// The outcomes. The zero value is "nothing was said", which can never accept.
const (
	CheckNone CheckOutcome = iota
	// CheckAccepted and CheckRejected are the checker's word on the output.
	CheckAccepted
	CheckRejected
	// CheckPresentation is a rejection that the checker itself calls one of
	// form only.
	CheckPresentation
	// CheckRejectedFirst is an interactor that rejected and ended before the
	// program did. What the program did afterwards does not count.
	CheckRejectedFirst
	// CheckFailed is a checker that did not do its work.
	CheckFailed
)

// Check is the word of a checker about one output.
type Check struct {
	Outcome CheckOutcome
	// NoOutput says that the output held nothing where something was expected.
	NoOutput bool
	// Message is for staff: the first difference, or what went wrong.
	Message string
	// TeamMessage may be shown to whoever sent the program.
	TeamMessage string
	// Score is what the checker gave; Multiplier is a part of the maximum, in
	// [0, 1]. At most one is set.
	Score, Multiplier *Score
}

// timeOf is the processor time that counts: the host's count where it has one.
func timeOf(usage sandbox.Usage) time.Duration {
	if usage.Counted > 0 {
		return usage.Counted
	}
	return usage.CPU()
}

// stderrFlood is how much on standard error makes a flood of it, in bytes for
// each second of CPU time, and at the least once.
const stderrFlood = 8 << 10

func flooded(usage sandbox.Usage) bool {
	return usage.StderrBytes >= stderrFlood*max(1, int64(timeOf(usage)/time.Second))
}

// Decide gives the verdict of one case and the reason a person can read. It is
// a pure function of what was observed; limits are those the case is judged by
// (the exec may have had a little more, so that a run at the edge is seen to
// its end). A limit of zero is no limit.
//
// A program that was still flooding standard error when its time was over is
// OLE: byte by byte it does not get to the limit in that time, and its author
// must learn that the flood is what took it.
//
// Order: our failure is JE; an interactor that rejected first is WA; CPU or
// wall time is TLE; memory MLE; output OLE; a signal, an exit code, a process
// or disk limit RE; only then the checker's word counts. A program that ran out
// of memory or crashed before its time was over is MLE or RE even if it was
// then slow to die: for those the wall clock does not count.
func Decide(exit sandbox.Exit, usage sandbox.Usage, limits sandbox.Limits, check Check) (Verdict, string) {
	if reason, ours := ourFailure(exit, usage, check); ours {
		return JudgeError, reason
	}
	if check.Outcome == CheckRejectedFirst {
		return WrongAnswer, "the interactor rejected before the program ended"
	}
	if reason, over := overTime(exit, usage, limits); over {
		if flooded(usage) {
			return OutputLimitExceeded, fmt.Sprintf("standard error was flooded with %s until the time was over", sizeText(usage.StderrBytes))
		}
		return TimeLimitExceeded, reason
	}
	if exit.Cause == guest.MemoryLimit {
		return MemoryLimitExceeded, "memory limit of " + sizeText(limits.Memory) + " reached"
	}
	if limits.Memory > 0 && usage.MemoryPeak > limits.Memory {
		return MemoryLimitExceeded, fmt.Sprintf("memory %s, limit %s", sizeText(usage.MemoryPeak), sizeText(limits.Memory))
	}
	if reason, over := overOutput(exit, usage, limits); over {
		return OutputLimitExceeded, reason
	}
	switch {
	case exit.Cause == guest.ProcessLimit:
		return RunTimeError, fmt.Sprintf("process limit of %d reached", limits.Processes)
	case exit.Cause == guest.DiskLimit:
		return RunTimeError, "file size or disk limit reached"
	case exit.Cause == guest.Signaled:
		return RunTimeError, "ended by " + signalText(exit.Signal)
	case exit.Code != 0:
		return RunTimeError, fmt.Sprintf("exit code %d", exit.Code)
	}
	switch check.Outcome {
	case CheckAccepted:
		return Accepted, ""
	case CheckRejected:
		if check.NoOutput {
			return WrongAnswer, "no output"
		}
		return WrongAnswer, "the output is wrong"
	case CheckPresentation:
		return PresentationError, "the output has the wrong form"
	}
	return JudgeError, "the checker gave no answer"
}

// ourFailure reports what makes the case impossible to judge.
func ourFailure(exit sandbox.Exit, usage sandbox.Usage, check Check) (string, bool) {
	switch exit.Cause {
	case guest.Exited, guest.Signaled, guest.CPULimit, guest.WallLimit, guest.MemoryLimit,
		guest.OutputLimit, guest.ProcessLimit, guest.DiskLimit:
	case guest.MachineLost:
		return "the machine was lost", true
	case guest.Killed:
		if check.Outcome == CheckRejectedFirst {
			break // we stopped it: nothing that it did counted any more
		}
		return "the program was stopped from outside", true
	default:
		return fmt.Sprintf("the exec ended for an unknown cause %q", exit.Cause), true
	}
	if check.Outcome == CheckFailed {
		return "the checker failed", true
	}
	if usage.Disagree {
		return "host and guest count the CPU time differently", true
	}
	return "", false
}

func overTime(exit sandbox.Exit, usage sandbox.Usage, limits sandbox.Limits) (string, bool) {
	switch {
	case exit.Cause == guest.CPULimit:
		return fmt.Sprintf("CPU time limit of %s reached", secondsText(limits.CPU)), true
	case limits.CPU > 0 && timeOf(usage) > limits.CPU:
		if timeOf(usage)-limits.CPU < time.Millisecond {
			return fmt.Sprintf("CPU time %.6f s, limit %s", timeOf(usage).Seconds(), secondsText(limits.CPU)), true
		}
		return fmt.Sprintf("CPU time %s, limit %s", secondsText(timeOf(usage)), secondsText(limits.CPU)), true
	case exit.Cause == guest.WallLimit:
		return fmt.Sprintf("wall time limit of %s reached (CPU time %s)", secondsText(limits.Wall), secondsText(timeOf(usage))), true
	case exit.Cause == guest.Exited && limits.Wall > 0 && usage.Wall > limits.Wall:
		return fmt.Sprintf("wall time %s, limit %s (CPU time %s)", secondsText(usage.Wall), secondsText(limits.Wall), secondsText(timeOf(usage))), true
	}
	return "", false
}

func overOutput(exit sandbox.Exit, usage sandbox.Usage, limits sandbox.Limits) (string, bool) {
	over := exit.Cause == guest.OutputLimit || exit.OutputTruncated
	if limits.Output > 0 && (usage.StdoutBytes > limits.Output || usage.StderrBytes > limits.Output) {
		over = true
	}
	if !over {
		return "", false
	}
	stream := "output"
	switch {
	case exit.StdoutDropped > 0 || limits.Output > 0 && usage.StdoutBytes > limits.Output:
		stream = "standard output"
	case exit.StderrDropped > 0 || limits.Output > 0 && usage.StderrBytes > limits.Output:
		stream = "standard error"
	}
	return fmt.Sprintf("%s limit of %s reached", stream, sizeText(limits.Output)), true
}

func secondsText(d time.Duration) string { return fmt.Sprintf("%.3f s", d.Seconds()) }

// sizeText writes bytes in the largest unit that leaves the number readable.
func sizeText(n int64) string {
	switch {
	case n <= 0:
		return "the machine"
	case n < 1<<10:
		return fmt.Sprintf("%d bytes", n)
	case n < 1<<20:
		return trimZero(fmt.Sprintf("%.1f", float64(n)/(1<<10))) + " KiB"
	}
	return trimZero(fmt.Sprintf("%.1f", float64(n)/(1<<20))) + " MiB"
}

func trimZero(s string) string { return strings.TrimSuffix(s, ".0") }

// signalTexts are the signals a Linux guest reports, by number.
var signalTexts = map[int]string{
	1: "SIGHUP, hang-up", 2: "SIGINT, interrupt", 3: "SIGQUIT, quit", 4: "SIGILL, illegal instruction", 5: "SIGTRAP, trap",
	6: "SIGABRT, abort", 7: "SIGBUS, bus error", 8: "SIGFPE, arithmetic error", 9: "SIGKILL, kill", 10: "SIGUSR1, user signal",
	11: "SIGSEGV, segmentation fault", 12: "SIGUSR2, user signal", 13: "SIGPIPE, broken pipe", 14: "SIGALRM, alarm",
	15: "SIGTERM, termination", 24: "SIGXCPU, CPU time", 25: "SIGXFSZ, file size", 31: "SIGSYS, bad system call",
}

func signalText(n int) string {
	if t, ok := signalTexts[n]; ok {
		return fmt.Sprintf("signal %d (%s)", n, t)
	}
	return fmt.Sprintf("signal %d", n)
}
