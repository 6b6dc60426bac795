package main

import (
	"bytes"
	"os"
	"runtime"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"assay/internal/guest"
)

// The watch looks as often as the nearest limit demands, between these bounds:
// each look costs some tens of microseconds of a processor the program could
// have used, and is counted as its time. So what cannot change much in between
// is looked at less often: the disk, refused processes, and the processor time
// while the limit is far.
const (
	watchRest  = 50 * time.Millisecond
	watchFirst = time.Millisecond
	watchMin   = 3 * time.Millisecond
	watchMax   = 10 * time.Millisecond
	// watchCalm is for a command that is not new and whose memory has not changed.
	watchNew  = 30 * time.Millisecond
	watchCalm = 25 * time.Millisecond
	// fillRate is how fast a program can touch new memory, in bytes per second;
	// measured below 2 GB/s on one processor.
	fillRate = 3 << 30
)

// watch ends the command when it crosses a limit the kernel does not enforce
// by itself. It returns when stop is closed.
func (c *command) watch(stop <-chan struct{}) {
	l := c.spec.Limits
	var wall <-chan time.Time
	if l.Wall > 0 {
		t := time.NewTimer(l.Wall)
		defer t.Stop()
		wall = t.C
	}
	c.looked = time.Now()
	next := time.NewTimer(watchFirst) // short programs have a memory peak too
	defer next.Stop()
	for {
		select {
		case <-stop:
			c.restAt, c.cpuAt = time.Time{}, time.Time{}
			c.look()
			return
		case <-wall:
			c.end(guest.WallLimit)
		case <-next.C:
			next.Reset(c.look())
		}
	}
}

// look checks every limit once and says when to look again.
func (c *command) look() time.Duration {
	l := c.spec.Limits
	wait := watchMax
	mem := c.group.memory()
	now := time.Now()
	if mem == c.held && now.Sub(c.started) > watchNew {
		wait = watchCalm
	}
	c.held = mem
	c.mu.Lock()
	c.peak = max(c.peak, mem)
	c.gap, c.looked = max(c.gap, now.Sub(c.looked)), now
	c.mu.Unlock()
	// A command without a limit of its own must not take the machine with it.
	limit := l.Memory
	if limit == 0 || limit > c.machineMemory {
		limit = c.machineMemory
	}
	if c.exact {
		c.processes = max(c.processes, c.group.processesNow())
	} else if mem > limit {
		// Files lie in memory too: what fills the disk fast can be past both
		// limits before the disk's turn to be looked at.
		if l.Disk > 0 && c.lookAtDisk() > l.Disk {
			c.end(guest.DiskLimit)
		}
		c.end(guest.MemoryLimit)
	}
	if !c.exact {
		wait = min(wait, time.Duration(float64(limit-mem)/fillRate*float64(time.Second)))
	}
	rest := now.After(c.restAt)
	if rest {
		c.restAt = now.Add(watchRest)
	}
	if l.CPU > 0 && !now.Before(c.cpuAt) {
		user, system := c.group.cpu()
		left := l.CPU - user - system
		if left < 0 {
			c.end(guest.CPULimit)
		}
		left /= time.Duration(runtime.NumCPU())
		c.cpuAt = now.Add(left)
		wait = min(wait, left)
	}
	if l.CPU > 0 {
		wait = min(wait, c.cpuAt.Sub(now))
	}
	if rest && l.Processes > 0 && c.group.refused() > 0 {
		c.end(guest.ProcessLimit)
	}
	if rest && l.Disk > 0 {
		if c.lookAtDisk() > l.Disk {
			c.end(guest.DiskLimit)
		}
	}
	return max(wait, watchMin)
}

// lookAtDisk counts what the command has added to the disk, keeps the most, and
// gives the present number of bytes. Files of an isolated command's own
// filesystems count like any other.
func (c *command) lookAtDisk() int64 {
	used := diskUsed(c.freshRoot, c.freshDirs) - c.diskBefore
	c.mu.Lock()
	c.disk = max(c.disk, used)
	c.mu.Unlock()
	return used
}

// diskSeen is the most that lookAtDisk has counted.
func (c *command) diskSeen() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.disk
}

// writable are the filesystems that commands can fill.
var writable = []string{"/", "/tmp", "/dev/shm"}

// diskUsed is what lies on the machine's writable filesystems and on those of
// an isolated command, in bytes. root is where the latter are seen from here;
// before they are mounted, and after the command's end, they hold nothing.
func diskUsed(root string, fresh []string) int64 {
	var sum int64
	var seen []unix.Fsid
	count := func(dir string) {
		var st unix.Statfs_t
		if unix.Statfs(dir, &st) != nil || st.Fsid != (unix.Fsid{}) && slices.Contains(seen, st.Fsid) {
			return
		}
		seen = append(seen, st.Fsid)
		sum += int64(st.Blocks-st.Bfree) * st.Bsize
	}
	for _, dir := range writable {
		count(dir)
	}
	for _, dir := range fresh {
		count(root + dir)
	}
	return sum
}

// ownRSS is what this process holds now, in bytes.
func (d *daemon) ownRSS() int64 {
	var buf [128]byte
	n, err := unix.Pread(d.statm, buf[:], 0)
	if err != nil {
		return 0
	}
	fields := bytes.Fields(buf[:n])
	if len(fields) < 2 {
		return 0
	}
	pages, _ := strconv.ParseInt(string(fields[1]), 10, 64)
	return pages * int64(os.Getpagesize())
}
