package call

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"assay/internal/course"
	"assay/internal/fault"
	"assay/internal/guest"
	"assay/internal/judge"
	"assay/internal/sandbox"
)

// Where things lie in the machine. All of it is root's; a test can write to the
// folders that it gets empty, and nowhere else.
const (
	boxDir   = "/box"
	srcDir   = "/box/src"
	toolDir  = "/box/caller"
	buildDir = "/box/build"
	workDir  = "/box/work"
	outDir   = "/box/out"
)

// freshDirs are what each run finds empty.
var freshDirs = []string{workDir, outDir, "/home/user", "/run/lock"}

// What holds where the assignment gives no limit.
const (
	defaultTime      = 2 * time.Second
	defaultWall      = 10 * time.Second
	defaultMemory    = 256 << 20
	defaultOutput    = 1 << 20
	defaultProcesses = 64
	defaultDisk      = 64 << 20
	destroyTime      = 30 * time.Second
	stackSize        = 64 << 20
)

// limits are those of one test. In a run of many they are the process's, and the
// times are counted elsewhere.
func (x *session) limits() sandbox.Limits {
	a := x.assignment.Limits
	l := sandbox.Limits{
		CPU: a.Time, Wall: a.Wall, Memory: a.Memory, Output: a.Output, Processes: a.Processes, Disk: a.Disk,
	}
	orDefault(&l.CPU, defaultTime)
	// Wide: a program that computes is ended by its processor time, however busy
	// the host is.
	orDefault(&l.Wall, max(defaultWall, 5*l.CPU))
	orDefault(&l.Memory, defaultMemory)
	orDefault(&l.Output, defaultOutput)
	orDefault(&l.Processes, x.lang.Limits.Processes)
	orDefault(&l.Processes, defaultProcesses)
	orDefault(&l.Disk, defaultDisk)
	l.FileSize, l.Stack = l.Disk, stackSize
	l.Memory += x.lang.Limits.MemoryOverheadMiB << 20
	return l
}

func orDefault[T int | int64 | time.Duration](v *T, def T) {
	if *v == 0 {
		*v = def
	}
}

// start makes the machine and puts the files there.
func (x *session) start(ctx context.Context) error {
	x.phase("machine")
	template := x.assignment.Template
	if template == "" {
		template = x.lang.Template
	}
	warm := x.runner.warmth()
	m, err := x.grader.machines.Create(ctx, judge.MachineRequest{Template: template, Memory: x.limits().Memory + machineOverhead, Warm: warm})
	if err != nil {
		return fmt.Errorf("create a machine of template %s: %w", template, err)
	}
	x.machine = m
	x.report.Machines = append(x.report.Machines, m.Describe())
	var tools []course.File
	if warm == nil {
		tools = x.runner.tools()
	}
	if err := m.WriteTree(ctx, boxDir, bytes.NewReader(archive(x.files, tools))); err != nil {
		return fmt.Errorf("write the submission: %w", err)
	}
	return nil
}

// machineOverhead is memory that the machine needs beside a test's, in bytes.
const machineOverhead = 64 << 20

// archive is everything that the machine needs, in one piece: each call costs.
func archive(sources, tools []course.File) []byte {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	made := map[string]bool{}
	var dir func(name string, mode int64)
	dir = func(name string, mode int64) {
		if name == "." || made[name] {
			return
		}
		dir(path.Dir(name), 0o755)
		made[name] = true
		// Writing to memory does not fail.
		_ = w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: mode})
	}
	for _, d := range []string{srcDir, toolDir, workDir, outDir} {
		dir(path.Base(d), 0o755)
	}
	dir(path.Base(buildDir), 0o777)
	put := func(in string, f course.File) {
		name := path.Join(path.Base(in), f.Name)
		dir(path.Dir(name), 0o755)
		_ = w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o755, Size: int64(len(f.Data))})
		_, _ = w.Write(f.Data)
	}
	for _, f := range sources {
		put(srcDir, f)
	}
	for _, f := range tools {
		put(toolDir, f)
	}
	_ = w.Close()
	return b.Bytes()
}

func (x *session) close() {
	x.runner.close()
	if x.machine == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), destroyTime)
	defer cancel()
	// The engine ends what it could not end now when it can.
	_ = x.machine.Destroy(ctx)
}

// env is the whole environment of the student's program.
func (x *session) env() []string {
	seed := x.assignment.Seed
	return []string{
		"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/home/user", "TMPDIR=/tmp", "LANG=C.UTF-8",
		fmt.Sprintf("ASSAY_SEED=%d", seed), fmt.Sprintf("PYTHONHASHSEED=%d", uint32(seed)),
	}
}

