package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"assay/internal/guest"
)

// runDir is guestd's own directory, out of reach for commands of the user.
const runDir = "/run/assay"

// cgroupRoot is the group of all commands, as only guestd can name it.
var cgroupRoot string

var cgroupSerial atomic.Int64

// cgroup is the group of one command's process tree: its limit of processes,
// its usage, and the handle by which all of it is killed.
type cgroup struct {
	path                            string
	dir                             *os.File
	cpuStat, memCurrent, pidsEvents *os.File
}

// mountCgroups prepares the guest's cgroup tree, once, and the group of all
// commands in it, with the machine's limits.
// Commands of root may write any file they can name; so the tree is covered
// again, and guestd alone reaches it, through a descriptor.
func mountCgroups(l machineLimits) error {
	const dir = runDir + "/cgroup"
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if err := os.Chmod(runDir, 0o711); err != nil {
		return err
	}
	if err := unix.Mount("cgroup2", dir, "cgroup2", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil && !errors.Is(err, unix.EBUSY) {
		return fmt.Errorf("mount cgroup2: %w", err)
	}
	all := dir + "/commands"
	if err := os.Mkdir(all, 0o700); err != nil {
		return fmt.Errorf("make cgroup: %w", err)
	}
	set := [][2]string{{dir + "/cgroup.subtree_control", "+cpu +memory +pids"}, {all + "/cgroup.subtree_control", "+cpu +memory +pids"}}
	if l.processes > 0 {
		set = append(set, [2]string{all + "/pids.max", strconv.Itoa(l.processes)})
	}
	if l.kernel {
		// The rest is guestd's and the kernel's own: commands cannot starve them.
		set = append(set, [2]string{all + "/memory.max", strconv.FormatInt(l.memory+l.disk, 10)})
	}
	for _, f := range set {
		if err := os.WriteFile(f[0], []byte(f[1]), 0); err != nil {
			return fmt.Errorf("set up cgroups: %w", err)
		}
	}
	fd, err := unix.Open(all, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open cgroup tree: %w", err)
	}
	if err := unix.Mount("none", dir, "tmpfs", unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "size=0,mode=000"); err != nil {
		return fmt.Errorf("cover cgroup tree: %w", err)
	}
	cgroupRoot = "/proc/self/fd/" + strconv.Itoa(fd)
	return nil
}

// protectOwnFiles makes guestd's program read-only for root, too.
func protectOwnFiles() error {
	dir := filepath.Dir(guest.InitPath)
	if err := unix.Mount(dir, dir, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("mount %s: %w", dir, err)
	}
	if err := unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, ""); err != nil {
		return fmt.Errorf("make %s read-only: %w", dir, err)
	}
	return nil
}

// newCgroup makes an empty group. processes is the most it may hold, 0 for no
// bound of its own, and memory what the kernel lets it hold, 0 where the kernel
// only counts.
func newCgroup(processes int, memory int64) (*cgroup, error) {
	g := &cgroup{path: filepath.Join(cgroupRoot, "exec-"+strconv.FormatInt(cgroupSerial.Add(1), 10))}
	if err := os.Mkdir(g.path, 0o700); err != nil {
		return nil, fmt.Errorf("make cgroup: %w", err)
	}
	var err error
	if processes > 0 {
		err = os.WriteFile(g.path+"/pids.max", strconv.AppendInt(nil, int64(processes), 10), 0)
	}
	if memory > 0 && err == nil {
		// The whole tree ends, not the process that happens to be the largest.
		err = errors.Join(os.WriteFile(g.path+"/memory.max", strconv.AppendInt(nil, memory, 10), 0),
			os.WriteFile(g.path+"/memory.oom.group", []byte("1"), 0))
	}
	for _, f := range []struct {
		name string
		file **os.File
	}{{"", &g.dir}, {"/cpu.stat", &g.cpuStat}, {"/memory.current", &g.memCurrent}, {"/pids.events", &g.pidsEvents}} {
		if err == nil {
			*f.file, err = os.Open(g.path + f.name)
		}
	}
	if err != nil {
		g.close()
		return nil, fmt.Errorf("set up cgroup: %w", err)
	}
	return g, nil
}

// readAt reads a small cgroup file anew.
func readAt(f *os.File) []byte {
	var buf [512]byte
	n, err := unix.Pread(int(f.Fd()), buf[:], 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil
	}
	return buf[:n]
}

// field gives the number behind a key in "key value" lines.
func field(b []byte, key string) int64 {
	for line := range bytes.Lines(b) {
		k, v, ok := bytes.Cut(bytes.TrimSpace(line), []byte(" "))
		if ok && string(k) == key {
			n, _ := strconv.ParseInt(string(v), 10, 64)
			return n
		}
	}
	return 0
}

// cpu is the time the tree has used so far, dead processes included.
func (g *cgroup) cpu() (user, system time.Duration) {
	b := readAt(g.cpuStat)
	return time.Duration(field(b, "user_usec")) * time.Microsecond, time.Duration(field(b, "system_usec")) * time.Microsecond
}

// memory is what the tree holds now, in bytes.
func (g *cgroup) memory() int64 {
	n, _ := strconv.ParseInt(string(bytes.TrimSpace(readAt(g.memCurrent))), 10, 64)
	return n
}

// refused counts processes and threads that did not fit.
func (g *cgroup) refused() int64 { return field(readAt(g.pidsEvents), "max") }

// outOfMemory reports whether the kernel ended processes of the tree because
// of a limit of memory, its own or the machine's.
func (g *cgroup) outOfMemory() bool {
	b, err := os.ReadFile(g.path + "/memory.events")
	return err == nil && field(b, "oom_kill") > 0
}

// memoryPeak is the most that the kernel counted, in bytes, 0 where it does not.
func (g *cgroup) memoryPeak() int64 { return g.number("memory.peak") }

// processes is how many processes and threads there are.
func (g *cgroup) processes() int { return int(g.number("pids.current")) }

// processesPeak is the most there were at one moment, 0 where the kernel does
// not count it.
func (g *cgroup) processesPeak() int { return int(g.number("pids.peak")) }

// number reads a file that holds one, 0 where there is no such file.
func (g *cgroup) number(file string) int64 {
	b, err := os.ReadFile(filepath.Join(g.path, file))
	if err != nil {
		return 0
	}
	n, _ := strconv.ParseInt(string(bytes.TrimSpace(b)), 10, 64)
	return n
}

// empty reports whether no process is left.
func (g *cgroup) empty() bool {
	b, err := os.ReadFile(g.path + "/cgroup.events")
	return err != nil || field(b, "populated") == 0
}

// kill ends every process of the tree. No fork slips through: the kernel
// marks the group, not a list.
func (g *cgroup) kill() {
	_ = os.WriteFile(g.path+"/cgroup.kill", []byte("1"), 0) // gone already is as good
}

// remove takes away an empty group.
func (g *cgroup) remove() error {
	g.close()
	return os.Remove(g.path)
}

func (g *cgroup) close() {
	for _, f := range []*os.File{g.dir, g.cpuStat, g.memCurrent, g.pidsEvents} {
		if f != nil {
			_ = f.Close()
		}
	}
}
