// Package stdio is the grading mode io: the student's program is compiled and
// run once for each test by the judge, in a machine that never holds what is
// expected, and the host compares standard output, exit code and files. Start
// with Grader.
//
// The package must not know drivers, stores or who asks.
package stdio

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"assay/internal/course"
	"assay/internal/fault"
	"assay/internal/guest"
	"assay/internal/judge"
	"assay/internal/judge/checker"
)

// What holds where an assignment gives no limit.
const (
	defaultTime   = 2 * time.Second
	defaultMemory = 256 << 20
	defaultOutput = 1 << 20
	// maxCode is the size of a student's sources together, in bytes.
	maxCode = 4 << 20
)

// Grader grades assignments of mode io with a judge. It may be used from many
// goroutines at once.
type Grader struct{ judge *judge.Judge }

// New makes a Grader.
func New(j *judge.Judge) *Grader { return &Grader{j} }

var _ course.Grader = (*Grader)(nil)

// Grade implements course.Grader.
func (g *Grader) Grade(ctx context.Context, a *course.Assignment, s course.Submission, observe func(string)) (course.Report, error) {
	seen := &recorder{outputs: map[string][]byte{}}
	p := problem(a, seen)
	j := g.judge.With(judge.Options{AllCases: true, Template: a.Template, Host: g.judge.Options().Host})
	run, err := j.Run(ctx, p, submission(a, s), func(e judge.Event) {
		if e.Step == judge.StepCase && observe != nil {
			observe(p.Cases[e.Case-1].Name)
		}
	})
	if err != nil {
		if fault.Is(err, fault.Invalid) {
			// Only the submission can be wrong now: the assignment was checked.
			return course.Report{Cause: course.NotCompiled, Build: err.Error()}, nil
		}
		return course.Report{}, err
	}
	return report(a, run, seen)
}

// problem makes the judge's problem of an assignment.
func problem(a *course.Assignment, seen *recorder) judge.Problem {
	p := judge.Problem{
		ShortName: a.Name, Name: a.Title, Version: a.Version, Checker: seen,
		Limits: judge.ProblemLimits{
			CPU: a.Limits.Time, Wall: a.Limits.Wall, Memory: a.Limits.Memory, Output: a.Limits.Output, Processes: a.Limits.Processes,
			Code: maxCode,
		},
		Env: []string{fmt.Sprintf("ASSAY_SEED=%d", a.Seed), fmt.Sprintf("PYTHONHASHSEED=%d", uint32(a.Seed))},
	}
	l := &p.Limits
	if l.CPU == 0 {
		l.CPU = defaultTime
	}
	if l.Memory == 0 {
		l.Memory = defaultMemory
	}
	if l.Output == 0 {
		l.Output = defaultOutput
	}
	l.CompileMemory = max(l.Memory, defaultMemory)
	for _, t := range a.Tests {
		c := judge.Case{
			Name: t.ID, Args: t.IO.Args, CheckerArgs: t.IO.Check, Exit: t.IO.Exit,
			Input: judge.BytesBlob("stdin", t.IO.Stdin), Answer: judge.BytesBlob("stdout", t.IO.Stdout),
		}
		for _, f := range t.IO.Files {
			c.Files = append(c.Files, judge.CaseFile{Name: f.Name, Blob: judge.BytesBlob(f.Name, f.Data)})
		}
		for _, f := range t.IO.Outputs {
			c.Outputs = append(c.Outputs, judge.BytesBlob(f.Name, f.Data))
		}
		if t.IO.Stdout == nil {
			c.CheckerArgs = []string{anything}
		}
		p.Cases = append(p.Cases, c)
	}
	return p
}

func submission(a *course.Assignment, s course.Submission) judge.Submission {
	sub := judge.Submission{Name: s.ID, Language: a.Language}
	for _, f := range s.Files {
		sub.Files = append(sub.Files, judge.SourceFile{Name: f.Name, Data: f.Data})
	}
	return sub
}

// anything is the flag of a test that does not compare standard output. It is
// ours alone: the reader of assignments refuses it.
const anything = "anything"

// recorder is the default checker, which also keeps the beginning of what each
// test wrote. The judge asks for one test at a time.
type recorder struct{ outputs map[string][]byte }

func (r *recorder) Describe() string { return checker.Default{}.Describe() }

func (r *recorder) Check(ctx context.Context, req judge.CheckRequest) (judge.Check, error) {
	kept := &beginning{left: course.MaxShownOutput}
	req.Output = io.TeeReader(req.Output, kept)
	defer func() { r.outputs[req.Case.Name] = kept.data }()
	if slices.Equal(req.Case.CheckerArgs, []string{anything}) {
		_, err := io.Copy(io.Discard, req.Output)
		return judge.Check{Outcome: judge.CheckAccepted}, err
	}
	return checker.Default{}.Check(ctx, req)
}

