// Package gvisor makes machines with gVisor, linked as a library: no daemon, no
// other program to install. Start with New. A machine is one boot process
// (cmd/assay-boot) with the guest's root filesystem from an EROFS image, a
// writable layer in memory, and guestd as init on an inherited socket.
//
// It knows nothing of guestd's protocol, pools or templates: it implements
// sandbox.Driver and no more.
package gvisor

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strconv"

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/log"
	"gvisor.dev/gvisor/runsc/config"
	"gvisor.dev/gvisor/runsc/flag"
	"gvisor.dev/gvisor/runsc/specutils"

	"assay/internal/fault"
	"assay/internal/sandbox"
	"assay/internal/sandbox/cgroup"
	"assay/internal/sandbox/gvisor/bootfile"
)

// Options are the driver's settings.
type Options struct {
	// BootBinary is the path of assay-boot.
	BootBinary string
	// Platform is gVisor's way to run guest code: "systrap" (anywhere, the
	// default) or "kvm" (where /dev/kvm works; untested on hardware).
	Platform string
	// CacheDir is where what is compiled once for this host is kept.
	CacheDir string
	// WithoutCgroups lets machines be made where cgroups cannot be: no wall on
	// the host's side around a machine's memory and processes then, no count of
	// its CPU time to compare with, only the limits inside.
	WithoutCgroups bool
	// DebugLog, when not empty, is a directory for gVisor's own debug logs.
	DebugLog string
}

// startsAtOnce is how many machines may be started at the same moment.
const startsAtOnce = 8

// Driver makes gVisor machines. It implements sandbox.Driver.
type Driver struct {
	opts     Options
	tree     *cgroup.Tree
	identity string
	filter   string // path of the compiled system call filter
	// starting has an entry for each machine that is being started.
	starting chan struct{}
}

var _ sandbox.Driver = (*Driver)(nil)

// New checks the host and gives a driver. It fails with fault.Unsupported and
// the remedy when this host or user cannot run gVisor machines.
func New(opts Options) (*Driver, error) {
	if opts.Platform == "" {
		opts.Platform = "systrap"
	}
	if os.Geteuid() != 0 {
		return nil, fault.Errorf(fault.Unsupported, "gVisor machines need namespaces and a root of their own, which only root can make").
			WithHint("run as root, or as root of a user namespace: unshare --map-root-user")
	}
	if info, err := os.Stat(opts.BootBinary); err != nil || info.Mode()&0o111 == 0 {
		return nil, fault.Errorf(fault.Unsupported, "boot binary %s is missing or not executable", opts.BootBinary).
			WithHint("build it beside assay: make build")
	}
	tree, err := cgroup.Find()
	if err != nil {
		if !opts.WithoutCgroups {
			return nil, err
		}
		tree = cgroup.None()
	}
	identity, err := hostIdentity(opts.Platform)
	if err != nil {
		return nil, err
	}
	filter, err := compiledFilter(opts)
	if err != nil {
		return nil, err
	}
	// The library speaks through a log of its own; what matters to us comes
	// back as an error.
	log.SetTarget(&log.Writer{Next: io.Discard})
	specutils.ExePath = opts.BootBinary
	growFDTable()
	return &Driver{opts: opts, tree: tree, identity: identity, filter: filter, starting: make(chan struct{}, startsAtOnce)}, nil
}

// compiledFilter gives the file with the boot process's system call filter,
// compiled now if it never was by this boot binary.
func compiledFilter(opts Options) (string, error) {
	info, err := os.Stat(opts.BootBinary)
	if err != nil {
		return "", fmt.Errorf("look at boot binary: %w", err)
	}
	key := sha256.Sum256(fmt.Appendf(nil, "%s %d %d %s", opts.BootBinary, info.Size(), info.ModTime().UnixNano(), opts.Platform))
	path := filepath.Join(opts.CacheDir, "filter-"+hex.EncodeToString(key[:8])+".json")
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	program, err := exec.Command(opts.BootBinary, bootfile.FilterCommand, opts.Platform).Output()
	if err != nil {
		var said []byte
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			said = exit.Stderr
		}
		return "", fault.Errorf(fault.Unsupported, "compile system call filter for platform %s: %w: %s", opts.Platform, err, said)
	}
	if err := os.MkdirAll(opts.CacheDir, 0o700); err != nil {
		return "", fault.Errorf(fault.Internal, "keep system call filter: %w", err)
	}
	// Renamed into place: another process may be looking for it now.
	tmp := path + "." + strconv.Itoa(os.Getpid())
	err = os.WriteFile(tmp, program, 0o600)
	if err == nil {
		err = os.Rename(tmp, path)
	}
	if err != nil {
		return "", fault.Errorf(fault.Internal, "keep system call filter: %w", err)
	}
	return path, nil
}

