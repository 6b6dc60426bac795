package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"assay/internal/fault"
	"assay/internal/guest"
)

// The user that commands run as unless they say "root".
const (
	userID   = 1000
	userHome = "/home/user"
)

// addressSpace is what a command with a memory limit may reserve: enough for
// runtimes that reserve and do not touch, and small enough that an absurd
// allocation fails in the program instead of being killed later.
const addressSpace = 64 << 30

// reachingCaps are the capabilities a root command does not keep: with them it
// could reach guestd, other commands, or kernel surface no program needs.
var reachingCaps = []uintptr{
	unix.CAP_SYS_ADMIN, unix.CAP_SYS_PTRACE, unix.CAP_SYS_MODULE, unix.CAP_SYS_RAWIO, unix.CAP_SYS_BOOT,
	unix.CAP_SYS_TIME, unix.CAP_SYS_RESOURCE, unix.CAP_NET_ADMIN, unix.CAP_NET_RAW, unix.CAP_MKNOD,
	unix.CAP_KILL, unix.CAP_AUDIT_WRITE, unix.CAP_MAC_ADMIN, unix.CAP_SYSLOG, unix.CAP_BPF, unix.CAP_PERFMON,
}

// rootCaps are the capabilities of a root command: guestd's own without those
// that reach others, and none to be inherited.
func rootCaps() ([2]unix.CapUserData, error) {
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var caps [2]unix.CapUserData
	if err := unix.Capget(&head, &caps[0]); err != nil {
		return caps, fmt.Errorf("read capabilities: %w", err)
	}
	for i := range caps {
		caps[i].Inheritable = 0
	}
	for _, c := range reachingCaps {
		caps[c/32].Effective &^= 1 << (c % 32)
		caps[c/32].Permitted &^= 1 << (c % 32)
	}
	return caps, nil
}

