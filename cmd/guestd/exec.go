package main

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"assay/internal/fault"
	"assay/internal/guest"
)

// command is one exec, from start until its result has been fetched.
type command struct {
	spec           guest.ExecSpec
	stdout, stderr *stream
	stdin          *os.File // our end of the stdin pipe, nil with StdinFile
	pid            int
	group          *cgroup
	started        time.Time
	diskBefore     int64
	freshRoot      string   // where an isolated command's own filesystems are seen
	freshDirs      []string // and what they are
	forkRSS        int64    // what guestd itself held at the fork, in bytes
	machineMemory  int64    // what the machine has, in bytes
	exact          bool     // the kernel keeps the limit of memory and counts the peak

	mu    sync.Mutex
	cause guest.Cause // set by whoever ended it first
	disk  int64
	peak  int64
	// gap is the longest time between two looks of the watch, looked when the
	// last one was.
	gap    time.Duration
	looked time.Time
	// cpuAt and restAt are when the watch looks at the processor time, and at
	// what changes slowly, again.
	cpuAt, restAt time.Time
	// held is the memory at the last look, processes the most at any look, where
	// the kernel does not count them.
	held      int64
	processes int

	feeding sync.Mutex // guards fed and the writing of stdin
	fed     int64      // bytes of stdin the pipe has taken

	ran    chan struct{} // closed when the program has ended
	done   chan struct{} // closed when result or fault is set
	result guest.Result
	fault  error
}

// drainWait is how long a command that leaves processes behind may still
// deliver output after it ended.
const drainWait = 50 * time.Millisecond

// end kills the command's tree; the first cause stays.
func (c *command) end(cause guest.Cause) {
	c.mu.Lock()
	if c.cause == "" {
		c.cause = cause
	}
	c.mu.Unlock()
	c.group.kill()
}

// start starts a command. An error means that it did not start; a program that
// does not exist is an outcome of the command, not an error.
func (d *daemon) start(spec guest.ExecSpec, noInput bool) (*command, error) {
	if err := spec.Check(); err != nil {
		return nil, err
	}
	c := &command{spec: spec, machineMemory: d.memory, exact: d.limits.kernel, ran: make(chan struct{}), done: make(chan struct{})}
	c.stdout = newStream(spec.Limits.Output, spec.KeepOutput, func() { c.end(guest.OutputLimit) })
	c.stderr = newStream(spec.Limits.Output, spec.KeepOutput, func() { c.end(guest.OutputLimit) })
	var f files
	defer f.closeAll()
	stdin, outR, outW, err := d.openStdio(c, &f, noInput)
	if err != nil {
		return nil, err
	}
	errR, errW, err := f.pipe(out)
	if err != nil {
		return nil, err
	}
	if c.group, err = d.groups.take(d.processLimit(spec.Limits.Processes), d.memoryLimit(spec.Limits.Memory)); err != nil {
		return nil, err
	}
	c.diskBefore = diskUsed("", nil)
	c.forkRSS = d.ownRSS()
	plan, err := d.plan(spec)
	if err != nil {
		_ = c.group.remove()
		return nil, err
	}
	p, err := d.launch(plan, c.group, [3]int{stdin, outW, errW})
	if err != nil {
		_ = c.group.remove()
		return nil, err
	}
	c.pid, c.started = p.pid, p.started
	if spec.Isolated {
		c.freshRoot, c.freshDirs = p.root(), freshDirs(spec)
	}
	// What the child has now, this process must not hold: the pipes' ends are
	// how the end of its output is seen.
	f.keep(outR, errR, c.stdin)
	f.closeAll()
	go d.follow(c, p, outR, errR)
	return c, nil
}

// openStdio gives the program's stdin and stdout, and our end of stdout, which
// is nil when both are a wire's.
func (d *daemon) openStdio(c *command, f *files, noInput bool) (stdin int, outR *os.File, outW int, err error) {
	if c.spec.Wire != "" {
		w, err := d.wires.take(c.spec.Wire)
		if err != nil {
			return 0, nil, 0, err
		}
		f.add(w.stdin, w.stdout)
		return int(w.stdin.Fd()), nil, int(w.stdout.Fd()), nil
	}
	if noInput && c.spec.StdinFile == "" {
		stdin = d.null
	} else if stdin, err = c.openStdin(f); err != nil {
		return 0, nil, 0, err
	}
	outR, outW, err = f.pipe(out)
	return stdin, outR, outW, err
}

