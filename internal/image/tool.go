package image

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"assay/internal/fault"
)

// toolGrace is how long a tool gets to clean up after it was asked to end.
const toolGrace = 5 * time.Second

// tool is one program to run: mmdebstrap or mkfs.erofs.
type tool struct {
	argv  []string
	env   []string
	dir   string
	stdin io.Reader
	// stdout gets the output if not nil; else it goes where stderr goes.
	stdout io.Writer
	// log gets what the tool says.
	log io.Writer
}

// findTool gives a program's path, or a fault with the remedy.
func findTool(name, pkg string) (string, error) {
	if p, err := exec.LookPath(name); err == nil {
		return p, nil
	}
	return "", fault.Errorf(fault.Unsupported, "%s is not installed", name).WithHint("apt-get install %s", pkg)
}

// run runs the tool in a process group of its own and waits for it. When ctx
// ends the whole group is ended. When this process dies the tool dies too, and
// as root everything that the tool started: it is the first process of a PID
// namespace, which ends with it.
func (t tool) run(ctx context.Context) error {
	// Linux ties the death signal to the thread that started the child.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd := exec.CommandContext(ctx, t.argv[0], t.argv[1:]...)
	cmd.Env, cmd.Dir, cmd.Stdin = t.env, t.dir, t.stdin
	cmd.Stdout, cmd.Stderr = t.log, t.log
	if t.stdout != nil {
		cmd.Stdout = t.stdout
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if FullRoot() {
		cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWPID
	}
	cmd.Cancel = func() error { return unix.Kill(-cmd.Process.Pid, unix.SIGTERM) }
	cmd.WaitDelay = toolGrace
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", t.argv[0], err)
	}
	err := cmd.Wait()
	// What the tool started and left behind; ESRCH is the usual answer.
	_ = unix.Kill(-cmd.Process.Pid, unix.SIGKILL)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// buildLog keeps what the tools say: all of it in a file, the end in memory,
// and each line to a watcher.
type buildLog struct {
	file *os.File
	tail []string
	part []byte
	line func(string)
}

const (
	logTail    = 12   // lines shown in an error
	logLineMax = 1000 // bytes of one line kept
)

// Write never fails: a log that cannot be written must not end a build.
func (l *buildLog) Write(p []byte) (int, error) {
	if l.file != nil {
		_, _ = l.file.Write(p)
	}
	l.part = append(l.part, p...)
	for {
		line, rest, ok := bytes.Cut(l.part, []byte("\n"))
		if !ok {
			break
		}
		l.add(string(line))
		l.part = rest
	}
	if len(l.part) > logLineMax {
		l.add(string(l.part))
		l.part = nil
	}
	return len(p), nil
}

func (l *buildLog) add(line string) {
	line = strings.TrimRight(line[:min(len(line), logLineMax)], "\r ")
	if line == "" {
		return
	}
	if l.line != nil {
		l.line(line)
	}
	if l.tail = append(l.tail, line); len(l.tail) > logTail {
		l.tail = l.tail[1:]
	}
}

// end gives the last lines, indented, for an error.
func (l *buildLog) end() string {
	tail := l.tail
	if len(l.part) > 0 {
		tail = append(tail, string(l.part))
	}
	if len(tail) == 0 {
		return ""
	}
	return "\n  " + strings.Join(tail, "\n  ")
}

// name is the log's path, for hints.
func (l *buildLog) name() string {
	if l.file == nil {
		return "the build log"
	}
	return l.file.Name()
}

// FullRoot reports whether this process is root over all user IDs, and not only
// root of a user namespace that has few: then it may give files to others.
func FullRoot() bool {
	if os.Geteuid() != 0 {
		return false
	}
	b, err := os.ReadFile("/proc/self/uid_map")
	if err != nil {
		return true // no user namespaces here
	}
	f := bytes.Fields(b)
	return len(f) == 3 && string(f[2]) == "4294967295"
}
