package main

import (
	"os"
	"strconv"

	"assay/internal/guest"
)

// machineLimits are what all commands together may have.
type machineLimits struct {
	// processes is how many; 0 is no bound.
	processes int
	// kernel is set where the guest's kernel keeps limits of memory by itself, as
	// it does in a virtual machine. gVisor only counts: there the watch does it.
	kernel bool
	// memory is what they may touch, disk what each writable filesystem, which
	// lies in memory too, takes, in bytes. Only for kernel.
	memory, disk int64
}

// readLimits reads what the driver says of the machine.
func readLimits() machineLimits {
	l := machineLimits{kernel: os.Getenv(guest.VMEnv) == guest.VMRunning}
	l.processes, _ = strconv.Atoi(os.Getenv(guest.ProcessesEnv)) // absent: no bound
	l.memory, _ = strconv.ParseInt(os.Getenv(guest.MemoryEnv), 10, 64)
	l.disk, _ = strconv.ParseInt(os.Getenv(guest.DiskEnv), 10, 64)
	return l
}

// processLimit is the command's own bound, or the machine's.
func (d *daemon) processLimit(own int) int {
	if own > 0 && (d.limits.processes == 0 || own < d.limits.processes) {
		return own
	}
	return d.limits.processes
}

// memoryLimit is what the kernel is told to keep the command below: its own
// limit or the machine's; 0 where it is the watch that does.
func (d *daemon) memoryLimit(own int64) int64 {
	switch {
	case !d.limits.kernel:
		return 0
	case own > 0:
		return min(own, d.limits.memory)
	default:
		return d.limits.memory
	}
}

// sawMemoryLimit notes that the kernel ended the command for its memory. Files
// lie in memory too: what fills the disk fast can meet that limit before the
// disk's is looked at.
func (c *command) sawMemoryLimit() {
	if !c.exact || !c.group.outOfMemory() {
		return
	}
	cause := guest.MemoryLimit
	if l := c.spec.Limits.Disk; l > 0 && (c.lookAtDisk() > l || c.diskSeen() > l) {
		cause = guest.DiskLimit
	}
	c.end(cause)
}
