// Package sandbox is the engine: it gives out throwaway machines and takes
// them away again. Start with Manager (create, fork, snapshot, destroy),
// Sandbox (one machine in use) and Driver (what a technology must give).
//
// The package knows nothing of judging, grading or rooms, of SQL or HTTP, and
// never imports a driver: package app hands one in.
package sandbox

import (
	"context"
	"net"
	"os"
	"time"

	"assay/internal/guest"
)

// The words of an exec are the guest link's own; users of the engine need only
// this package.
type (
	Limits   = guest.Limits
	Exit     = guest.Exit
	Usage    = guest.Usage
	Cause    = guest.Cause
	ExecSpec = guest.ExecSpec
	Result   = guest.Result
)

// Shape is the size of a machine. It belongs to the template, so everyone on
// one template gets the same machine.
type Shape struct {
	// VCPUs is how many processors the guest sees and may use at once.
	VCPUs int `json:"vcpus" yaml:"vcpus"`
	// Memory is what the guest may hold, in bytes.
	Memory int64 `json:"memory_bytes" yaml:"memory"`
	// Disk is what the guest may write on top of its root filesystem, in bytes.
	Disk int64 `json:"disk_bytes" yaml:"disk"`
	// Processes is how many processes and threads may be alive at once.
	Processes int `json:"processes" yaml:"processes"`
}

// Template is a built starting point, as internal/image made it.
type Template struct {
	Name string `json:"name"`
	// Digest names the root filesystem, guestd and warm-up by content
	// ("sha256:…").
	Digest string `json:"digest"`
	// Image is the path of the EROFS root filesystem on this host.
	Image string `json:"image"`
	Shape Shape  `json:"shape"`
	// Driver is the name of the driver that makes its machines; empty is the
	// manager's own.
	Driver string `json:"driver,omitempty"`
	// Warm are commands run once after a cold boot, before the snapshot that
	// later machines are restored from.
	Warm []string `json:"warm,omitempty"`
	// Snapshots is the directory where snapshots of the warm machine are kept,
	// one for each key (driver, version, host kernel, CPU features, shape).
	Snapshots string `json:"snapshots"`
}

// MachineConfig is what a driver needs to make one machine.
type MachineConfig struct {
	// ID is unique on this node: lower-case letters, digits and dashes.
	ID string
	// Dir exists, is empty and belongs to the machine. Everything the driver
	// keeps on disk is in it, so that Reclaim needs no more than ID and Dir.
	Dir string
	// Image is the EROFS root filesystem; its init is guestd at guest.InitPath.
	Image string
	Shape Shape
	// NetNS is the path of the network namespace to be in, with the interfaces
	// that the guest gets. Empty is none but loopback.
	NetNS string
	// Persistent lets the machine outlive this process; else the kernel ends it
	// with the process, however that ends. fault.Unsupported from drivers that
	// are no Adopter.
	Persistent bool
	// Tap is where the frames of the guest's interface go, for a Framer; nil is
	// none. The driver hands it to the machine and leaves it open here.
	Tap *os.File
}

// Driver makes machines with one technology. A driver gives a byte stream to
// guestd and lifecycle verbs, nothing more: exec, files, terminals and ports
// are guestd's protocol and the same code for every driver.
//
// All methods may be called at the same time from many goroutines. A call that
// fails leaves nothing behind. Kinds of error: fault.Unsupported when this host
// cannot (with the remedy as hint), fault.Exhausted when it is full,
// fault.Invalid for a snapshot of another key, else fault.Internal.
type Driver interface {
	// Name is the driver's name in records and on the command line: "gvisor".
	Name() string
	// Identity names everything besides template and shape that a snapshot
	// depends on: driver and version, host kernel, CPU features. A snapshot is
	// only restored where Identity is the same string.
	Identity() string
	// Boot makes a machine and starts guestd from nothing. It returns when the
	// machine runs; guestd may not have answered yet.
	Boot(ctx context.Context, cfg MachineConfig) (Machine, error)
	// Restore makes a machine from a directory that Machine.Snapshot filled.
	// guestd in it waits for a new session on the machine's link.
	Restore(ctx context.Context, cfg MachineConfig, snapshotDir string) (Machine, error)
	// Reclaim kills and removes whatever a machine of an earlier life with this
	// ID and Dir left: processes, mounts, cgroups, files. It may be called for
	// a machine that was never finished, or twice.
	Reclaim(ctx context.Context, id, dir string) error
}

// Emulator is what a Driver can be besides, when it may run guest code on an
// emulated processor: then what time anything takes says nothing about any other
// machine, and limits of time must be wide.
type Emulator interface {
	Emulated() bool
}

// Framer is what a Driver can be besides, when its guests have kernels that speak
// Ethernet: a network is given to them as a file of frames, and guestd is told
// the address.
type Framer interface {
	Frames()
}

// Machine is a running machine inside the engine. Pause, Resume and Snapshot
// are called one at a time; all else may be called at any time.
type Machine interface {
	// Link is the host's end of the byte stream to guestd: the same connection
	// at every call, open until the machine ends, when reading gives io.EOF.
	// Package guest runs one session after another on it.
	Link() net.Conn
	// Snapshot freezes memory and disk into dir (existing, empty) and lets the
	// machine go on. The caller has ended guestd's session before.
	Snapshot(ctx context.Context, dir string) error
	// Pause stops every process of the guest; Resume lets them go on.
	Pause(ctx context.Context) error
	Resume(ctx context.Context) error
	// Usage is what the host counted for the whole machine since it began.
	Usage() (HostUsage, error)
	// Processes are the host's processes that the machine consists of now, for
	// people who measure.
	Processes() []int
	// Ended is closed when the machine is gone, whoever ended it.
	Ended() <-chan struct{}
	// End says why, once Ended is closed: Killed after Destroy, MemoryLimit
	// when the host's wall for the machine's memory was hit, else MachineLost.
	End() Cause
	// Destroy ends the machine in any state and frees everything but
	// MachineConfig.Dir itself. It is idempotent; the first call does the work
	// and the others wait for it.
	Destroy(ctx context.Context) error
}

// HostUsage is what the host counted of a machine from outside.
type HostUsage struct {
	CPU time.Duration
	// Waited is for how long a thread of the machine was ready to run and none of
	// the host's processors ran it. Zero where the kernel does not count it.
	Waited time.Duration
	// Memory and MemoryPeak are in bytes and include the driver's own.
	Memory, MemoryPeak int64
}
