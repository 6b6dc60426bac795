// Package guest is the link to guestd, our process inside every sandbox: the
// words both sides use, the wire, and the host's Client. Start with Client and
// ExecSpec; cmd/guestd is the other side.
//
// The wire is HTTP/2 without TLS over one byte stream that the driver gives.
// A session on that stream is disposable: it ends before a snapshot, and the
// machine and each machine restored from it open a new one (link.go). Execs,
// terminals and watches live in guestd under their keys and are attached to
// again, so a broken session loses nothing and runs nothing twice.
//
// The package must not know drivers, templates, judging or any store. What
// comes from the guest is hostile input: every length is bounded here.
package guest

// InitPath is where guestd lies in every root filesystem.
const InitPath = "/.assay/guestd"

// LinkFD is the descriptor on which guestd finds its link when the driver
// hands it over by inheritance.
const LinkFD = 3

// WiresFD is the descriptor of the socket (SOCK_SEQPACKET) on which guestd is
// given ends of host pipes, where the driver can: a message is the name of a
// wire with WireFiles descriptors, the program's stdin and stdout. guestd
// answers with the name. Names have at most MaxWireName bytes.
const (
	WiresFD     = 4
	WireFiles   = 2
	MaxWireName = 64
)

// ProcessesEnv is the variable of guestd's environment in which the driver says
// how many processes and threads all commands together may have.
const ProcessesEnv = "ASSAY_PROCESSES"

// What a driver with a kernel of its own tells guestd besides, by the kernel's
// command line, which becomes the environment of the first process. VMEnv is
// VMBoot for the program that boots the machine out of the kernel's first
// filesystem, with the modules in VMModules, and VMRunning for guestd itself.
// MemoryEnv is what all commands together may hold and DiskEnv how much each
// writable filesystem takes, both in bytes.
const (
	VMEnv     = "ASSAY_VM"
	VMBoot    = "boot"
	VMRunning = "running"
	VMModules = "/modules"
	// VMLater names the descriptors of modules that guestd loads when the machine
	// is given a network.
	VMLater   = "ASSAY_VM_LATER"
	MemoryEnv = "ASSAY_MEMORY"
	DiskEnv   = "ASSAY_DISK"
)

// Version is the wire's version. Host and guestd must have the same.
const Version = 3
