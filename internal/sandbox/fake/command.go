package fake

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"assay/internal/fault"
	"assay/internal/guest"
)

// pipeSize is how much input waits for a program, and aheadSize how much
// output for a reader, before the other side waits. In bytes.
const (
	pipeSize  = 64 << 10
	aheadSize = 1 << 20
	tailSize  = 32 << 10
)

// stream is stdout or stderr of a command. All that is not dropped stays.
type stream struct {
	buf    []byte
	sent   int64 // a reader has taken bytes below this offset
	total  int64 // bytes the program wrote
	tail   []byte
	closed bool
}

// input is a command's stdin.
type input struct {
	buf   []byte // not yet read
	total int64  // bytes that have come
	ended bool
}

// command is one exec with its process tree. It is guarded by the machine's mu.
type command struct {
	m              *machine
	spec           guest.ExecSpec
	stdout, stderr *stream
	stdin          input
	feeder         int // the session whose input counts
	main           int // PID of the first process
	procs          map[int]*process
	files          map[string][]byte // an isolated command's own
	left           map[string]bool
	began          time.Time
	cause          guest.Cause // why it was ended, "" when it was not
	killed         bool
	cpu            time.Duration
	mem, peak      int64
	most           int // processes at one moment
	disk           int64
	exit           guest.Exit // of the main process
	ended          bool       // the main process has ended
	finished       bool
	result         guest.Result
	wall           *time.Timer
}

// clone copies a command; the copy belongs to no machine yet.
func (c *command) clone() *command {
	n := *c
	n.m, n.wall = nil, nil
	out, errs := *c.stdout, *c.stderr
	out.buf, errs.buf = bytes.Clone(out.buf), bytes.Clone(errs.buf)
	out.tail, errs.tail = bytes.Clone(out.tail), bytes.Clone(errs.tail)
	n.stdout, n.stderr = &out, &errs
	n.stdin.buf = bytes.Clone(c.stdin.buf)
	n.files, n.left = cloneFiles(c.files), cloneSet(c.left)
	n.procs = map[int]*process{}
	for pid, p := range c.procs {
		n.procs[pid] = p.clone(&n)
	}
	return &n
}

func cloneFiles(files map[string][]byte) map[string][]byte {
	c := maps.Clone(files)
	for name, b := range c {
		c[name] = bytes.Clone(b)
	}
	return c
}

func cloneSet(s map[string]bool) map[string]bool { return maps.Clone(s) }

// launch starts the command of a request. Caller holds mu.
func (m *machine) launch(att guest.Attach) (*command, error) {
	if att.Only {
		return nil, fault.Errorf(fault.NotFound, "no command with key %s", att.Spec.Key)
	}
	if err := att.Spec.Check(); err != nil {
		return nil, err
	}
	if att.Spec.Env == nil {
		att.Spec.Env = guest.DefaultEnv
	}
	c := &command{
		m: m, spec: att.Spec, stdout: &stream{}, stderr: &stream{}, procs: map[int]*process{},
		files: map[string][]byte{}, left: map[string]bool{}, began: time.Now(),
	}
	if f := att.Spec.StdinFile; f != "" {
		b, ok := m.files[f]
		if !ok {
			return nil, fault.Errorf(fault.NotFound, "open input file: no file %s", f)
		}
		c.stdin = input{buf: bytes.Clone(b), ended: true}
	}
	m.commands[att.Spec.Key] = c
	c.main = c.spawn(c.spec.Argv)
	c.limitWall()
	return c, nil
}

// resume lets a restored command go on. Caller holds mu.
func (c *command) resume(m *machine) {
	c.m = m
	if c.finished {
		return
	}
	for _, p := range c.procs {
		p.start()
	}
	c.limitWall()
}

func (c *command) limitWall() {
	if l := c.spec.Limits.Wall; l > 0 {
		c.wall = time.AfterFunc(l, func() {
			c.m.mu.Lock()
			defer c.m.mu.Unlock()
			if !c.ended {
				c.kill(guest.WallLimit)
			}
		})
	}
}

// kill ends the whole tree; the first cause stays. Caller holds mu.
func (c *command) kill(cause guest.Cause) {
	if c.cause == "" {
		c.cause = cause
	}
	c.killed = true
	c.m.changed.Broadcast()
}

// memory is what the tree holds now. Caller holds mu.
func (c *command) memory() int64 { return c.mem }