// openStdin gives the file that becomes the program's stdin.
func (c *command) openStdin(f *files) (theirs int, err error) {
	if c.spec.StdinFile == "" {
		c.stdin, theirs, err = f.pipe(in)
		return theirs, err
	}
	file, err := os.OpenFile(c.spec.StdinFile, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return 0, fault.Errorf(fault.NotFound, "open input file: %w", err)
	}
	f.add(file)
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return 0, fault.Errorf(fault.Invalid, "input %s is not a regular file", c.spec.StdinFile)
	}
	return int(file.Fd()), nil
}

// follow watches a running command to its end and files the result.
func (d *daemon) follow(c *command, p *process, outR, errR *os.File) {
	var readers sync.WaitGroup
	if outR != nil {
		readers.Go(func() { pump(outR, c.stdout) })
	}
	readers.Go(func() { pump(errR, c.stderr) })
	watched := make(chan struct{})
	stop := make(chan struct{})
	go func() {
		defer close(watched)
		c.watch(stop)
	}()

	end, err := p.wait(c)
	c.sawMemoryLimit()
	wall := time.Since(c.started)
	close(c.ran)
	close(stop)
	<-watched
	c.lookAtDisk()
	if (!p.isolated && !c.spec.Leave || c.ended()) && !c.group.empty() {
		c.group.kill()
	}
	if c.stdin != nil {
		_ = c.stdin.Close()
	}
	out := bringOut(p.root(), c.spec)
	p.release()
	if c.spec.Wire != "" {
		// The host takes the result for the moment from which nobody here holds
		// the wire any more.
		c.awaitEmpty()
	}

	if c.spec.Leave {
		drained := make(chan struct{})
		go func() {
			readers.Wait()
			close(drained)
		}()
		select {
		case <-drained:
		case <-time.After(drainWait):
		}
	} else {
		readers.Wait()
	}
	c.fault = err
	if p.failure != nil && err == nil {
		c.notStarted(p.failure)
	}
	c.stdout.end()
	c.stderr.end()
	c.finish(end, p.failure, wall, out)
	close(c.done)
	d.retire(c)
}

// pump reads a pipe to its end into a stream.
func pump(r *os.File, s *stream) {
	defer r.Close()
	buf := make([]byte, 64<<10)
	for {
		n, err := r.Read(buf)
		if n > 0 {
			s.append(buf[:n])
		}
		if err != nil {
			return
		}
	}
}

// ended reports whether somebody ended the command.
func (c *command) ended() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cause != ""
}

// notStarted makes an outcome of a child that could not start its program, as
// a shell would: 127 not found, 126 not executable.
func (c *command) notStarted(f *childFailure) {
	if f.step != stepExec && f.step != stepDir {
		c.fault = fault.Errorf(fault.Internal, "%s for %s: %w", stepNames[f.step], c.spec.Argv[0], f.errno)
		return
	}
	c.stderr.say(fmt.Sprintf("assay: %s %s: %s\n", stepNames[f.step], c.spec.Argv[0], f.errno))
}

// finish fills in the result.
func (c *command) finish(end childEnd, failure *childFailure, wall time.Duration, out []guest.OutputFile) {
	user, system := c.group.cpu()
	status := syscall.WaitStatus(end.Status)
	ex := &c.result.Exit
	ex.Code = -1
	switch {
	case failure != nil:
		status = 0
		ex.Cause, ex.Code = guest.Exited, 126
		if errors.Is(failure.errno, syscall.ENOENT) {
			ex.Code = 127
		}
	case status.Signaled():
		ex.Cause, ex.Signal = guest.Signaled, int(status.Signal())
		if status.Signal() == unix.SIGXFSZ {
			ex.Cause = guest.DiskLimit
		}
	default:
		ex.Cause, ex.Code = guest.Exited, status.ExitStatus()
	}
	l := c.spec.Limits
	c.mu.Lock()
	switch {
	case c.cause != "":
		ex.Cause = c.cause
	case l.CPU > 0 && user+system > l.CPU:
		ex.Cause = guest.CPULimit
	case c.group.refused() > 0:
		ex.Cause = guest.ProcessLimit
	}
	c.mu.Unlock()
	if ex.Cause != guest.Exited {
		ex.Code = -1
	}
	ex.StdoutDropped, ex.StderrDropped = c.stdout.dropped(), c.stderr.dropped()
	ex.OutputTruncated = ex.StdoutDropped+ex.StderrDropped > 0
	c.result.Usage = guest.Usage{
		CPUUser: user, CPUSystem: system, Wall: wall,
		MemoryPeak:    c.memoryPeak(end.Usage.Maxrss << 10),
		ProcessesPeak: max(c.group.processesPeak(), c.processes),
		StdoutBytes:   c.stdout.total, StderrBytes: c.stderr.total,
		DiskBytes: max(c.disk, 0),
	}
	c.result.Files = out
}

