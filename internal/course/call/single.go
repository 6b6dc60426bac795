package call

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"assay/internal/course"
	"assay/internal/fault"
	"assay/internal/guest"
	"assay/internal/judge"
	"assay/internal/sandbox"
)

// single is the runner for languages whose tests have a process of their own:
// guestd counts its time and memory, and says how it ended.
type single struct {
	x *session
	// build gives the sources that are compiled, all but the caller's with names
	// in the submission; nil where nothing is.
	build func(x *session) []string
	// caller are our files, entry the one that is run or compiled first.
	caller func(x *session) []course.File
	entry  string
}

// resultFile is where callers put the results of the steps.
const resultFile = outDir + "/result"

// Bounds of a compiler.
const (
	compileTime = 60 * time.Second
	// compileWall is a net only: a busy host must not look like bad sources.
	compileWall   = 10 * time.Minute
	compileMemory = 2 << 30
	compileOutput = 64 << 10
	compileDisk   = 512 << 20
)

func (s *single) tools() []course.File { return s.caller(s.x) }

func (s *single) close() {}

func (s *single) warmth() *judge.Warm { return nil }

func (s *single) places() judge.Places {
	at := judge.Places{Dir: srcDir, Build: buildDir, Program: buildDir, Entry: "../" + strings.TrimPrefix(toolDir, boxDir+"/") + "/" + s.entry, Memory: s.x.limits().Memory}
	if s.build != nil {
		at.Sources = append([]string{at.Entry}, s.build(s.x)...)
	}
	return at
}

// prepare compiles. A language without a compiler loads the module once, without
// a test.
func (s *single) prepare(ctx context.Context) (outcome, error) {
	if s.build == nil {
		o, err := s.exec(ctx, request{}, "")
		o.How = strings.TrimSpace(o.How + "\n" + string(o.Stderr.Data))
		return o, err
	}
	lang, shape := s.x.lang, s.x.machine.Describe().Shape
	said := &kept{max: compileOutput}
	l := sandbox.Limits{
		CPU: compileTime, Wall: compileWall, Memory: compileMemory, Output: compileOutput,
		Processes: lang.Compile.Processes, FileSize: compileDisk, Disk: compileDisk,
	}
	if shape.Memory > 0 {
		l.Memory = min(l.Memory, shape.Memory)
	}
	orDefault(&l.Processes, defaultProcesses)
	res, err := judge.Exec(ctx, s.x.machine, sandbox.ExecSpec{
		Argv: lang.Command(lang.Compile.Argv, s.places()), Dir: buildDir, User: "user",
		Env:      append(s.x.env(), lang.Command(lang.Compile.Env, s.places())...),
		Isolated: true, WritableDirs: []string{buildDir}, KeepOutput: true, Limits: l,
	}, nil, said, said)
	if err != nil {
		return outcome{}, fmt.Errorf("compile: %w", err)
	}
	if e := res.Exit; e.Cause == guest.Exited && e.Code == 0 {
		return outcome{}, nil
	} else if e.Cause == guest.MachineLost || e.Cause == guest.Killed {
		return outcome{}, fault.Errorf(fault.Unavailable, "compile: the exec ended with %s", e.Cause)
	} else if e.Code == 126 || e.Code == 127 {
		return outcome{}, fault.Errorf(fault.Unsupported, "compile: the compiler cannot be started (exit code %d)", e.Code).
			WithHint("use a template that has the language")
	}
	text := strings.ReplaceAll(strings.ToValidUTF8(string(said.output().Data), "\uFFFD"), srcDir+"/", "")
	if res.Exit.Cause != guest.Exited {
		text = "the compiler ended with " + string(res.Exit.Cause) + "\n" + text
	}
	return outcome{Cause: course.NotCompiled, How: strings.TrimSpace(text)}, nil
}

func (s *single) run(ctx context.Context, i int) (outcome, error) {
	t := s.x.assignment.Tests[i].Call
	return s.exec(ctx, newRequest(i+1, t), t.Stdin)
}

// exec runs the program with one request. The caller takes the request from the
// beginning of standard input and leaves the rest to the student's code.
func (s *single) exec(ctx context.Context, r request, stdin string) (outcome, error) {
	message, err := json.Marshal(r)
	if err != nil {
		return outcome{}, fault.Errorf(fault.Internal, "encode a request: %w", err)
	}
	lang := s.x.lang
	spec := s.x.spec(lang.Command(lang.Run.Argv, s.places()))
	spec.Env = append(spec.Env, lang.Command(lang.Run.Env, s.places())...)
	spec.Env = append(spec.Env, "ASSAY_MODULE="+srcDir+"/"+s.x.entry)
	spec.Outputs = []string{resultFile}
	out, errs := &kept{max: int(spec.Limits.Output)}, &kept{max: int(spec.Limits.Output)}
	res, err := judge.Exec(ctx, s.x.machine, spec, io.MultiReader(bytes.NewReader(frame(message)), strings.NewReader(stdin)), out, errs)
	if err != nil {
		return outcome{}, err
	}
	var o outcome
	if e := res.Exit; e.Cause == guest.Exited && e.Code == 0 && len(res.Files) == 1 && res.Files[0].Refused == "" {
		o = claimed(res.Files[0].Data)
	} else if o, err = s.x.ended(e, res.Usage, errs.output()); err != nil {
		return o, err
	} else if e.Cause == guest.Exited && e.Code == 0 && strings.Contains(res.Files[0].Refused, "may be brought out") {
		o = outcome{Cause: course.OutputLimit, How: fmt.Sprintf("the result has more than %d KiB", guest.MaxOutputs>>10)}
	}
	o.Stdout, o.Stderr, o.Usage = out.output(), errs.output(), res.Usage
	return o, nil
}
