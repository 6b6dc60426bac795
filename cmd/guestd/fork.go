package main

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A command starts by vfork and a handful of raw system calls in the child: the
// alternative, a second program in between that sets limits and namespaces,
// costs two more process starts for each test case; and a fork that copies
// guestd's memory costs more than the rest together.

//go:linkname beforeFork syscall.runtime_BeforeFork
func beforeFork()

//go:linkname afterFork syscall.runtime_AfterFork
func afterFork()

//go:noescape
func rawVfork(trap, a1, a2 uintptr) (r1, errno uintptr)

// mountPoint is one filesystem that an isolated command gets for itself.
type mountPoint struct {
	source, target, fstype, options *byte
	flags                           uintptr
}

type rlimit struct {
	resource uintptr
	value    unix.Rlimit
}

// childPlan is all a child needs, as pointers made before the fork: after it,
// nothing may be allocated.
type childPlan struct {
	path       *byte
	argv, envv []*byte
	dir        *byte
	stdio      [3]uintptr
	cgroup     uintptr // descriptor of the cgroup's directory
	isolated   bool
	mounts     []mountPoint
	rlimits    []rlimit
	uid, gid   uintptr
	dropCaps   []uintptr // bounding capabilities a root command loses
	caps       [2]unix.CapUserData
	tty        bool         // stdio is a terminal that becomes the controlling one
	failed     childFailure // written by a child that could not start, in this very memory
	nsinit     uintptr      // descriptor of the program; the two below are its path, which is empty, and its arguments
	nsinitPath *byte
	nsinitArgv []*byte
	ends       uintptr // socket: childEnd of an isolated command; its end of file releases the namespaces
}

// childFailure says why a child could not start its program; no step is none.
type childFailure struct {
	step  int32
	errno syscall.Errno
}

// childEnd is what the first process of an isolated command writes when the
// program ended.
type childEnd struct {
	Status int32
	_      int32
	Usage  syscall.Rusage
}

// The steps at which a child can fail.
const (
	stepNone int32 = iota
	stepStart
	stepMount
	stepFork
	stepInit
	stepLimits
	stepUser
	stepDir
	stepExec
)

var stepNames = [...]string{"", "start", "mount a fresh directory", "fork", "start the first process", "set limits", "change the user", "enter the directory", "execute"}

// busyTries times 2 ms is how long an executable may be busy.
const busyTries = 500

type cloneArgs struct {
	flags, pidfd, childTID, parentTID, exitSignal, stack, stackSize, tls, setTID, setTIDSize, cgroup uint64
}

// forkChild makes the child of the plan and gives its process ID. It returns
// when the child runs its program, or could not start it: plan.failed says so.
func forkChild(p *childPlan) (int, error) {
	// The handlers of this process are not the child's: a signal must not run one in
	// memory that both have. The kernel clears them, instead of 64 calls that do.
	args := cloneArgs{flags: unix.CLONE_INTO_CGROUP | unix.CLONE_VM | unix.CLONE_VFORK | unix.CLONE_CLEAR_SIGHAND, exitSignal: uint64(unix.SIGCHLD), cgroup: uint64(p.cgroup)}
	if p.isolated {
		args.flags |= unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWIPC | unix.CLONE_NEWNET
	}
	// No descriptor may be made between fork and exec elsewhere that is not
	// yet close-on-exec; and while a program file is open for writing in this
	// process, a child must not inherit it (ETXTBSY). ForkLock gives both.
	syscall.ForkLock.Lock()
	pid, errno := forkAndRun(p, &args)
	syscall.ForkLock.Unlock()
	if errno != 0 {
		return 0, errno
	}
	return pid, nil
}