// peakMargin is what the kernel's count of a process may be above what the
// process touched, in bytes: it counts memory in the pieces it is mapped in.
const peakMargin = 16 << 20

// memoryPeak joins the two counts there are. The watch's is exact but looks only
// every few milliseconds; the kernel's per-process maximum misses nothing but
// counts too much (files that are mapped, whole pieces of which one page was
// touched), one process only, and begins at what guestd held when it forked. So
// it is believed where it is so far above that the watch must have missed a
// peak, and no further than memory can have been filled between two looks.
func (c *command) memoryPeak(maxRSS int64) int64 {
	if c.exact {
		return c.group.memoryPeak()
	}
	if maxRSS > c.forkRSS+c.forkRSS/8 && maxRSS > c.peak+c.peak/4+peakMargin {
		return min(maxRSS, c.peak+int64(c.gap.Seconds()*fillRate))
	}
	return c.peak
}

// retire gives back what the command held, when nothing of it runs any more.
func (d *daemon) retire(c *command) {
	c.awaitEmpty()
	if err := errors.Join(c.group.remove(), d.groups.prepare()); err != nil {
		d.log.Warn("renew cgroup", "err", err)
	}
}

// awaitEmpty waits until no process of the command is left.
func (c *command) awaitEmpty() {
	if c.group.empty() {
		return
	}
	for range time.Tick(20 * time.Millisecond) {
		if c.group.empty() {
			return
		}
	}
}

// files closes what was opened, except what is kept.
type files struct {
	open []*os.File
	raw  []int // ends of pipes that only a child uses
}

func (f *files) add(files ...*os.File) { f.open = append(f.open, files...) }

// direction is that of a pipe, seen by the child.
type direction int

const (
	in  direction = iota // the child reads
	out                  // the child writes
)

// pipe makes a pipe to a child, and gives our end, which does not block, and the
// child's, which does.
func (f *files) pipe(d direction) (ours *os.File, theirs int, err error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return nil, 0, fault.Errorf(fault.Exhausted, "make pipe: %w", err)
	}
	mine := fds[0]
	theirs = fds[1]
	if d == in {
		mine, theirs = theirs, mine
	}
	f.raw = append(f.raw, theirs)
	_, err = unix.FcntlInt(uintptr(mine), unix.F_SETFL, unix.O_NONBLOCK)
	ours = os.NewFile(uintptr(mine), "pipe")
	f.add(ours)
	return ours, theirs, err
}

// socketPair gives two connected sockets; the first does not block.
func (f *files) socketPair() (ours, theirs *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err == nil {
		err = unix.SetNonblock(fds[0], true)
	}
	if err != nil {
		return nil, nil, fault.Errorf(fault.Exhausted, "make socket pair: %w", err)
	}
	ours, theirs = os.NewFile(uintptr(fds[0]), "ends"), os.NewFile(uintptr(fds[1]), "ends")
	f.add(ours, theirs)
	return ours, theirs, nil
}

// keep takes files out of what closeAll closes.
func (f *files) keep(keep ...*os.File) {
	rest := f.open[:0]
	for _, o := range f.open {
		kept := false
		for _, k := range keep {
			kept = kept || o == k
		}
		if !kept {
			rest = append(rest, o)
		}
	}
	f.open = rest
}

func (f *files) closeAll() {
	for _, o := range f.open {
		_ = o.Close()
	}
	for _, fd := range f.raw {
		_ = unix.Close(fd)
	}
	f.open, f.raw = nil, nil
}