// plan makes the child's plan, descriptors excepted.
func (d *daemon) plan(spec guest.ExecSpec) (*childPlan, error) {
	env := spec.Env
	if env == nil {
		env = guest.DefaultEnv
	}
	dir := spec.Dir
	if dir == "" {
		dir = userHome
	}
	p := &childPlan{uid: userID, gid: userID, isolated: spec.Isolated}
	var err error
	if spec.User == "root" {
		p.uid, p.gid, p.dropCaps = 0, 0, reachingCaps
		if p.caps, err = rootCaps(); err != nil {
			return nil, err
		}
	}
	if p.path, err = syscall.BytePtrFromString(lookPath(spec.Argv[0], dir, env)); err != nil {
		return nil, fault.Errorf(fault.Invalid, "command name holds a NUL byte")
	}
	if p.argv, err = syscall.SlicePtrFromStrings(spec.Argv); err != nil {
		return nil, fault.Errorf(fault.Invalid, "argument holds a NUL byte")
	}
	if p.envv, err = syscall.SlicePtrFromStrings(env); err != nil {
		return nil, fault.Errorf(fault.Invalid, "environment holds a NUL byte")
	}
	if p.dir, err = syscall.BytePtrFromString(dir); err != nil {
		return nil, fault.Errorf(fault.Invalid, "directory holds a NUL byte")
	}
	p.rlimits = rlimits(spec.Limits, d.memory)
	if spec.Isolated {
		p.nsinit = d.nsinit.Fd()
		p.nsinitPath, _ = syscall.BytePtrFromString("")
		name, _ := syscall.BytePtrFromString("nsinit")
		p.nsinitArgv = []*byte{name, nil}
		if p.mounts, err = d.freshMounts(spec); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// lookPath finds a program as execvp would; what is not found is given back
// as it is, and execve then says why.
func lookPath(name, dir string, env []string) string {
	if strings.Contains(name, "/") {
		return name
	}
	for _, kv := range env {
		list, ok := strings.CutPrefix(kv, "PATH=")
		if !ok {
			continue
		}
		for _, d := range strings.Split(list, ":") {
			if !path.IsAbs(d) {
				d = path.Join(dir, d)
			}
			p := path.Join(d, name)
			if info, err := os.Stat(p); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
				return p
			}
		}
	}
	return name
}

func rlimits(l guest.Limits, memory int64) []rlimit {
	set := []rlimit{
		{unix.RLIMIT_CORE, unix.Rlimit{}},
		{unix.RLIMIT_NOFILE, unix.Rlimit{Cur: 1024, Max: 4096}},
		{unix.RLIMIT_MEMLOCK, unix.Rlimit{Cur: 8 << 20, Max: 8 << 20}},
	}
	both := func(res uintptr, n uint64) { set = append(set, rlimit{res, unix.Rlimit{Cur: n, Max: n}}) }
	if l.OpenFiles > 0 {
		both(unix.RLIMIT_NOFILE, uint64(l.OpenFiles))
	}
	if l.CPU > 0 {
		// Whole seconds, and well behind the watch: the kernel counts this limit in
		// timer ticks, which for a program of many short turns are more than the
		// exact count (6 % were seen), and it kills without saying why.
		both(unix.RLIMIT_CPU, uint64((l.CPU+l.CPU/4+2*time.Second-1)/time.Second))
	}
	if l.FileSize > 0 {
		both(unix.RLIMIT_FSIZE, uint64(l.FileSize))
	}
	// As much stack as memory, so that deep recursion meets the memory limit
	// first. gVisor maps the stack at the start and caps it at 128 MiB; with no
	// limit at all it would give 8 MiB.
	stack := uint64(memory)
	if l.Memory > 0 {
		stack = uint64(l.Memory)
		both(unix.RLIMIT_AS, addressSpace)
	}
	if l.Stack > 0 {
		stack = uint64(l.Stack)
	}
	both(unix.RLIMIT_STACK, stack)
	return set
}

// freshMargin is how far beyond its disk limit an isolated command can fill one
// of its own filesystems, in bytes.
const freshMargin = 1 << 20

// freshDirs are the places an isolated command has for itself.
func freshDirs(spec guest.ExecSpec) []string {
	return append([]string{"/tmp", "/var/tmp", "/dev/shm"}, spec.FreshDirs...)
}

// freshMounts are the filesystems of an isolated command.
func (d *daemon) freshMounts(spec guest.ExecSpec) ([]mountPoint, error) {
	size := d.disk
	if spec.Limits.Disk > 0 {
		// A little more than the limit: the watch must see that it was crossed.
		size = min(size, spec.Limits.Disk+freshMargin)
	}
	// Nothing mounted from here on reaches the namespace outside.
	slash, _ := syscall.BytePtrFromString("/")
	list := []mountPoint{{target: slash, flags: unix.MS_REC | unix.MS_PRIVATE}}
	add := func(target, fstype, options string) error {
		t, err := syscall.BytePtrFromString(path.Clean(target))
		if err != nil || !path.IsAbs(target) {
			return fault.Errorf(fault.Invalid, "fresh directory %q is not an absolute path", target)
		}
		name, _ := syscall.BytePtrFromString(fstype)
		opts, _ := syscall.BytePtrFromString(options)
		list = append(list, mountPoint{name, t, name, opts, unix.MS_NOSUID | unix.MS_NODEV})
		return nil
	}
	for _, dir := range spec.WritableDirs {
		d, err := syscall.BytePtrFromString(path.Clean(dir))
		if err != nil || !path.IsAbs(dir) {
			return nil, fault.Errorf(fault.Invalid, "writable directory %q is not an absolute path", dir)
		}
		list = append(list, mountPoint{source: d, target: d, flags: unix.MS_BIND})
	}
	// The rest of the machine is read-only for the command: there is no place
	// left where one case could leave a note for the next.
	list = append(list, mountPoint{target: slash, flags: unix.MS_REMOUNT | unix.MS_BIND | unix.MS_RDONLY | unix.MS_NOSUID})
	for _, dir := range freshDirs(spec) {
		mode, owner := "1777", 0
		switch dir {
		case "/tmp", "/var/tmp", "/dev/shm":
		default:
			mode, owner = "755", userID
		}
		if err := add(dir, "tmpfs", fmt.Sprintf("size=%d,mode=%s,uid=%d,gid=%d", size, mode, owner, owner)); err != nil {
			return nil, err
		}
	}
	if err := add("/proc", "proc", ""); err != nil || !d.limits.kernel {
		return list, err
	}
	// A fresh one would let root steer the kernel: see protectKernel.
	for _, dir := range []string{"/proc/sys", "/proc/sysrq-trigger"} {
		at, _ := syscall.BytePtrFromString(dir)
		list = append(list, mountPoint{source: at, target: at, flags: unix.MS_BIND}, mountPoint{target: at, flags: unix.MS_REMOUNT | unix.MS_BIND | unix.MS_RDONLY})
	}
	return list, nil
}

// process is a launched child and how its end arrives.
type process struct {
	pid      int
	started  time.Time
	isolated bool
	reaped   <-chan reaped
	failure  *childFailure // of a program that was never started
	ends     *os.File
}

// launch starts the child of a plan in a cgroup.
func (d *daemon) launch(plan *childPlan, g *cgroup, stdio [3]int) (_ *process, err error) {
	var f files
	defer f.closeAll()
	p := &process{isolated: plan.isolated}
	if plan.isolated {
		ours, theirs, err := f.socketPair()
		if err != nil {
			return nil, err
		}
		p.ends, plan.ends = ours, theirs.Fd()
	}
	plan.cgroup = uintptr(g.dir)
	for i, s := range stdio {
		plan.stdio[i] = uintptr(s)
	}
	p.started = time.Now()
	p.pid, p.reaped, err = d.reaper.start(func() (int, error) { return forkChild(plan) })
	if err != nil {
		if errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.ENOMEM) {
			return nil, fault.Errorf(fault.Exhausted, "fork: %w", err)
		}
		return nil, fmt.Errorf("fork: %w", err)
	}
	if plan.failed.step != stepNone {
		p.failure = &plan.failed
	}
	if p.ends != nil {
		f.keep(p.ends)
	}
	return p, nil
}

// wait waits for the program's end.
func (p *process) wait(c *command) (end childEnd, err error) {
	if !p.isolated {
		r := <-p.reaped
		return childEnd{Status: int32(r.status), Usage: r.usage}, nil
	}
	raw := make([]byte, binary.Size(end))
	if n, _ := io.ReadFull(p.ends, raw); n == len(raw) {
		_ = binary.Read(bytes.NewReader(raw), binary.NativeEndian, &end)
		return end, nil
	}
	// The first process was killed with its tree: by us, or by a command of
	// root, whose process it is. Then it is as if that had killed itself.
	r := <-p.reaped
	suicide := c.spec.User == "root" && r.status.Signaled()
	c.sawMemoryLimit()
	if !c.ended() && p.failure == nil && !suicide {
		return end, fault.Errorf(fault.Internal, "first process of the command ended by itself, status %#x", int(r.status))
	}
	return childEnd{Status: int32(r.status), Usage: r.usage}, nil
}

// root is where the program's files are to be seen from here: an isolated
// command has mounts of its own, there for as long as its first process is.
func (p *process) root() string {
	if p.isolated {
		return fmt.Sprintf("/proc/%d/root", p.pid)
	}
	return "/"
}

// release lets the namespaces of an isolated command go: its first process
// waits for this socket to close.
func (p *process) release() {
	if p.ends != nil {
		_ = p.ends.Close()
	}
}