// beginning keeps the first bytes written to it.
type beginning struct {
	data []byte
	left int
}

func (b *beginning) Write(p []byte) (int, error) {
	n := min(len(p), b.left)
	b.data, b.left = append(b.data, p[:n]...), b.left-n
	return len(p), nil
}

// report turns the judge's run into findings.
func report(a *course.Assignment, run judge.Run, seen *recorder) (course.Report, error) {
	r := course.Report{Build: run.Compile.Output, Machines: []judge.MachineInfo{run.Machine}}
	switch run.Verdict {
	case judge.JudgeError:
		return r, fault.Errorf(fault.Unavailable, "grade %s: %s", run.Submission.Name, run.Reason)
	case judge.CompileError:
		r.Cause = course.NotCompiled
		r.Build = strings.TrimSpace(run.Reason + "\n" + r.Build)
		return r, nil
	}
	tests := map[string]course.Test{}
	for _, t := range a.Tests {
		tests[t.ID] = t
	}
	for _, c := range run.Cases {
		if c.Verdict == judge.JudgeError {
			return r, fault.Errorf(fault.Unavailable, "test %q: %s", c.Name, c.Reason)
		}
		f := course.Finding{Test: c.Name, Usage: c.Usage}
		f.Status, f.Cause = outcome(c)
		t := tests[c.Name]
		if f.Status != course.Passed {
			f.Detail = detail(t.IO, c, seen.outputs)
		}
		f.Stdout = string(seen.outputs[c.Name])
		if c.Staff != nil {
			f.Stderr, f.Truncated = c.Staff.Stderr, c.Staff.StderrTruncated
		}
		f.Truncated = f.Truncated || len(f.Stdout) == course.MaxShownOutput
		r.Findings = append(r.Findings, f)
	}
	return r, nil
}

var statuses = map[judge.Verdict]struct {
	status course.Status
	cause  course.Cause
}{
	judge.Accepted:            {course.Passed, course.NoCause},
	judge.WrongAnswer:         {course.Failed, course.NoCause},
	judge.PresentationError:   {course.Failed, course.NoCause},
	judge.TimeLimitExceeded:   {course.Errored, course.TimeLimit},
	judge.MemoryLimitExceeded: {course.Errored, course.MemoryLimit},
	judge.OutputLimitExceeded: {course.Errored, course.OutputLimit},
	judge.Skipped:             {course.Missing, course.NoCause},
}

func outcome(c judge.CaseResult) (course.Status, course.Cause) {
	if s, ok := statuses[c.Verdict]; ok {
		return s.status, s.cause
	}
	switch c.Exit.Cause {
	case guest.ProcessLimit:
		return course.Errored, course.ProcessLimit
	case guest.DiskLimit:
		return course.Errored, course.DiskLimit
	case guest.Signaled:
		return course.Errored, course.Crashed
	}
	return course.Failed, course.NoCause
}

// maxDiffText is how much of each text a detail shows, in bytes.
const maxDiffText = 2 << 10

// detail says what was wanted and what came.
func detail(t *course.IOTest, c judge.CaseResult, outputs map[string][]byte) string {
	var b strings.Builder
	switch c.Verdict {
	case judge.WrongAnswer, judge.PresentationError:
		b.WriteString("the output is not what was expected")
	case judge.RunTimeError:
		if c.Exit.Cause == guest.Exited {
			fmt.Fprintf(&b, "the program ended with exit code %d", c.Exit.Code)
		}
	}
	// Figures of time and memory differ from run to run; they are beside it.
	if c.Staff != nil && c.Staff.CheckMessage != "" {
		b.WriteString("\n" + c.Staff.CheckMessage)
	}
	if len(t.Args) > 0 {
		fmt.Fprintf(&b, "\n\narguments: %q", t.Args)
	}
	text := func(what string, data []byte) {
		if cut := len(data) > maxDiffText; cut {
			data = append(slices.Clone(data[:maxDiffText]), "…"...)
		}
		fmt.Fprintf(&b, "\n\n%s:\n%s", what, bytes.TrimRight(data, "\n"))
	}
	if len(t.Stdin) > 0 {
		text("input", t.Stdin)
	}
	if t.Stdout != nil {
		text("expected output", t.Stdout)
		text("output", outputs[c.Name])
	}
	for _, f := range t.Outputs {
		text("expected in "+f.Name, f.Data)
		if got, ok := outputs[c.Name+"/"+f.Name]; ok {
			text("found in "+f.Name, got)
		}
	}
	return strings.TrimSpace(b.String())
}