// spec is how a command runs with the submission. Files that are no sources are
// to be found in the working directory, too.
func (x *session) spec(argv []string) sandbox.ExecSpec {
	if slices.ContainsFunc(x.files, func(f course.File) bool { return !x.dialect.source(f.Name) }) {
		argv = append([]string{"/bin/sh", "-c", "cp -rs " + srcDir + `/. . && exec "$@"`, "sh"}, argv...)
	}
	return sandbox.ExecSpec{
		Argv: argv, Dir: workDir, User: "user", Env: x.env(), Isolated: true, FreshDirs: freshDirs, Limits: x.limits(),
	}
}

// ended says how an exec's end is told of a test that it was in. An error is ours.
func (x *session) ended(e sandbox.Exit, u sandbox.Usage, stderr output) (outcome, error) {
	l := x.limits()
	switch e.Cause {
	case guest.CPULimit:
		return outcome{Cause: course.TimeLimit, How: "more than " + l.CPU.String() + " of processor time"}, nil
	case guest.WallLimit:
		return late(l.Wall), nil
	case guest.MemoryLimit:
		return outcome{Cause: course.MemoryLimit, How: fmt.Sprintf("more than %d MiB of memory", l.Memory>>20)}, nil
	case guest.OutputLimit:
		return flooded(l.Output), nil
	case guest.ProcessLimit:
		return outcome{Cause: course.ProcessLimit, How: fmt.Sprintf("more than %d processes and threads", l.Processes)}, nil
	case guest.DiskLimit:
		return outcome{Cause: course.DiskLimit, How: fmt.Sprintf("more than %d MiB written to files", l.Disk>>20)}, nil
	}
	if x.lang.OutOfMemory(e, string(stderr.Data)) {
		return outcome{Cause: course.MemoryLimit, How: "the runtime ran out of memory"}, nil
	}
	switch e.Cause {
	case guest.Exited:
		return exited(e.Code), nil
	case guest.Signaled:
		return signaled(e.Signal, u.MemoryPeak), nil
	}
	return outcome{}, fault.Errorf(fault.Unavailable, "the exec ended with %s", e.Cause)
}

// claimed is what a program that came to its end says of the steps, or why it
// could not load the module.
func claimed(results []byte) outcome {
	if bytes.HasPrefix(results, []byte("{")) {
		var g greeting
		if err := strictly(results, &g); err != nil || g.Failed == nil {
			return outcome{Cause: course.InvalidResult, How: "the results are of another form"}
		}
		return g.outcome()
	}
	list, err := parseResults(results)
	switch {
	case fault.Is(err, fault.Exhausted):
		return outcome{Cause: course.OutputLimit, How: err.Error()}
	case err != nil:
		return outcome{Cause: course.InvalidResult, How: err.Error()}
	}
	return outcome{Results: list}
}

// outcome says why the module was not loaded, for its author.
func (g greeting) outcome() outcome {
	how := g.Failed.String()
	if g.Syntax != "" {
		how += "\n" + clip(g.Syntax)
	}
	return outcome{Cause: course.NotImported, How: how}
}

func late(wall time.Duration) outcome {
	return outcome{Cause: course.TimeLimit, How: "not at its end after " + wall.String()}
}

func flooded(most int64) outcome {
	return outcome{Cause: course.OutputLimit, How: "more than " + strconv.FormatInt(most>>10, 10) + " KiB of output"}
}

func exited(code int) outcome {
	return outcome{Cause: course.EndedTest, How: "the program ended itself with exit code " + strconv.Itoa(code)}
}

// signaled says what a signal means. A program that dies of bad memory when it
// holds as much as a full stack has most likely filled its stack.
func signaled(signal int, memory int64) outcome {
	if signal == int(syscall.SIGSEGV) && memory > stackSize/4*3 {
		return outcome{Cause: course.MemoryLimit, How: fmt.Sprintf("the stack of %d MiB is full: a recursion without end?", int64(stackSize)>>20)}
	}
	how := "signal " + strconv.Itoa(signal)
	if name := signals[signal]; name != "" {
		how += ": " + name
	}
	return outcome{Cause: course.Crashed, How: how}
}

// signals that programs die of, by number.
var signals = map[int]string{
	4: "illegal instruction", 6: "aborted", 7: "bad address", 8: "division by zero or another arithmetic error", 9: "killed",
	11: "memory that is not the program's, or a recursion without end", 13: "broken pipe", 15: "terminated",
}

// pythonModule is the name by which a file is imported.
func pythonModule(file string) string {
	return strings.ReplaceAll(strings.TrimSuffix(file, ".py"), "/", ".")
}
