package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"assay/internal/guest"
)

// In a virtual machine this program is started twice: first by the guest's
// kernel, out of the initial memory filesystem, where it loads the modules that
// reach the root filesystem, mounts it and whatever a driver like gVisor's gives
// by itself; then, out of the root filesystem and with the link as inherited
// descriptor, as guestd like anywhere else.

// linkPorts are what the guest's end of the link may be called: the number of
// the device follows from the order in which the kernel found it.
const linkPorts = "/dev/vport*p1"

// deviceWait is how long a device may take to appear after its module.
const deviceWait = 20 * time.Second

// bootVM makes the machine out of a kernel that has just started. It returns
// only if it failed.
func bootVM() error {
	for _, m := range [][3]string{{"proc", "/proc", "proc"}, {"dev", "/dev", "devtmpfs"}} {
		if err := errors.Join(mkdir(m[1]), unix.Mount(m[0], m[1], m[2], unix.MS_NOSUID|unix.MS_NOEXEC, "")); err != nil {
			return fmt.Errorf("mount %s: %w", m[1], err)
		}
	}
	if err := loadModules(); err != nil {
		return err
	}
	later, err := openLater()
	if err != nil {
		return err
	}
	if err := mountRoot("/dev/vda", os.Getenv(guest.DiskEnv)); err != nil {
		return err
	}
	link, err := openWhenThere(linkPorts)
	if err != nil {
		return err
	}
	if err := enterRoot(); err != nil {
		return err
	}
	// Last of all: the runtime may have had this descriptor for itself.
	if link == guest.LinkFD {
		_, err = unix.FcntlInt(uintptr(link), unix.F_SETFD, 0)
	} else {
		err = unix.Dup3(link, guest.LinkFD, 0)
	}
	if err != nil {
		return fmt.Errorf("give the link to guestd: %w", err)
	}
	env := []string{
		"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "GOMAXPROCS=2", "GODEBUG=madvdontneed=1", guest.VMEnv + "=" + guest.VMRunning,
		guest.ProcessesEnv + "=" + os.Getenv(guest.ProcessesEnv), guest.MemoryEnv + "=" + os.Getenv(guest.MemoryEnv),
		guest.VMLater + "=" + later,
	}
	return fmt.Errorf("start %s: %w", guest.InitPath, syscall.Exec(guest.InitPath, []string{guest.InitPath}, env))
}

func mkdir(dir string) error {
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	return nil
}

// loadModules loads what the driver put beside this program, in its order.
func loadModules() error {
	list, err := os.ReadFile(guest.VMModules + "/order")
	if err != nil {
		return fmt.Errorf("read list of modules: %w", err)
	}
	for name := range strings.FieldsSeq(string(list)) {
		f, err := os.Open(filepath.Join(guest.VMModules, name))
		if err != nil {
			return fmt.Errorf("load module: %w", err)
		}
		err = unix.FinitModule(int(f.Fd()), "", 0)
		_ = f.Close()
		if err != nil && !errors.Is(err, unix.EEXIST) {
			return fmt.Errorf("load module %s: %w", name, err)
		}
	}
	return nil
}

// openWhenThere opens a device, named by a pattern, that may still be on its
// way.
func openWhenThere(pattern string) (int, error) {
	for began := time.Now(); ; {
		fd, err := -1, error(unix.ENOENT)
		if found, _ := filepath.Glob(pattern); len(found) > 0 {
			fd, err = unix.Open(found[0], unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		}
		switch {
		case err == nil:
			return fd, nil
		case !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ENXIO) || time.Since(began) > deviceWait:
			return -1, fmt.Errorf("open %s: %w", pattern, err)
		}
		time.Sleep(time.Millisecond)
	}
}

// mountRoot puts a writable layer of so many bytes over the image on a disk.
func mountRoot(disk, size string) error {
	for began := time.Now(); ; time.Sleep(time.Millisecond) {
		if _, err := os.Stat(disk); err == nil {
			break
		}
		if time.Since(began) > deviceWait {
			return fmt.Errorf("no disk %s within %v", disk, deviceWait)
		}
	}
	for _, dir := range []string{"/image", "/layer", "/root"} {
		if err := mkdir(dir); err != nil {
			return err
		}
	}
	if err := unix.Mount(disk, "/image", "erofs", unix.MS_RDONLY, ""); err != nil {
		return fmt.Errorf("mount the image: %w", err)
	}
	if err := unix.Mount("layer", "/layer", "tmpfs", 0, "mode=755,size="+size); err != nil {
		return fmt.Errorf("mount the writable layer: %w", err)
	}
	if err := errors.Join(mkdir("/layer/upper"), mkdir("/layer/work")); err != nil {
		return err
	}
	if err := unix.Mount("root", "/root", "overlay", 0, "lowerdir=/image,upperdir=/layer/upper,workdir=/layer/work"); err != nil {
		return fmt.Errorf("join image and writable layer: %w", err)
	}
	return nil
}

