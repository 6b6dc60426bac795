package judge

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"strings"
	"time"

	"assay/internal/fault"
	"assay/internal/guest"
	"assay/internal/sandbox"
)

// Where things lie in the machine. Everything but buildDir belongs to root and
// is closed to the user the submission runs as; buildDir is the compiler's and
// is never read again by us: what the compiler made is brought out by guestd
// (regular files only), and put back into progDir as root.
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

// programFile is one file that the compiler made.
type programFile struct {
	name string
	data []byte
}

// furnish makes the directories and writes the sources and, after compiling,
// the program.
func (x *session) furnish(ctx context.Context) error {
	dirs := []struct {
		path string
		mode fs.FileMode
	}{{boxDir, 0o755}, {srcDir, 0o755}, {progDir, 0o755}, {workDir, 0o755}}
	if !x.compiled {
		dirs = append(dirs, struct {
			path string
			mode fs.FileMode
		}{buildDir, 0o777})
	}
	for _, d := range dirs {
		if err := x.machine.MakeDir(ctx, d.path, d.mode); err != nil {
			return fmt.Errorf("make %s: %w", d.path, err)
		}
	}
	for _, d := range privateDirs[1:] {
		if err := x.machine.MakeDir(ctx, d, 0o755); err != nil {
			return fmt.Errorf("make %s: %w", d, err)
		}
	}
	for _, f := range x.placed.files {
		if err := x.machine.WriteFile(ctx, srcDir+"/"+f.Name, bytes.NewReader(f.Data), 0o444); err != nil {
			return fmt.Errorf("write source %s: %w", f.Name, err)
		}
	}
	return x.placeProgram(ctx)
}

func (x *session) placeProgram(ctx context.Context) error {
	for _, f := range x.program {
		if err := x.machine.WriteFile(ctx, progDir+"/"+f.name, bytes.NewReader(f.data), 0o555); err != nil {
			return fmt.Errorf("write program %s: %w", f.name, err)
		}
	}
	return nil
}

// compileOnce compiles in the session's machine. A submission that does not
// compile sets the run's verdict; an error is ours.
func (x *session) compileOnce(ctx context.Context) error {
	out := &head{max: MaxCompilerOutput}
	spec := sandbox.ExecSpec{
		Argv: x.expand(x.lang.Compile.Argv), Dir: buildDir, User: "user",
		Env:      append([]string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + buildDir, "TMPDIR=/tmp", "LANG=C.UTF-8"}, x.expand(x.lang.Compile.Env)...),
		Isolated: true, KeepOutput: true, Limits: x.compile,
	}
	for _, name := range x.lang.Compile.Program {
		spec.Outputs = append(spec.Outputs, buildDir+"/"+name)
	}
	res, err := x.exec(ctx, spec, out, out)
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
	if !ok {
		x.run.Verdict, x.run.Reason = CompileError, reason
		return nil
	}
	if reason := x.keepProgram(res.Files); reason != "" {
		x.run.Verdict, x.run.Reason = CompileError, reason
		return nil
	}
	x.compiled = true
	// The build directory may hold anything, nobody needs it any more, and a
	// place that cases can write to would carry data from one to the next.
	if err := x.machine.Remove(ctx, buildDir); err != nil {
		return fmt.Errorf("remove the build directory: %w", err)
	}
	return x.placeProgram(ctx)
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

// keepProgram takes what the compiler made. The reason is empty when all is
// there.
func (x *session) keepProgram(files []guest.OutputFile) string {
	sum := sha256.New()
	var program []programFile
	for _, name := range x.lang.Compile.Program {
		i := 0
		for i < len(files) && files[i].Path != buildDir+"/"+name {
			i++
		}
		if i == len(files) {
			return "the compiler made no program"
		}
		if files[i].Refused != "" {
			return "the compiler made no usable program: " + files[i].Refused
		}
		fmt.Fprintf(sum, "%q %d\n", name, len(files[i].Data))
		sum.Write(files[i].Data)
		program = append(program, programFile{name: name, data: files[i].Data})
	}
	if len(program) > 0 {
		x.program = program
		x.run.Submission.ProgramDigest = "sha256:" + hex.EncodeToString(sum.Sum(nil))
	}
	return ""
}

// expand replaces the words of Language in an argument list.
func (x *session) expand(args []string) []string {
	program, out := "", ""
	if len(x.lang.Compile.Program) > 0 {
		program, out = progDir+"/"+x.lang.Compile.Program[0], buildDir+"/"+x.lang.Compile.Program[0]
	}
	words := strings.NewReplacer(
		"{program}", program, "{out}", out, "{entry}", srcDir+"/"+x.placed.entry, "{class}", baseName(x.placed.entry),
		"{memory_mib}", strconv.FormatInt(max(1, (x.limits.Memory>>20)-x.lang.Limits.MemoryOverheadMiB), 10))
	var list []string
	for _, a := range args {
		if a == "{sources}" {
			for _, s := range x.placed.sources {
				list = append(list, srcDir+"/"+s)
			}
			continue
		}
		list = append(list, words.Replace(a))
	}
	return list
}

// callSlack is how much longer than its wall limit a call may take before the
// host stops waiting. guestd and the machine have deadlines of their own below.
const callSlack = 60 * time.Second

// exec runs a command and makes one outcome of what guest and host say: a
// machine that ended at the host's wall for its memory is a memory limit, any
// other lost machine is an error of ours.
func (x *session) exec(ctx context.Context, spec sandbox.ExecSpec, stdout, stderr io.Writer) (sandbox.Result, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, spec.Limits.Wall+callSlack,
		fault.Errorf(fault.Unavailable, "the machine did not answer in time"))
	defer cancel()
	res, err := x.machine.Exec(ctx, spec, nil, stdout, stderr)
	lost := err != nil || res.Exit.Cause == guest.MachineLost
	if !lost {
		return res, nil
	}
	if cause, ended := x.machine.Ended(); ended && cause == guest.MemoryLimit {
		res.Exit.Cause, res.Exit.Code = guest.MemoryLimit, -1
		return res, nil
	}
	if err == nil {
		err = fault.Errorf(fault.Unavailable, "the machine was lost")
	}
	return res, err
}