// spawn starts one more process; 0 when it is refused. Caller holds mu.
func (c *command) spawn(argv []string) int {
	if l := c.spec.Limits.Processes; l > 0 && len(c.procs) >= l || c.m.cfg.Shape.Processes > 0 && c.m.processes() >= c.m.cfg.Shape.Processes {
		c.kill(guest.ProcessLimit)
		return 0
	}
	c.m.lastPID++
	p := &process{c: c, pid: c.m.lastPID, argv: argv}
	p.prog = find(p)
	c.procs[p.pid] = p
	c.most = max(c.most, len(c.procs))
	p.start()
	return p.pid
}

// processes counts what is alive in the machine. Caller holds mu.
func (m *machine) processes() int {
	n := 0
	for _, c := range m.commands {
		n += len(c.procs)
	}
	return n
}

// leave is called by each process at its end. Caller holds mu.
func (c *command) leave(p *process, code int) {
	delete(c.procs, p.pid)
	c.mem -= p.mem
	if p.pid == c.main {
		c.ended = true
		c.exit = guest.Exit{Code: code, Cause: guest.Exited}
		if p.signal != 0 {
			c.exit = guest.Exit{Code: -1, Signal: p.signal, Cause: guest.Signaled}
			if p.signal == int(unix.SIGXFSZ) {
				c.exit.Cause = guest.DiskLimit
			}
		}
		if !c.spec.Leave {
			c.killed = true
		}
	}
	if c.ended && !c.finished && (len(c.procs) == 0 || c.spec.Leave) {
		c.finish()
	}
	c.m.changed.Broadcast()
}

// finish makes the result. Caller holds mu.
func (c *command) finish() {
	if c.wall != nil {
		c.wall.Stop()
	}
	for _, s := range []*stream{c.stdout, c.stderr} {
		s.buf = append(s.buf, s.tail...)
		s.tail, s.closed = nil, true
	}
	if c.cause != "" {
		c.exit.Cause, c.exit.Code = c.cause, -1
	}
	c.exit.StdoutDropped = c.stdout.total - int64(len(c.stdout.buf))
	c.exit.StderrDropped = c.stderr.total - int64(len(c.stderr.buf))
	c.exit.OutputTruncated = c.exit.StdoutDropped+c.exit.StderrDropped > 0
	c.result = guest.Result{Exit: c.exit, Usage: guest.Usage{
		CPUUser: c.cpu, Wall: time.Since(c.began), MemoryPeak: c.peak, ProcessesPeak: c.most,
		StdoutBytes: c.stdout.total, StderrBytes: c.stderr.total, DiskBytes: c.disk,
	}, Files: c.bringOut()}
	c.files = nil
	c.finished = true
}

// bringOut gives the declared files. Caller holds mu.
func (c *command) bringOut() []guest.OutputFile {
	var list []guest.OutputFile
	for _, name := range c.spec.Outputs {
		f := guest.OutputFile{Path: name}
		switch b, ok := c.find(c.abs(name)); {
		case ok && len(b) <= guest.MaxOutputs:
			sum := sha256.Sum256(b)
			f.Data, f.SHA256 = bytes.Clone(b), hex.EncodeToString(sum[:])
		case ok:
			f.Refused = "it is too large"
		case slices.Contains(dirs, name):
			f.Refused = "it is not a regular file"
		default:
			f.Refused = "no such file or directory"
		}
		list = append(list, f)
	}
	return list
}

// dirs are the directories there are.
var dirs = []string{"/", "/tmp", "/var/tmp", "/dev/shm", "/home/user", "/etc", "/run/assay"}

func (c *command) abs(name string) string {
	if path.IsAbs(name) {
		return path.Clean(name)
	}
	dir := c.spec.Dir
	if dir == "" {
		dir = "/home/user"
	}
	return path.Join(dir, name)
}

// place is where a file lies for this command: its own, or the machine's.
func (c *command) place(name string) (files map[string][]byte, own bool) {
	if c.spec.Isolated {
		for _, dir := range append([]string{"/tmp", "/var/tmp", "/dev/shm"}, c.spec.FreshDirs...) {
			if strings.HasPrefix(name, dir+"/") {
				return c.files, true
			}
		}
	}
	return c.m.files, false
}

func (c *command) find(name string) ([]byte, bool) {
	files, _ := c.place(name)
	b, ok := files[name]
	return b, ok
}