// The devices that commands see: all others stay out of their reach, also
// root's, which may not make any.
var vmDevices = []struct {
	name         string
	major, minor uint32
}{{"null", 1, 3}, {"zero", 1, 5}, {"full", 1, 7}, {"random", 1, 8}, {"urandom", 1, 9}, {"tty", 5, 0}}

// enterRoot fills the new root with the filesystems of a machine, makes it
// this process's root, and frees what the boot needed.
func enterRoot() error {
	size := "mode=1777,size=" + os.Getenv(guest.DiskEnv)
	const strict = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	for _, m := range []struct {
		source, target, fstype, options string
		flags                           uintptr
	}{
		{"proc", "/proc", "proc", "", strict},
		{"sysfs", "/sys", "sysfs", "", strict | unix.MS_RDONLY},
		{"dev", "/dev", "tmpfs", "mode=755,size=1m", unix.MS_NOSUID | unix.MS_NOEXEC},
		{"devpts", "/dev/pts", "devpts", "newinstance,ptmxmode=0666,mode=620", unix.MS_NOSUID | unix.MS_NOEXEC},
		{"shm", "/dev/shm", "tmpfs", size, unix.MS_NOSUID | unix.MS_NODEV},
		{"tmp", "/tmp", "tmpfs", size, unix.MS_NOSUID | unix.MS_NODEV},
	} {
		at := "/root" + m.target
		if err := errors.Join(mkdir(at), unix.Mount(m.source, at, m.fstype, m.flags, m.options)); err != nil {
			return fmt.Errorf("mount %s: %w", m.target, err)
		}
	}
	unix.Umask(0)
	for _, d := range vmDevices {
		if err := unix.Mknod("/root/dev/"+d.name, unix.S_IFCHR|0o666, int(unix.Mkdev(d.major, d.minor))); err != nil {
			return fmt.Errorf("make device %s: %w", d.name, err)
		}
	}
	unix.Umask(0o022)
	for name, to := range map[string]string{"ptmx": "pts/ptmx", "fd": "/proc/self/fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2"} {
		if err := os.Symlink(to, "/root/dev/"+name); err != nil {
			return err
		}
	}
	// The memory of the files that only the boot needed would be in each snapshot.
	if err := errors.Join(os.RemoveAll(guest.VMModules), os.Remove("/init")); err != nil {
		return fmt.Errorf("remove what the boot needed: %w", err)
	}
	_ = unix.Unmount("/dev", unix.MNT_DETACH) // hidden below, whatever becomes of it
	_ = unix.Unmount("/proc", unix.MNT_DETACH)
	if err := os.Chdir("/root"); err != nil {
		return err
	}
	if err := unix.Mount(".", "/", "", unix.MS_MOVE, ""); err != nil {
		return fmt.Errorf("move the root: %w", err)
	}
	if err := unix.Chroot("."); err != nil {
		return fmt.Errorf("enter the root: %w", err)
	}
	for name, value := range map[string]string{
		// No program needs namespaces of its own, and half of the kernel's holes do.
		"user/max_user_namespaces": "0",
		// What a program reserves is not what it has: its limit is met when it touches
		// too much, as everywhere else, and not by a refusal at the size of the machine.
		"vm/overcommit_memory": "1",
	} {
		if err := os.WriteFile("/proc/sys/"+name, []byte(value), 0); err != nil {
			return fmt.Errorf("set up the kernel: %w", err)
		}
	}
	// An interface that comes later speaks no IPv6; loopback does.
	if err := os.WriteFile("/proc/sys/net/ipv6/conf/default/disable_ipv6", []byte("1"), 0); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("set up the kernel: %w", err)
	}
	return errors.Join(os.Chdir("/"), protectKernel("/proc"), loopbackUp())
}

// protectKernel makes what root could steer the whole kernel with read-only: a
// command of root must not get by it what its capabilities do not give.
func protectKernel(proc string) error {
	for _, name := range []string{"/sys", "/sysrq-trigger", "/irq", "/bus"} {
		at := proc + name
		if err := unix.Mount(at, at, "", unix.MS_BIND, ""); errors.Is(err, unix.ENOENT) {
			continue
		} else if err != nil {
			return fmt.Errorf("protect %s: %w", at, err)
		}
		if err := unix.Mount("", at, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, ""); err != nil {
			return fmt.Errorf("protect %s: %w", at, err)
		}
	}
	return nil
}

// loopbackUp lets programs of the machine talk with each other by network.
func loopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("switch loopback on: %w", err)
	}
	defer unix.Close(fd)
	req, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	req.SetUint16(unix.IFF_UP)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, req); err != nil {
		return fmt.Errorf("switch loopback on: %w", err)
	}
	return nil
}
