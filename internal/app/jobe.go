package app

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	"assay/internal/compat/jobe"
	"assay/internal/fault"
	"assay/internal/guest"
	"assay/internal/judge"
)

// Jobe gives the front of Jobe's wire format. Each run has a fresh machine; as
// many go at once as there are processors, and others wait for a while.
func (e *Engine) Jobe(log *slog.Logger) (http.Handler, error) {
	languages, err := judge.DefaultLanguages()
	if err != nil {
		return nil, err
	}
	r := jobeRunner{machines: judgeMachines{e}, languages: languages, slots: make(chan struct{}, runtime.NumCPU())}
	return jobe.Handler(r, log), nil
}

// jobeWait is how long a job waits for others before it is told that the server
// is full: less than its clients wait for an answer.
const jobeWait = 30 * time.Second

type jobeRunner struct {
	machines  judge.Machines
	languages *judge.Languages
	slots     chan struct{}
}

// jobeNames are what Jobe calls languages that have another ID here.
var jobeNames = map[string]string{"javascript": "nodejs"}

// Languages implements jobe.Runner.
func (r jobeRunner) Languages() [][2]string {
	var out [][2]string
	for _, id := range r.languages.IDs() {
		lang, err := r.languages.ByID(id)
		if err != nil {
			continue // IDs gives no other
		}
		name := id
		if jobeNames[id] != "" {
			name = jobeNames[id]
		}
		out = append(out, [2]string{name, lang.Name})
	}
	slices.SortFunc(out, func(a, b [2]string) int { return strings.Compare(a[0], b[0]) })
	return out
}

// Run implements jobe.Runner.
func (r jobeRunner) Run(ctx context.Context, j jobe.Job) (jobe.Result, error) {
	lang, err := r.languages.ByID(j.Language)
	if err != nil {
		return jobe.Result{}, err
	}
	select {
	case r.slots <- struct{}{}:
		defer func() { <-r.slots }()
	case <-time.After(jobeWait):
		return jobe.Result{}, fault.Errorf(fault.Exhausted, "all of %d places are taken", cap(r.slots))
	case <-ctx.Done():
		return jobe.Result{}, context.Cause(ctx)
	}
	stdout := &firstBytes{left: j.Output}
	run, err := judge.New(r.machines, r.languages.With(withArgs(lang, j)), judge.Options{}).Run(ctx, jobeProblem(lang, j, stdout), jobeSubmission(lang, j), nil)
	if err != nil {
		return jobe.Result{}, err
	}
	return jobeResult(lang, run, stdout.data)
}

// withArgs gives the language with a job's own arguments in its commands.
func withArgs(lang judge.Language, j jobe.Job) judge.Language {
	if len(lang.Compile.Argv) > 1 {
		lang.Compile.Argv = slices.Concat(lang.Compile.Argv[:1], j.CompileArgs, lang.Compile.Argv[1:], j.LinkArgs)
	}
	lang.Run.Argv = slices.Concat(lang.Run.Argv[:1], j.InterpreterArgs, lang.Run.Argv[1:])
	return lang
}

var publicClass = regexp.MustCompile(`(?m)^\s*public\s+(?:final\s+|abstract\s+)*(?:class|record|enum|interface)\s+([A-Za-z_][A-Za-z0-9_]*)`)

// jobeSubmission makes sources of the program and of the files that are
// compiled with it.
func jobeSubmission(lang judge.Language, j jobe.Job) judge.Submission {
	name := j.Name
	if name == "" || !lang.Compiles(name) {
		name = lang.SourceFile
		if m := publicClass.FindSubmatch(j.Source); m != nil && lang.ID == "java" {
			name = string(m[1]) + ".java"
		}
	}
	s := judge.Submission{Name: "job", Language: lang.ID, Entry: name, Files: []judge.SourceFile{{Name: name, Data: j.Source}}}
	for _, f := range j.Files {
		if lang.Compiles(f.Name) && f.Name != name {
			s.Files = append(s.Files, judge.SourceFile{Name: f.Name, Data: f.Data})
		}
	}
	return s
}

