// Command assay-box shuts QEMU in and becomes it. The driver
// (internal/sandbox/qemu) starts it, in namespaces of its own; people never do.
//
// It joins the machine's cgroups, makes a root that holds QEMU's program,
// libraries and firmware, read-only, and nothing else of the host, enters it,
// gives up root for a user that nothing else runs as, and executes QEMU. Who
// breaks out of the guest into QEMU finds an empty place. It is a program of its
// own and small, since it is started with each machine.
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"assay/internal/sandbox/qemu/box"
)

func main() {
	err := run()
	fmt.Fprintln(os.Stderr, "assay-box:", err)
	os.Exit(1)
}

// run returns only when it failed.
func run() error {
	b, command, err := box.Parse(os.Args[1:])
	if err != nil {
		return fmt.Errorf("read arguments: %w", err)
	}
	for _, procs := range b.Procs {
		if err := os.WriteFile(procs, strconv.AppendInt(nil, int64(os.Getpid()), 10), 0); err != nil {
			return fmt.Errorf("join cgroup: %w", err)
		}
	}
	groups, err := owners(b.Devices)
	if err != nil {
		return err
	}
	if err := enter(b); err != nil {
		return err
	}
	if err := drop(b.User, groups); err != nil {
		return err
	}
	return fmt.Errorf("start %s: %w", command[0], syscall.Exec(command[0], command, os.Environ()))
}

// system are the directories with programs, libraries and firmware. On most
// hosts all but the first are links into it.
var system = []string{"/usr", "/bin", "/lib", "/lib64", "/etc/alternatives", "/etc/ld.so.cache"}

// enter makes the root and goes there; the host's is gone then.
func enter(b box.Box) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("leave the host's mounts: %w", err)
	}
	if err := unix.Mount("box", b.Root, "tmpfs", unix.MS_NOSUID, "mode=755,size=1m"); err != nil {
		return fmt.Errorf("mount a root: %w", err)
	}
	for _, path := range system {
		if err := show(path, b.Root+path); err != nil {
			return err
		}
	}
	devices := append([]string{"/dev/null", "/dev/urandom"}, b.Devices...)
	for _, path := range devices {
		if err := bind(path, b.Root+path, 0); err != nil {
			return err
		}
	}
	proc := b.Root + "/proc"
	if err := os.Mkdir(proc, 0o755); err != nil {
		return err
	}
	if err := unix.Mount("proc", proc, "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	if err := unix.Mount("", b.Root, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY|unix.MS_NOSUID, ""); err != nil {
		return fmt.Errorf("make the root read-only: %w", err)
	}
	if err := os.Chdir(b.Root); err != nil {
		return err
	}
	// The old root lies over the new one then, and is taken away from there.
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("change the root: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("leave the host's root: %w", err)
	}
	return os.Chdir("/")
}

// show makes a path of the host appear, read-only: a link as the same link.
func show(path, at string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode()&os.ModeSymlink == 0 {
		return bind(path, at, unix.MS_RDONLY|unix.MS_NODEV)
	}
	to, err := os.Readlink(path)
	if err != nil {
		return err
	}
	return os.Symlink(to, at)
}

// bind mounts a file or directory of the host.
func bind(path, at string, flags uintptr) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		return err
	}
	if info.IsDir() {
		err = os.Mkdir(at, 0o755)
	} else {
		err = os.WriteFile(at, nil, 0o644)
	}
	if err != nil {
		return err
	}
	if err := unix.Mount(path, at, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("show %s: %w", path, err)
	}
	if err := unix.Mount("", at, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_NOSUID|flags, ""); err != nil {
		return fmt.Errorf("protect %s: %w", path, err)
	}
	return nil
}

// owners are the groups that may use the devices.
func owners(devices []string) (groups []int, err error) {
	for _, path := range devices {
		var st unix.Stat_t
		if err := unix.Stat(path, &st); err != nil {
			return nil, fmt.Errorf("look at %s: %w", path, err)
		}
		groups = append(groups, int(st.Gid))
	}
	return groups, nil
}

// drop gives up root. Who changes the user is no longer killed with the parent:
// that is asked for again.
func drop(user int, groups []int) error {
	if user != 0 {
		if err := errors.Join(syscall.Setgroups(groups), syscall.Setresgid(user, user, user), syscall.Setresuid(user, user, user)); err != nil {
			return fmt.Errorf("become user %d: %w", user, err)
		}
	}
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return fmt.Errorf("die with the parent: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("forbid new rights: %w", err)
	}
	none := unix.Rlimit{}
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &none); err != nil {
		return fmt.Errorf("forbid core files: %w", err)
	}
	return nil
}
