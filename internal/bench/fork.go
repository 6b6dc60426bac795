package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The unit is a plain fork and exec, as a program without vfork pays it. Go's
// own os/exec uses vfork, whose cost says little about the host's memory
// management, and so cannot be used for it.

//go:linkname beforeFork syscall.runtime_BeforeFork
func beforeFork()

//go:linkname afterFork syscall.runtime_AfterFork
func afterFork()

//go:linkname afterForkInChild syscall.runtime_AfterForkInChild
func afterForkInChild()

// forkExec forks this process and executes path in the child, which runs raw
// system calls only.
//
//go:noinline
//go:norace
//go:nocheckptr
func forkExec(path *byte, argv, envv **byte) (pid uintptr, errno syscall.Errno) {
	beforeFork()
	pid, _, errno = syscall.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
	if errno != 0 || pid != 0 {
		afterFork()
		return pid, errno
	}
	afterForkInChild()
	_, _, _ = syscall.RawSyscall(unix.SYS_EXECVE, uintptr(unsafe.Pointer(path)), uintptr(unsafe.Pointer(argv)), uintptr(unsafe.Pointer(envv)))
	for {
		_, _, _ = syscall.RawSyscall(unix.SYS_EXIT_GROUP, 127, 0, 0)
	}
}

// unit measures a native fork and exec of /bin/true: the median of 200, in
// microseconds.
func unit(ctx context.Context) (float64, error) {
	path, err := syscall.BytePtrFromString("/bin/true")
	if err != nil {
		return 0, err
	}
	argv, envv := []*byte{path, nil}, []*byte{nil}
	values, err := sample(ctx, 200, func() (time.Duration, error) {
		t0 := time.Now()
		syscall.ForkLock.Lock()
		pid, errno := forkExec(path, &argv[0], &envv[0])
		syscall.ForkLock.Unlock()
		if errno != 0 {
			return 0, errno
		}
		var status syscall.WaitStatus
		for {
			_, err := syscall.Wait4(int(pid), &status, 0, nil)
			if errors.Is(err, syscall.EINTR) {
				continue
			}
			if err == nil && status.ExitStatus() != 0 {
				err = fmt.Errorf("/bin/true ended with status %#x", int(status))
			}
			return time.Since(t0), err
		}
	})
	if err != nil {
		return 0, fmt.Errorf("measure a native fork and exec: %w", err)
	}
	slices.Sort(values)
	return percentile(values, 0.5), nil
}
