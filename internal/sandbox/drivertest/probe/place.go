package main

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// write makes files of so many bytes: "write /tmp/f 1000 3" makes three, f.0 to
// f.2; without a count one, f.
func write(args []string) int {
	endBySIGXFSZ()
	size, n := number(args, 1), max(1, number(args, 2))
	for i := range n {
		name := args[0]
		if n > 1 {
			name += "." + strconv.Itoa(i)
		}
		f, err := os.Create(name)
		if err != nil {
			return fail("create", err)
		}
		chunk := bytes.Repeat([]byte("x"), 64<<10)
		for left := size; left > 0; left -= min(left, len(chunk)) {
			if _, err := f.Write(chunk[:min(left, len(chunk))]); err != nil {
				return fail("write", err)
			}
		}
		if err := f.Close(); err != nil {
			return fail("close", err)
		}
	}
	return 0
}

// endBySIGXFSZ lets the signal of a file's limit end this program, as it ends
// one that knows nothing of it: Go's runtime ignores it.
func endBySIGXFSZ() {
	var byDefault [4]uintptr // handler, flags, restorer, mask
	_, _, _ = unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(unix.SIGXFSZ), uintptr(unsafe.Pointer(&byDefault)), 0, 8, 0, 0)
}

// appendLine adds a line to a file: "append /tmp/f text".
func appendLine(args []string) int {
	f, err := os.OpenFile(args[0], os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return fail("open", err)
	}
	if _, err := f.WriteString(strings.Join(args[1:], " ") + "\n"); err != nil {
		return fail("append", err)
	}
	if err := f.Close(); err != nil {
		return fail("close", err)
	}
	return 0
}

func read(args []string) int {
	b, err := os.ReadFile(args[0])
	if err != nil {
		return fail("read", err)
	}
	if _, err := os.Stdout.Write(b); err != nil {
		return 1
	}
	return 0
}

func list(args []string) int {
	for _, dir := range args {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return fail("list", err)
		}
		for _, e := range entries {
			fmt.Fprintln(os.Stdout, filepath.Join(dir, e.Name()))
		}
	}
	return 0
}

// counter counts up in memory every few milliseconds and says the number to
// whoever connects: "counter /tmp/socket".
func counter(args []string) int {
	ln, err := net.Listen("unix", args[0])
	if err != nil {
		return fail("listen", err)
	}
	var n atomic.Int64
	go func() {
		for {
			n.Add(1)
			time.Sleep(2 * time.Millisecond)
		}
	}()
	say("counting")
	for {
		c, err := ln.Accept()
		if err != nil {
			return fail("accept", err)
		}
		fmt.Fprintln(c, n.Load())
		_ = c.Close()
	}
}

// ask gives what a counter says.
func ask(args []string) int {
	c, err := net.Dial("unix", args[0])
	if err != nil {
		return fail("dial", err)
	}
	defer c.Close()
	if _, err := io.Copy(os.Stdout, c); err != nil {
		return fail("read", err)
	}
	return 0
}

// random writes 32 bytes of each source of randomness.
func random([]string) int {
	var a, b [32]byte
	f, err := os.Open("/dev/urandom")
	if err != nil {
		return fail("open", err)
	}
	if _, err := io.ReadFull(f, a[:]); err != nil {
		return fail("read", err)
	}
	if _, err := unix.Getrandom(b[:], 0); err != nil {
		return fail("getrandom", err)
	}
	say(hex.EncodeToString(a[:]))
	return say(hex.EncodeToString(b[:]))
}

// identity says by what names this machine goes.
func identity([]string) int {
	host, err := os.Hostname()
	if err != nil {
		return fail("hostname", err)
	}
	say(host)
	id, err := os.ReadFile("/etc/machine-id")
	if err != nil {
		return fail("machine-id", err)
	}
	return say(strings.TrimSpace(string(id)))
}

// The places where one program can leave something for another.
const (
	traceKey    = 0x5ca1ab1e
	traceSocket = "@assay-probe"
)

// traces leaves something everywhere where a later program could find it, and
// stays for a while: "traces 1s /tmp/f /dev/shm/f".
func traces(args []string) int {
	for _, name := range args[1:] {
		if err := os.WriteFile(name, []byte("left\n"), 0o666); err != nil {
			return fail("write", err)
		}
	}
	if _, err := unix.SysvShmGet(traceKey, 4096, unix.IPC_CREAT|0o666); err != nil {
		return fail("shmget", err)
	}
	for _, get := range sysvGets {
		if _, err := get(unix.IPC_CREAT | 0o666); err != 0 {
			return fail("ipc", err)
		}
	}
	ln, err := net.Listen("unix", traceSocket)
	if err != nil {
		return fail("listen", err)
	}
	defer ln.Close()
	say("left")
	time.Sleep(duration(args, 0))
	return 0
}

var sysvGets = []func(flags uintptr) (uintptr, unix.Errno){
	func(flags uintptr) (uintptr, unix.Errno) {
		r, _, e := unix.Syscall(unix.SYS_MSGGET, traceKey, flags, 0)
		return r, e
	},
	func(flags uintptr) (uintptr, unix.Errno) {
		r, _, e := unix.Syscall(unix.SYS_SEMGET, traceKey, 1, flags)
		return r, e
	},
}

// look says which traces of another program it finds, one a line.
func look(args []string) int {
	for _, name := range args {
		if _, err := os.Stat(name); err == nil {
			say(name)
		}
	}
	if _, err := unix.SysvShmGet(traceKey, 4096, 0); err == nil {
		say("shared memory")
	}
	for i, get := range sysvGets {
		if _, err := get(0); err == 0 {
			say([]string{"message queue", "semaphore"}[i])
		}
	}
	if c, err := net.Dial("unix", traceSocket); err == nil {
		_ = c.Close()
		say("abstract socket")
	}
	entries, _ := os.ReadDir("/proc") // without /proc there is nothing to be seen
	for _, e := range entries {
		line, _ := os.ReadFile("/proc/" + e.Name() + "/cmdline")
		if strings.Contains(string(line), "\x00traces\x00") {
			say("process")
		}
	}
	return 0
}