// Name is "gvisor".
func (d *Driver) Name() string { return "gvisor" }

// Identity names gVisor's version and platform, the host's kernel and its CPU
// features: what a gVisor checkpoint depends on.
func (d *Driver) Identity() string { return d.identity }

func hostIdentity(platform string) (string, error) {
	version := "unknown"
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			if m.Path == "gvisor.dev/gvisor" {
				version = m.Version
			}
		}
	}
	host, err := sandbox.HostIdentity()
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("gvisor %s %s; %s", version, platform, host), nil
}

// conf is gVisor's configuration for a machine.
func (d *Driver) conf(m sandbox.MachineConfig) (*config.Config, error) {
	fs := flag.NewFlagSet("assay", flag.ContinueOnError)
	config.RegisterFlags(fs)
	set := map[string]string{
		"root":                 filepath.Join(m.Dir, "state"),
		"platform":             d.opts.Platform,
		"network":              "none",
		"ignore-cgroups":       "true", // the boot process joins ours by itself
		"in-sandbox-cgroup":    "v2",
		"host-uds":             "none",
		"host-settings":        "ignore",
		"overlay2":             "none", // the root's layer is set in the spec
		"file-access":          "exclusive",
		"oci-seccomp":          "false",
		"watchdog-action":      "log",
		"sidecar-usage-policy": "LEGACY_DEPRECATED_SLOW_EMBEDDED_FALLBACK",
		// The engine checks what a snapshot needs by its key; gVisor would also
		// refuse one whose image lies at another path than when it was taken.
		"restore-spec-validation": "ignore",
		"gvisor-marker-file":      "false",
	}
	if m.NetNS != "" {
		// The guest's own network stack sends frames on the namespace's interface,
		// whose address it takes over.
		set["network"] = "sandbox"
	}
	if d.opts.DebugLog != "" {
		set["debug"] = "true"
		set["debug-log"] = d.opts.DebugLog + "/"
	}
	for k, v := range set {
		if err := fs.Set(k, v); err != nil {
			return nil, fmt.Errorf("set gVisor's %s: %w", k, err)
		}
	}
	return config.NewFromFlags(fs)
}

// overhead is what a boot process and its helpers hold besides the guest's
// own memory, in bytes.
const overhead = 96 << 20

// hostProcesses bounds a machine's processes on the host. gVisor has a stub
// process with several threads for each address space of the guest and threads
// of its own; it cannot go on when it is refused one, so this is behind the
// guest's own bound: four for each process of the guest were measured too few
// for a fork bomb, twelve enough.
func hostProcesses(s sandbox.Shape) int { return 12*s.Processes + 256 }

// Boot makes a machine from nothing.
func (d *Driver) Boot(ctx context.Context, cfg sandbox.MachineConfig) (sandbox.Machine, error) {
	return d.make(ctx, cfg, "")
}

// Restore makes a machine from a checkpoint.
func (d *Driver) Restore(ctx context.Context, cfg sandbox.MachineConfig, snapshotDir string) (sandbox.Machine, error) {
	return d.make(ctx, cfg, snapshotDir)
}

// Reclaim is Driver.Reclaim for who has no driver of this kind.
func Reclaim(ctx context.Context, id, dir string) error {
	tree, err := cgroup.Find()
	if err != nil {
		tree = cgroup.None() // then none was made
	}
	return (&Driver{tree: tree}).Reclaim(ctx, id, dir)
}

// Reclaim kills and removes what a machine of an earlier life left.
func (d *Driver) Reclaim(ctx context.Context, id, dir string) error {
	return errors.Join(d.tree.At(id).Remove(ctx), removeFiles(dir))
}

// growFDTable makes this process's table of descriptors large once. Children
// get a table of the same size; growing it in a process with many threads, as
// the boot process would, waits for the kernel's grace periods each time.
func growFDTable() {
	const high = 1000
	// The table is as large as its highest entry, so this one stays open. If
	// there is no room for it, machines start a little slower.
	_, _ = unix.FcntlInt(0, unix.F_DUPFD_CLOEXEC, high)
}
