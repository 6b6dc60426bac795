package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// run starts this program n times with arguments, one after another or all at
// once, and waits for all.
func run(n int, args []string, inTurn bool) int {
	self, err := os.Executable()
	if err != nil {
		return fail("find this program", err)
	}
	var started []*exec.Cmd
	for range n {
		c := exec.Command(self, args...)
		c.Stdout, c.Stderr = os.Stdout, os.Stderr
		if err := c.Start(); err != nil {
			return fail("start", err)
		}
		if !inTurn {
			started = append(started, c)
			continue
		}
		if err := c.Wait(); err != nil {
			return fail("wait", err)
		}
	}
	for _, c := range started {
		if err := c.Wait(); err != nil {
			return fail("wait", err)
		}
	}
	return 0
}

// alloc touches so many bytes and holds them for a while: "alloc 1000 200ms".
// A third argument makes it so many processes at once: "alloc 1000 200ms 3".
func alloc(args []string) int {
	if n := number(args, 2); n > 0 {
		return run(n, append([]string{"alloc"}, args[:2]...), false)
	}
	n := number(args, 0)
	if n > 0 {
		b, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
		if err != nil {
			return fail("map", err)
		}
		for i := 0; i < n; i += 4096 {
			b[i] = byte(i>>12) | 1
		}
		defer runtime.KeepAlive(b)
	}
	time.Sleep(duration(args, 1))
	return 0
}

// fork makes so many processes that do nothing, holds them for a while and
// ends them: "fork 10 100ms". It says how many there were.
func fork(args []string) int {
	n := number(args, 0)
	var pids []int
	var refused error
	for range n {
		pid, errno := forkIdle()
		if errno != 0 {
			refused = errno
			break
		}
		pids = append(pids, pid)
	}
	time.Sleep(duration(args, 1))
	for _, pid := range pids {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	for _, pid := range pids {
		_, _ = syscall.Wait4(pid, nil, 0, nil)
	}
	say(strconv.Itoa(len(pids)))
	if refused != nil {
		return fail("fork", refused)
	}
	return 0
}

// spin uses so much time of a processor in each of so many processes at once,
// by their own clocks: "spin 100ms 2". They are forks without Go's runtime,
// whose own threads would use time too.
func spin(args []string) int {
	d := duration(args, 0)
	if d == 0 {
		return 0
	}
	var pids []int
	for range max(1, number(args, 1)) {
		pid, errno := forkSpin(d.Nanoseconds())
		if errno != 0 {
			return fail("fork", errno)
		}
		pids = append(pids, pid)
	}
	for _, pid := range pids {
		for {
			if _, err := syscall.Wait4(pid, nil, 0, nil); err != syscall.EINTR {
				break
			}
		}
	}
	return 0
}

// forkSpin forks a process that ends when it has used so many nanoseconds.
//
//go:norace
func forkSpin(ns int64) (int, syscall.Errno) {
	var ts unix.Timespec
	pid, _, errno := syscall.RawSyscall6(syscall.SYS_CLONE, uintptr(syscall.SIGCHLD), 0, 0, 0, 0, 0)
	if errno != 0 || pid != 0 {
		return int(pid), errno
	}
	for ts.Sec*1e9+ts.Nsec < ns {
		for i := 0; i < 200_000; i++ {
			spun = spun*1664525 + 1013904223
		}
		_, _, _ = syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, unix.CLOCK_PROCESS_CPUTIME_ID, uintptr(unsafe.Pointer(&ts)), 0)
	}
	for {
		_, _, _ = syscall.RawSyscall(syscall.SYS_EXIT_GROUP, 0, 0, 0)
	}
}

// spun keeps the loop from being thrown away.
var spun uint64

// forkIdle forks a process that waits for a signal. The child has one thread
// and makes raw system calls only.
//
//go:norace
func forkIdle() (int, syscall.Errno) {
	pid, _, errno := syscall.RawSyscall6(syscall.SYS_CLONE, uintptr(syscall.SIGCHLD), 0, 0, 0, 0, 0)
	if errno != 0 || pid != 0 {
		return int(pid), errno
	}
	for {
		_, _, _ = syscall.RawSyscall(syscall.SYS_PAUSE, 0, 0, 0)
	}
}

// daemon leaves a process in a session of its own that adds a line to a file
// every 10 ms, and ends: "daemon /tmp/file".
func daemon(args []string) int {
	if len(args) > 1 {
		for {
			if code := appendLine([]string{args[0], "still here"}); code != 0 {
				return code
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
	self, err := os.Executable()
	if err != nil {
		return fail("find this program", err)
	}
	c := exec.Command(self, "daemon", args[0], "child")
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := c.Start(); err != nil {
		return fail("start", err)
	}
	for { // it has begun once it has written
		if info, err := os.Stat(args[0]); err == nil && info.Size() > 0 {
			return say(strconv.Itoa(c.Process.Pid))
		}
		time.Sleep(time.Millisecond)
	}
}

// pids lists the processes that can be seen.
func pids([]string) int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return fail("read /proc", err)
	}
	for _, e := range entries {
		if _, err := strconv.Atoi(e.Name()); err != nil {
			continue
		}
		line, _ := os.ReadFile("/proc/" + e.Name() + "/cmdline") // may have ended
		fmt.Fprintln(os.Stdout, e.Name(), strings.TrimRight(strings.ReplaceAll(string(line), "\x00", " "), " "))
	}
	return 0
}