// jobeProblem has one case, whose output nobody judges.
func jobeProblem(lang judge.Language, j jobe.Job, stdout io.Writer) judge.Problem {
	c := judge.Case{Name: "run", Input: judge.BytesBlob("input", j.Input), Answer: judge.BytesBlob("answer", nil), Args: j.RunArgs}
	for _, f := range j.Files {
		if !lang.Compiles(f.Name) {
			c.Files = append(c.Files, judge.CaseFile{Name: f.Name, Blob: judge.BytesBlob(f.Name, f.Data)})
		}
	}
	// Clients ask for any amount of memory, to say that they do not mind.
	const (
		maxSource = 4 << 20
		maxMemory = 1 << 30
	)
	memory := j.Memory
	if memory == 0 || memory > maxMemory {
		memory = maxMemory
	}
	return judge.Problem{
		ShortName: "job", Name: "job", Version: "job", Checker: keepsOutput{stdout}, Cases: []judge.Case{c},
		Limits: judge.ProblemLimits{
			CPU: j.CPU, Memory: memory, Output: j.Output, Processes: max(j.Processes, lang.Limits.Processes),
			Code: maxSource,
		},
	}
}

// keepsOutput accepts any output and keeps it.
type keepsOutput struct{ to io.Writer }

func (k keepsOutput) Describe() string { return "none" }

func (k keepsOutput) Check(_ context.Context, req judge.CheckRequest) (judge.Check, error) {
	_, err := io.Copy(k.to, req.Output)
	return judge.Check{Outcome: judge.CheckAccepted}, err
}

// firstBytes keeps the first bytes written to it.
type firstBytes struct {
	data []byte
	left int64
}

func (f *firstBytes) Write(p []byte) (int, error) {
	n := min(int64(len(p)), f.left)
	f.data, f.left = append(f.data, p[:n]...), f.left-n
	return len(p), nil
}

// jobeResult says how a run ended as Jobe does, where writing to standard error
// is what makes a failure.
func jobeResult(lang judge.Language, run judge.Run, stdout []byte) (jobe.Result, error) {
	switch {
	case run.Verdict == judge.CompileError && lang.ID == "javascript":
		// It has no compiler there: the program is run and fails.
		return jobe.Result{Outcome: jobe.RunTimeError, Stderr: []byte(run.Compile.Output)}, nil
	case run.Verdict == judge.CompileError:
		return jobe.Result{Outcome: jobe.CompileError, CompileInfo: joinLines(run.Reason, run.Compile.Output)}, nil
	case run.Verdict == judge.JudgeError || len(run.Cases) == 0:
		return jobe.Result{}, fault.Errorf(fault.Unavailable, "the run failed: %s", run.Reason)
	}
	c := run.Cases[0]
	res := jobe.Result{Outcome: jobe.Success, Stdout: stdout}
	if c.Staff != nil {
		res.Stderr = []byte(c.Staff.Stderr)
	}
	switch c.Exit.Cause {
	case guest.CPULimit, guest.WallLimit, guest.OutputLimit:
		// Jobe lets a flood go on to the limit of time.
		res.Outcome = jobe.TimeLimit
	case guest.MemoryLimit:
		res.Outcome = jobe.MemoryLimit
	case guest.Exited:
		if len(bytes.TrimSpace(res.Stderr)) > 0 {
			res.Outcome = jobe.RunTimeError
		}
	default:
		res.Outcome = jobe.RunTimeError
		if len(res.Stderr) == 0 {
			res.Stderr = []byte(c.Reason + "\n")
		}
	}
	if c.Verdict == judge.TimeLimitExceeded {
		res.Outcome = jobe.TimeLimit
	}
	return res, nil
}

func joinLines(a, b string) string { return strings.TrimSpace(a + "\n" + b) }