// forkAndRun forks; the child never returns. Until it executes its program the
// child runs on this stack and in this memory while the parent stands still: no
// Go code that may allocate, grow the stack or block in the runtime is allowed
// there, only raw system calls on what the plan holds.
//
// An isolated command has two children, one in the other: the first process of
// the namespace, which makes the mounts and becomes nsinit, and the program.
//
//go:noinline
//go:norace
//go:nocheckptr
func forkAndRun(p *childPlan, args *cloneArgs) (int, syscall.Errno) {
	var (
		pid, nr  uintptr
		errno    syscall.Errno
		step     int32
		mask     uint64 // of signals: none
		i        int
		capHead  [2]uint32
		busyWait = unix.Timespec{Nsec: 2_000_000}
	)
	beforeFork()
	pid, nr = rawVfork(unix.SYS_CLONE3, uintptr(unsafe.Pointer(args)), unsafe.Sizeof(*args))
	if nr != 0 || pid != 0 {
		afterFork()
		return int(pid), syscall.Errno(nr)
	}
	// beforeFork has blocked all signals.
	step = stepStart
	_, _, errno = syscall.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&mask)), 0, unsafe.Sizeof(mask), 0, 0)
	if errno != 0 {
		goto failed
	}
	if p.isolated {
		step = stepMount
		for i = 0; i < len(p.mounts); i++ {
			_, _, errno = syscall.RawSyscall6(unix.SYS_MOUNT,
				uintptr(unsafe.Pointer(p.mounts[i].source)), uintptr(unsafe.Pointer(p.mounts[i].target)),
				uintptr(unsafe.Pointer(p.mounts[i].fstype)), p.mounts[i].flags, uintptr(unsafe.Pointer(p.mounts[i].options)), 0)
			if errno != 0 {
				goto failed
			}
		}
		step = stepFork
		pid, nr = rawVfork(unix.SYS_CLONE, uintptr(unix.SIGCHLD)|unix.CLONE_VM|unix.CLONE_VFORK, 0)
		errno = syscall.Errno(nr)
		if errno != 0 {
			goto failed
		}
		if pid != 0 { // the first process; the program has been executed
			step = stepInit
			_, _, errno = syscall.RawSyscall(unix.SYS_DUP3, p.ends, nsinitFD, 0)
			if errno != 0 {
				goto failed
			}
			_, _, errno = syscall.RawSyscall6(unix.SYS_EXECVEAT, p.nsinit, uintptr(unsafe.Pointer(p.nsinitPath)), uintptr(unsafe.Pointer(&p.nsinitArgv[0])), uintptr(unsafe.Pointer(&p.nsinitArgv[1])), unix.AT_EMPTY_PATH, 0)
			goto failed
		}
	}

	step = stepLimits
	for i = 0; i < len(p.rlimits); i++ {
		_, _, errno = syscall.RawSyscall6(unix.SYS_PRLIMIT64, 0, p.rlimits[i].resource, uintptr(unsafe.Pointer(&p.rlimits[i].value)), 0, 0, 0)
		if errno != 0 {
			goto failed
		}
	}
	_, _, errno = syscall.RawSyscall(unix.SYS_SETSID, 0, 0, 0)
	if errno != 0 {
		goto failed
	}
	// The plan's descriptors are all above 2, so no target overwrites a source.
	for i = 0; i < 3; i++ {
		_, _, errno = syscall.RawSyscall(unix.SYS_DUP3, p.stdio[i], uintptr(i), 0)
		if errno != 0 {
			goto failed
		}
	}
	if p.tty {
		_, _, errno = syscall.RawSyscall(unix.SYS_IOCTL, 0, unix.TIOCSCTTY, 0)
		if errno != 0 {
			goto failed
		}
	}
	step = stepUser
	for i = 0; i < len(p.dropCaps); i++ {
		_, _, errno = syscall.RawSyscall6(unix.SYS_PRCTL, unix.PR_CAPBSET_DROP, p.dropCaps[i], 0, 0, 0, 0)
		if errno != 0 {
			goto failed
		}
	}
	_, _, errno = syscall.RawSyscall(unix.SYS_SETGROUPS, 0, 0, 0)
	if errno != 0 {
		goto failed
	}
	_, _, errno = syscall.RawSyscall(unix.SYS_SETRESGID, p.gid, p.gid, p.gid)
	if errno != 0 {
		goto failed
	}
	_, _, errno = syscall.RawSyscall(unix.SYS_SETRESUID, p.uid, p.uid, p.uid)
	if errno != 0 {
		goto failed
	}
	// Not only the bounding set: root's program gets what is inheritable, too.
	capHead[0] = unix.LINUX_CAPABILITY_VERSION_3
	_, _, errno = syscall.RawSyscall(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&capHead[0])), uintptr(unsafe.Pointer(&p.caps[0])), 0)
	if errno != 0 {
		goto failed
	}
	_, _, errno = syscall.RawSyscall6(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0, 0)
	if errno != 0 {
		goto failed
	}
	step = stepDir
	_, _, errno = syscall.RawSyscall(unix.SYS_CHDIR, uintptr(unsafe.Pointer(p.dir)), 0, 0)
	if errno != 0 {
		goto failed
	}
	step = stepExec
	// A program file just written by guestd may still be open for writing in
	// another child between its fork and its exec: that passes in microseconds.
	for i = 0; i < busyTries; i++ {
		_, _, errno = syscall.RawSyscall(unix.SYS_EXECVE, uintptr(unsafe.Pointer(p.path)), uintptr(unsafe.Pointer(&p.argv[0])), uintptr(unsafe.Pointer(&p.envv[0])))
		if errno != unix.ETXTBSY {
			break
		}
		_, _, _ = syscall.RawSyscall(unix.SYS_NANOSLEEP, uintptr(unsafe.Pointer(&busyWait)), 0, 0)
	}

failed:
	p.failed.step, p.failed.errno = step, errno
	for {
		_, _, _ = syscall.RawSyscall(unix.SYS_EXIT_GROUP, 127, 0, 0)
	}
}
