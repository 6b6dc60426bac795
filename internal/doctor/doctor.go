// Package doctor checks a host: what Assay needs there, what only makes it
// weaker or slower, and the remedy for each. Start with Examine, Host and
// Report; ThisHost is the host this process runs on.
//
// The package is apart from the command line because a server examines its
// host at start too. It changes nothing that stays, and must not know any
// driver, template or command.
package doctor

import (
	"context"
	"io/fs"
)

// Level says how a check came out.
type Level string

// The levels.
const (
	OK   Level = "ok"
	Warn Level = "warn" // Assay works, but weaker, slower or less fair
	Fail Level = "fail" // something that is needed is missing
)

// Finding is what one check found.
type Finding struct {
	// Check is the stable name of the check: lower case with underscores.
	Check string `json:"check"`
	Level Level  `json:"level"`
	// Detail says what was found, in a few words.
	Detail string `json:"detail"`
	// Remedy says what to do; it is empty only when Level is OK.
	Remedy string `json:"remedy,omitempty"`
}

// Report is what Examine found, in a fixed order.
type Report struct {
	Findings []Finding
}

// Count gives how many findings have a level.
func (r Report) Count(level Level) int {
	n := 0
	for _, f := range r.Findings {
		if f.Level == level {
			n++
		}
	}
	return n
}

// Ready reports whether nothing needed is missing.
func (r Report) Ready() bool { return r.Count(Fail) == 0 }

// Host is the view of a host that the checks have. ThisHost fills it; a test
// describes any host with it.
type Host struct {
	// FS is the host's root directory, read only.
	FS fs.FS
	// UID is the effective user; 0 is root.
	UID int
	// Arch is the processor architecture as Go names it.
	Arch string
	// CPUs is how many processors this process may use.
	CPUs int
	// DataDir is where Assay keeps its data; it may not exist yet.
	DataDir string
	// BinDir is where the assay executable lies, absolute.
	BinDir string
	// LookPath finds a program as exec.LookPath does.
	LookPath func(program string) (string, error)
	// Space gives what is free on the filesystem that holds, or would hold, a
	// path.
	Space func(path string) (Space, error)
	// Writable says why a directory, or the nearest one above it that exists,
	// cannot be written to; nil when it can.
	Writable func(path string) error
	// MakeCgroup makes a cgroup below a directory and removes it again.
	MakeCgroup func(dir string) error
	// MakeUserNamespace starts a program in a user namespace of its own.
	MakeUserNamespace func(ctx context.Context) error
	// QEMUVersion asks the host's QEMU for its version: "7.2.22".
	QEMUVersion func(ctx context.Context) (string, error)
	// MakeVM makes an empty virtual machine with /dev/kvm and drops it.
	MakeVM func() error
	// MakeNetwork makes a network for a sandbox and drops it; nil if that was not
	// to be tried. The hint of its error is the remedy.
	MakeNetwork func() error
}

// Space is what is free on a filesystem.
type Space struct {
	// Bytes is free to this user.
	Bytes int64
	// Files is the number of files that can still be made; negative when the
	// filesystem has no such bound.
	Files int64
}

// check looks at one thing. name is also Finding.Check.
type check struct {
	name string
	look func(ctx context.Context, h *Host) Finding
}

// checks is every check in the order of the report: first what most often
// explains the others.
var checks = []check{
	{"user", checkUser},
	{"kernel", checkKernel},
	{"user_namespaces", checkUserNamespaces},
	{"cgroups", checkCgroups},
	{"cgroup_write", checkCgroupWrite},
	{"seccomp", checkSeccomp},
	{"ptrace", checkPtrace},
	{"kvm", checkKVM},
	{"guestd", companion("guestd", "it is put into every template")},
	{"assay-boot", companion("assay-boot", "it is the process that becomes a machine")},
	{"drivers", checkDrivers},
	{"network", checkNetwork},
	{"mkfs.erofs", checkErofs},
	{"mmdebstrap", checkMmdebstrap},
	{"disk", checkDisk},
	{"memory", checkMemory},
	{"swap", checkSwap},
	{"overcommit", checkOvercommit},
	{"map_count", checkMapCount},
	{"pid_max", checkPidMax},
	{"cpus", checkCPUs},
	{"smt", checkSMT},
	{"turbo", checkTurbo},
	{"governor", checkGovernor},
	{"clocksource", checkClocksource},
}

// Examine runs every check. It leaves the host as it was and takes well below
// a second; ctx bounds the checks that start a process.
func Examine(ctx context.Context, h *Host) Report {
	var r Report
	for _, c := range checks {
		f := c.look(ctx, h)
		f.Check = c.name
		r.Findings = append(r.Findings, f)
	}
	return r
}

func ok(detail string) Finding           { return Finding{Level: OK, Detail: detail} }
func warn(detail, remedy string) Finding { return Finding{Level: Warn, Detail: detail, Remedy: remedy} }

func fail(detail, remedy string) Finding { return Finding{Level: Fail, Detail: detail, Remedy: remedy} }
