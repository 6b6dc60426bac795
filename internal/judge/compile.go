package judge

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"time"

	"assay/internal/fault"
	"assay/internal/guest"
	"assay/internal/sandbox"
)

// Where things lie in the machine. Everything but buildDir belongs to root and
// is closed to the user the submission runs as. buildDir is the compiler's: what
// lies there may be anything, so only regular files of the expected names are
// copied out of it into progDir, and then it is removed.
const (
	boxDir   = "/box"
	srcDir   = "/box/src"
	buildDir = "/box/build"
	progDir  = "/box/prog"
	workDir  = "/box/work"
	inFile   = "/box/in"
)

// privateDirs are what a case finds empty and leaves nothing in: its working
// directory, and the places of a Debian root that any user may write to and
// that no isolated exec empties by itself.
var privateDirs = []string{workDir, "/home/user", "/run/lock"}

// furnish makes the directories and writes the sources.
func (x *session) furnish(ctx context.Context) error {
	for _, d := range []struct {
		path string
		mode fs.FileMode
	}{{boxDir, 0o755}, {srcDir, 0o755}, {buildDir, 0o777}, {progDir, 0o755}} {
		if err := x.machine.MakeDir(ctx, d.path, d.mode); err != nil {
			return fmt.Errorf("make %s: %w", d.path, err)
		}
	}
	for _, d := range privateDirs {
		if err := x.machine.MakeDir(ctx, d, 0o755); err != nil {
			return fmt.Errorf("make %s: %w", d, err)
		}
	}
	return writeSources(ctx, x.machine, srcDir, x.placed.files)
}

// ensureProgram gives the session a machine that has the program in it. After
// a machine was lost this compiles again.
func (x *session) ensureProgram(ctx context.Context) error {
	if err := x.ensureMachine(ctx); err != nil || x.ready {
		return err
	}
	before := x.run.Compile
	if err := x.compileOnce(ctx); err != nil {
		return err
	}
	if !x.ready {
		reason := x.run.Reason
		x.run.Verdict, x.run.Reason, x.run.Compile = "", "", before
		return fault.Errorf(fault.Unavailable, "the sources compiled before and do not now: %s", reason)
	}
	return nil
}

// compileOnce compiles in the session's machine. A submission that does not
// compile sets the run's verdict; an error is ours.
func (x *session) compileOnce(ctx context.Context) error {
	out := &head{max: MaxCompilerOutput}
	spec := sandbox.ExecSpec{
		Argv: x.expand(x.lang.Compile.Argv), Dir: buildDir, User: "user",
		Env:      append(baseEnv(buildDir), x.expand(x.lang.Compile.Env)...),
		Isolated: true, WritableDirs: []string{buildDir}, KeepOutput: true, Limits: x.compile,
	}
	res, err := execIn(ctx, x.machine, spec, out, out)
	if err != nil {
		return fmt.Errorf("compile: %w", err)
	}
	c := &x.run.Compile
	*c = CompileResult{Exit: res.Exit, Usage: res.Usage}
	c.Output, c.OutputTruncated = out.text()
	c.OutputTruncated = c.OutputTruncated || res.Exit.OutputTruncated

	ok, reason, err := decideCompile(res.Exit, x.compile)
	if err != nil {
		return err
	}
	if ok {
		reason, err = x.keepProgram(ctx)
	}
	if err != nil {
		return err
	}
	if reason != "" {
		x.run.Verdict, x.run.Reason = CompileError, reason
		return nil
	}
	// Nobody needs the build directory any more, and a place that cases can
	// write to would carry data from one to the next.
	if err := x.machine.Remove(ctx, buildDir); err != nil {
		return fmt.Errorf("remove the build directory: %w", err)
	}
	x.ready = true
	return nil
}

// keepScript copies the named files out of the build directory as root. The
// compiler's processes are all gone, so what is tested is what is copied. Links
// and other odd things end it with exit code keepRefused. One program is started
// for all files: in a machine that is what takes the time.
const (
	keepScript = `cd ` + buildDir + ` || exit 1
for f; do
  if [ -L "$f" ] || [ ! -f "$f" ]; then exit 3; fi
done
exec install -m 0555 -- "$@" ` + progDir + `/`
	keepRefused = 3
)

