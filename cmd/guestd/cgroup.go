package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"assay/internal/guest"
)

// runDir is guestd's own directory, out of reach for commands of the user.
const runDir = "/run/assay"

// cgroupRoot is the directory of the group of all commands. Only guestd has it.
var cgroupRoot int

var cgroupSerial atomic.Int64

// cgroup is the group of one command's process tree: its limit of processes,
// its usage, and the handle by which all of it is killed. What every command
// needs is opened once; plain descriptors, since nothing here ever waits, and
// each call of the system is dear in a guest.
type cgroup struct {
	name      string
	processes int // the most it may hold

	// mu keeps a late caller off descriptors that are closed, and by then perhaps
	// another file's. Those that are not open are -1.
	mu                                                             sync.Mutex
	dir, cpuStat, memCurrent, pidsEvents, pidsPeak, events, killer int
}

// cgroups keeps one empty group ready: to make it takes longer than to start a
// process in it.
type cgroups struct {
	processes int // of a group without a bound of its own

	mu    sync.Mutex
	spare *cgroup
}

// take gives a group that holds at most so many processes, 0 for no bound of its
// own. memory is what the kernel lets it hold, 0 where the kernel only counts.
func (gs *cgroups) take(processes int, memory int64) (*cgroup, error) {
	gs.mu.Lock()
	g := gs.spare
	gs.spare = nil
	gs.mu.Unlock()
	var err error
	if g == nil {
		if g, err = newCgroup(processes); err != nil {
			return nil, err
		}
	} else if processes != g.processes {
		err = g.bound(processes)
	}
	if memory > 0 && err == nil {
		// The whole tree ends, not the process that happens to be the largest.
		err = errors.Join(g.set("memory.max", memory), g.set("memory.oom.group", 1))
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("set up cgroup: %w", err), g.remove())
	}
	return g, nil
}

// prepare makes a spare group if there is none.
func (gs *cgroups) prepare() error {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	if gs.spare != nil {
		return nil
	}
	g, err := newCgroup(gs.processes)
	if err != nil {
		return err
	}
	gs.spare = g
	return nil
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
	cgroupRoot = fd
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

// drop removes the spare group: in a snapshot it would cost time, in which the
// machine stands still.
func (gs *cgroups) drop() error {
	gs.mu.Lock()
	g := gs.spare
	gs.spare = nil
	gs.mu.Unlock()
	if g == nil {
		return nil
	}
	return g.remove()
}

// newCgroup makes an empty group for so many processes, 0 for no bound of its
// own.
func newCgroup(processes int) (_ *cgroup, err error) {
	g := &cgroup{name: "exec-" + strconv.FormatInt(cgroupSerial.Add(1), 10)}
	fds := g.descriptors()
	for _, fd := range fds {
		*fd = -1
	}
	if err := unix.Mkdirat(cgroupRoot, g.name, 0o700); err != nil {
		return nil, fmt.Errorf("make cgroup: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("set up cgroup: %w", err), g.remove())
		}
	}()
	if g.dir, err = unix.Openat(cgroupRoot, g.name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err != nil {
		return nil, err
	}
	for i, name := range []string{"cpu.stat", "memory.current", "pids.events", "pids.peak", "cgroup.events", "cgroup.kill"} {
		how := unix.O_RDONLY
		if name == "cgroup.kill" {
			how = unix.O_WRONLY
		}
		fd, err := unix.Openat(g.dir, name, how|unix.O_CLOEXEC, 0)
		if errors.Is(err, unix.ENOENT) && name == "pids.peak" {
			continue // an older kernel
		}
		if err != nil {
			return nil, err
		}
		*fds[i+1] = fd
	}
	if processes > 0 {
		err = g.bound(processes)
	}
	return g, err
}

func (g *cgroup) descriptors() []*int {
	return []*int{&g.dir, &g.cpuStat, &g.memCurrent, &g.pidsEvents, &g.pidsPeak, &g.events, &g.killer}
}

// bound sets how many processes the group may hold.
func (g *cgroup) bound(processes int) error {
	g.processes = processes
	return g.set("pids.max", int64(processes))
}

// set writes a number to one of the group's files.
func (g *cgroup) set(file string, n int64) error {
	fd, err := unix.Openat(g.dir, file, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	_, err = unix.Write(fd, strconv.AppendInt(nil, n, 10))
	return errors.Join(err, unix.Close(fd))
}

// readAt reads a small file of the group anew.
func (g *cgroup) readAt(fd *int) []byte {
	g.mu.Lock()
	defer g.mu.Unlock()
	var buf [512]byte
	n, err := unix.Pread(*fd, buf[:], 0)
	if err != nil {
		return nil
	}
	return buf[:n]
}

// read reads a file that not every command needs.
func (g *cgroup) read(file string) []byte {
	g.mu.Lock()
	fd, err := unix.Openat(g.dir, file, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	g.mu.Unlock()
	if err != nil {
		return nil
	}
	defer unix.Close(fd)
	return g.readAt(&fd)
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
	b := g.readAt(&g.cpuStat)
	return time.Duration(field(b, "user_usec")) * time.Microsecond, time.Duration(field(b, "system_usec")) * time.Microsecond
}

// memory is what the tree holds now, in bytes.
func (g *cgroup) memory() int64 { return number(g.readAt(&g.memCurrent)) }

// number is the content of a file that holds one, 0 where there is no such file.
func number(b []byte) int64 {
	n, _ := strconv.ParseInt(string(bytes.TrimSpace(b)), 10, 64)
	return n
}

// refused counts processes and threads that did not fit.
func (g *cgroup) refused() int64 { return field(g.readAt(&g.pidsEvents), "max") }

// outOfMemory reports whether the kernel ended processes of the tree because
// of a limit of memory, its own or the machine's.
func (g *cgroup) outOfMemory() bool { return field(g.read("memory.events"), "oom_kill") > 0 }

// memoryPeak is the most that the kernel counted, in bytes, 0 where it does not.
func (g *cgroup) memoryPeak() int64 { return number(g.read("memory.peak")) }

// processesNow is how many processes and threads there are.
func (g *cgroup) processesNow() int { return int(number(g.read("pids.current"))) }

// processesPeak is the most there were at one moment, 0 where the kernel does
// not count it.
func (g *cgroup) processesPeak() int { return int(number(g.readAt(&g.pidsPeak))) }

// empty reports whether no process is left.
func (g *cgroup) empty() bool { return field(g.readAt(&g.events), "populated") == 0 }

// kill ends every process of the tree. No fork slips through: the kernel
// marks the group, not a list.
func (g *cgroup) kill() {
	g.mu.Lock()
	defer g.mu.Unlock()
	_, _ = unix.Write(g.killer, []byte("1")) // gone already is as good
}

// remove takes away an empty group.
func (g *cgroup) remove() error {
	g.mu.Lock()
	for _, fd := range g.descriptors() {
		if *fd >= 0 {
			_ = unix.Close(*fd)
		}
		*fd = -1
	}
	g.mu.Unlock()
	if err := unix.Unlinkat(cgroupRoot, g.name, unix.AT_REMOVEDIR); err != nil {
		return fmt.Errorf("remove cgroup %s: %w", g.name, err)
	}
	return nil
}
