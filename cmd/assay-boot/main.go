// Command assay-boot is the process that a gVisor machine runs in: gVisor's
// boot command and nothing else, so that it starts fast and holds little. The
// driver (internal/sandbox/gvisor) starts it; people never do.
//
// Before anything else it reads what the driver wrote beside the machine's
// configuration and joins the machine's cgroups: everything the machine will
// ever be is counted and limited from its first instruction on.
package main

import (
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/runsc/cli"
	"gvisor.dev/gvisor/runsc/cmd/sentry/sentrycmd"
	"gvisor.dev/gvisor/runsc/cmd/util"

	"assay/internal/sandbox/gvisor/bootfile"
)

func main() {
	if len(os.Args) == 3 && os.Args[1] == bootfile.FilterCommand {
		if err := compileFilter(os.Args[2], os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "assay-boot:", err)
			os.Exit(1)
		}
		return
	}
	if err := prepare(); err != nil {
		fmt.Fprintln(os.Stderr, "assay-boot:", err)
		os.Exit(1)
	}
	go settle()
	cli.Run(nil, map[util.SubCommand]string{
		new(sentrycmd.Boot):   "",
		new(sentrycmd.Umount): "",
	}, nil)
}

// settle gives back, once the machine has come up, what only its start needed:
// a machine that waits in a pool should hold little.
func settle() {
	time.Sleep(settleAfter)
	debug.FreeOSMemory()
}

// settleAfter is longer than a start takes.
const settleAfter = time.Second

// redirect replaces the guest's stdio, which gVisor takes from the process that
// starts the machine, by nothing and the log: a machine must not hold its
// maker's terminal or pipes.
func redirect(bundle string, persistent bool) error {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	// The log of a persistent machine is open for reading, too: while nobody reads
	// it, a line of guestd's must not end guestd by SIGPIPE.
	how := os.O_WRONLY
	if persistent {
		how = os.O_RDWR
	}
	log, err := os.OpenFile(bootfile.LogPath(bundle), how, 0)
	if err != nil {
		return err
	}
	defer log.Close()
	// This process's own last words, if it has any, go the same way.
	if err := unix.Dup3(int(log.Fd()), int(os.Stderr.Fd()), 0); err != nil {
		return err
	}
	for i, arg := range stdioArgs() {
		fd, err := strconv.Atoi(arg)
		if err != nil {
			return err
		}
		from := null
		if i > 0 {
			from = log
		}
		if err := unix.Dup3(int(from.Fd()), fd, 0); err != nil {
			return err
		}
	}
	return nil
}

// closeStrays closes every descriptor that came through the start of this
// process and is not named in its arguments. The library that starts it was
// written for a program with one thread: here another thread may just have had
// a file open that was not close-on-exec. No machine may hold such a file, and
// gVisor refuses to run with a stray directory.
func closeStrays() error {
	named := map[int]bool{}
	for _, arg := range os.Args {
		flag, value, ok := strings.Cut(arg, "=")
		if !ok || !strings.Contains(flag, "fd") {
			continue
		}
		value, _, _ = strings.Cut(value, ":") // --pass-fd=host:guest
		if fd, err := strconv.Atoi(value); err == nil {
			named[fd] = true
		}
	}
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return err
	}
	for _, e := range open {
		fd, err := strconv.Atoi(e.Name())
		if err != nil || fd < 3 || named[fd] || kept(fd) {
			continue
		}
		// What this process has opened itself is close-on-exec.
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC == 0 {
			_ = unix.Close(fd)
		}
	}
	return nil
}

// passedBase is above every descriptor that a start hands over, and below what
// the table of descriptors was grown to.
const passedBase = 900

// settlePassed moves each descriptor that becomes the guest's own to a number
// that depends on nothing but the guest's. The library hands them over in any
// order, and a restored machine goes on with the number that its checkpoint
// knows for a socket.
func settlePassed() error {
	args := os.Args[:0:0]
	for _, arg := range os.Args {
		pair, ok := strings.CutPrefix(arg, "--pass-fd=")
		if !ok {
			args = append(args, arg)
			continue
		}
		host, guest, ok := strings.Cut(pair, ":")
		from, errFrom := strconv.Atoi(host)
		to, errTo := strconv.Atoi(guest)
		if !ok || errFrom != nil || errTo != nil {
			return fmt.Errorf("flag %s is not understood", arg)
		}
		if to == bootfile.KeptLink || to == bootfile.KeptWires {
			// None of the guest's: gVisor is not told.
			if err := errors.Join(moveFD(from, to), os.Setenv(keptEnv, "1")); err != nil {
				return err
			}
			continue
		}
		to += passedBase
		if from != to { // else a later start of the same machine
			if err := moveFD(from, to); err != nil {
				return err
			}
		}
		args = append(args, fmt.Sprintf("--pass-fd=%d:%s", to, guest))
	}
	os.Args = args
	return nil
}

func moveFD(from, to int) error {
	err := unix.Dup3(from, to, 0)
	if err == nil {
		err = unix.Close(from)
	}
	if err != nil {
		return fmt.Errorf("move descriptor %d: %w", from, err)
	}
	return nil
}

// keptEnv tells later starts of the same machine that the descriptors that it
// keeps for its next owner are there. The first start is told by arguments.
const keptEnv = "ASSAY_BOOT_KEEPS"

// kept reports whether a descriptor is one of those.
func kept(fd int) bool {
	return os.Getenv(keptEnv) != "" && (fd == bootfile.KeptLink || fd == bootfile.KeptWires)
}

// stdioArgs are the descriptors that gVisor passes for stdin, stdout and
// stderr, in this order.
func stdioArgs() []string {
	var list []string
	for _, arg := range os.Args {
		if n, ok := strings.CutPrefix(arg, "--stdio-fds="); ok {
			list = append(list, n)
		}
	}
	return list
}

// prepare applies the boot file of the bundle named in the arguments. gVisor
// starts other commands of this binary too; those have no bundle.
func prepare() error {
	if err := errors.Join(closeStrays(), settlePassed()); err != nil {
		return err
	}
	for _, arg := range os.Args {
		dir, ok := strings.CutPrefix(arg, "--bundle=")
		if !ok {
			continue
		}
		file, err := bootfile.Read(dir)
		if err != nil {
			return err
		}
		if err := file.Join(os.Getpid()); err != nil {
			return err
		}
		if err := registerFilter(file.Filter); err != nil {
			return err
		}
		if err := redirect(dir, file.Persistent); err != nil {
			return err
		}
		// The machine's size, which gVisor would else take from the host. Later
		// flags win, and the last argument is the machine's ID.
		rest := append(file.Flags(), os.Args[len(os.Args)-1])
		os.Args = append(os.Args[:len(os.Args)-1:len(os.Args)-1], rest...)
		return nil
	}
	return nil
}