// keepProgram makes what the compiler left root's and read-only. The reason is
// why there is no program to run, or empty.
func (x *session) keepProgram(ctx context.Context) (reason string, err error) {
	if len(x.lang.Compile.Program) == 0 {
		return "", nil
	}
	said := &head{max: stderrKept}
	res, err := execIn(ctx, x.machine, sandbox.ExecSpec{
		Argv: append([]string{"/bin/sh", "-c", keepScript, "keep"}, x.lang.Compile.Program...), Dir: "/", User: "root",
		Env: []string{"PATH=/usr/bin:/bin"}, KeepOutput: true,
		Limits: sandbox.Limits{CPU: keepTime, Wall: DefaultWall(keepTime), Output: compileOutput},
	}, said, said)
	if err != nil {
		return "", fmt.Errorf("keep the program: %w", err)
	}
	switch {
	case res.Exit.Cause == guest.Exited && res.Exit.Code == 0:
		return "", nil
	case res.Exit.Cause == guest.Exited && res.Exit.Code == keepRefused:
		return "the compiler made no program", nil
	}
	text, _ := said.text()
	return "", fault.Errorf(fault.Unavailable, "keep the program: %s with exit code %d: %s", res.Exit.Cause, res.Exit.Code, text)
}

// decideCompile says whether the compiler accepted the sources, and if not,
// why. An error is ours. It is a pure function.
func decideCompile(exit sandbox.Exit, limits sandbox.Limits) (ok bool, reason string, err error) {
	switch exit.Cause {
	case guest.Exited:
	case guest.CPULimit:
		return false, "compiler time limit of " + secondsText(limits.CPU) + " reached", nil
	case guest.WallLimit:
		return false, "compiler wall time limit of " + secondsText(limits.Wall) + " reached", nil
	case guest.MemoryLimit:
		return false, "compiler memory limit of " + sizeText(limits.Memory) + " reached", nil
	case guest.OutputLimit:
		return false, "compiler output limit of " + sizeText(limits.Output) + " reached", nil
	case guest.ProcessLimit:
		return false, "compiler process limit of " + strconv.Itoa(limits.Processes) + " reached", nil
	case guest.DiskLimit:
		return false, "compiler file size or disk limit reached", nil
	case guest.Signaled:
		return false, "compiler ended by " + signalText(exit.Signal), nil
	default:
		return false, "", fault.Errorf(fault.Unavailable, "compile: the exec ended with %s", exit.Cause)
	}
	switch exit.Code {
	case 0:
		return true, "", nil
	case 126, 127:
		// No compiler ends with these: a shell does, when it cannot find one. A
		// template without its compiler must not cost a contestant anything.
		return false, "", fault.Errorf(fault.Unsupported, "compile: the compiler cannot be started (exit code %d)", exit.Code).
			WithHint("build the template again, or use one that has the language")
	}
	return false, "compiler exit code " + strconv.Itoa(exit.Code), nil
}

// layout is where the files of a program lie in a machine.
type layout struct{ src, build, prog string }

var submissionLayout = layout{src: srcDir, build: buildDir, prog: progDir}

// expand replaces the words of Language in an argument list; memory is in bytes.
func (l layout) expand(lang Language, placed arranged, memory int64, args []string) []string {
	return lang.Command(args, Places{Dir: l.src, Build: l.build, Program: l.prog, Entry: placed.entry, Sources: placed.sources, Memory: memory})
}

func (x *session) expand(args []string) []string {
	return submissionLayout.expand(x.lang, x.placed, x.limits.Memory, args)
}

// baseEnv is the whole environment of a program, but for what its language adds.
func baseEnv(home string) []string {
	return []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + home, "TMPDIR=/tmp", "LANG=C.UTF-8"}
}

// callSlack is how much longer than its wall limit a call may take before the
// host stops waiting. guestd and the machine have deadlines of their own below.
const callSlack = 60 * time.Second

// execIn runs a command without streamed input: see Exec.
func execIn(ctx context.Context, m Machine, spec sandbox.ExecSpec, stdout, stderr io.Writer) (sandbox.Result, error) {
	return Exec(ctx, m, spec, nil, stdout, stderr)
}

// Exec runs a command and makes one outcome of what guest and host say: a
// machine that ended at the host's wall for its memory is a memory limit, any
// other lost machine is an error of ours.
func Exec(ctx context.Context, m Machine, spec sandbox.ExecSpec, stdin io.Reader, stdout, stderr io.Writer) (sandbox.Result, error) {
	if spec.Limits.Wall > 0 {
		limited, cancel := context.WithTimeoutCause(ctx, spec.Limits.Wall+callSlack,
			fault.Errorf(fault.Unavailable, "the machine did not answer in time"))
		defer cancel()
		ctx = limited
	}
	res, err := m.Exec(ctx, spec, stdin, stdout, stderr)
	lost := err != nil || res.Exit.Cause == guest.MachineLost
	if !lost {
		return res, nil
	}
	if cause, ended := m.Ended(); ended && cause == guest.MemoryLimit {
		res.Exit.Cause, res.Exit.Code = guest.MemoryLimit, -1
		return res, nil
	}
	if err == nil {
		err = fault.Errorf(fault.Unavailable, "the machine was lost")
	}
	return res, err
}
