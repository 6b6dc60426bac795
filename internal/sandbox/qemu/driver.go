// Package qemu makes machines with a kernel of their own: QEMU microVMs, with
// hardware virtualization where /dev/kvm works and by emulation elsewhere, the
// same code. Start with New. A machine is one unprivileged QEMU process; its
// root is the template's EROFS image with a writable layer in the guest's
// memory, so that one file of memory and one of devices hold all its state.
//
// It knows nothing of guestd's protocol, pools or templates: it implements
// sandbox.Driver and no more.
package qemu

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"assay/internal/fault"
	"assay/internal/sandbox"
	"assay/internal/sandbox/cgroup"
)

// The ways to run guest code.
const (
	KVM = "kvm" // by the host's processor; untested on hardware
	TCG = "tcg" // emulated: 5 to 15 times slower, times say nothing
)

// Options are the driver's settings.
type Options struct {
	// QEMU is the program; empty looks for qemu-system-x86_64.
	QEMU string
	// KernelDir is a directory with boot/vmlinuz-… and lib/modules/…; empty looks
	// where tools/install-guest-kernel puts them, and then at the host's own.
	KernelDir string
	// Guestd is the path of guestd, which boots the guest.
	Guestd string
	// BoxBinary is the path of assay-box, which shuts QEMU in.
	BoxBinary string
	// CacheDir is where what is made once for this host is kept.
	CacheDir string
	// Accel is KVM or TCG; empty is KVM where /dev/kvm can be used, else TCG.
	Accel string
	// WithoutCgroups lets machines be made where cgroups cannot be, as root of a
	// user namespace: QEMU has no user of its own then, either.
	WithoutCgroups bool
}

// Driver makes QEMU machines. It implements sandbox.Driver.
type Driver struct {
	opts      Options
	tree      *cgroup.Tree
	version   string
	kernel    kernel
	initramfs string
	identity  string
	templates templates
}

var (
	_ sandbox.Driver   = (*Driver)(nil)
	_ sandbox.Emulator = (*Driver)(nil)
)

const packageHint = "apt-get install --no-install-recommends qemu-system-x86"

// New checks the host and gives a driver. It fails with fault.Unsupported and
// the remedy when this host or user cannot run QEMU machines.
func New(opts Options) (*Driver, error) {
	if os.Geteuid() != 0 {
		return nil, fault.Errorf(fault.Unsupported, "QEMU machines need namespaces of their own, which only root can make").
			WithHint("run as root, or as root of a user namespace: unshare --map-root-user")
	}
	if err := opts.settle(); err != nil {
		return nil, err
	}
	version, err := qemuVersion(opts.QEMU)
	if err != nil {
		return nil, err
	}
	dirs := kernelDirs
	if opts.KernelDir != "" {
		dirs = []string{opts.KernelDir}
	}
	k, err := findKernel(dirs)
	if err != nil {
		return nil, err
	}
	tree, err := cgroup.Find()
	if err != nil {
		if !opts.WithoutCgroups {
			return nil, err
		}
		tree = cgroup.None()
	}
	initramfs, digest, err := k.bootFiles(opts.Guestd, opts.CacheDir)
	if err != nil {
		return nil, err
	}
	host, err := sandbox.HostIdentity()
	if err != nil {
		return nil, err
	}
	return &Driver{
		opts: opts, tree: tree, version: version, kernel: k, initramfs: initramfs,
		identity: fmt.Sprintf("qemu %s %s; guest %s %s; %s", version, opts.Accel, k.version, digest, host),
	}, nil
}

// settle fills in what the host decides.
func (o *Options) settle() error {
	if o.QEMU == "" {
		path, err := exec.LookPath("qemu-system-x86_64")
		if err != nil {
			return fault.Errorf(fault.Unsupported, "qemu-system-x86_64 is not installed").WithHint(packageHint)
		}
		o.QEMU = path
	}
	switch o.Accel {
	case "":
		o.Accel = TCG
		if f, err := os.OpenFile("/dev/kvm", os.O_RDWR, 0); err == nil {
			_ = f.Close()
			o.Accel = KVM
		}
	case KVM, TCG:
	default:
		return fault.Errorf(fault.Invalid, "accelerator %q of QEMU is neither %s nor %s", o.Accel, KVM, TCG).
			WithHint("leave it out: KVM is taken where it works")
	}
	if info, err := os.Stat(o.BoxBinary); err != nil || info.Mode()&0o111 == 0 {
		return fault.Errorf(fault.Unsupported, "companion %s is missing or not executable", o.BoxBinary).
			WithHint("build it beside assay: make build")
	}
	return nil
}

// The versions that are known to save and load a machine's devices as this
// driver asks them to.
const (
	oldestMajor, oldestMinor = 7, 2
	newestMajor              = 7
)

var versionText = regexp.MustCompile(`^QEMU emulator version ((\d+)\.(\d+)[^ \n]*)`)

// qemuVersion asks the program for its version, and refuses one that is not
// known to work.
func qemuVersion(program string) (string, error) {
	out, err := exec.Command(program, "--version").Output()
	if err != nil {
		return "", fault.Errorf(fault.Unsupported, "ask %s for its version: %w", program, err).WithHint(packageHint)
	}
	return parseVersion(program, string(out))
}

func parseVersion(program, text string) (string, error) {
	m := versionText.FindStringSubmatch(text)
	if m == nil {
		return "", fault.Errorf(fault.Unsupported, "%s is not QEMU: it says %.80q", program, text).WithHint(packageHint)
	}
	major, _ := strconv.Atoi(m[2]) // digits; too many of them count as none
	minor, _ := strconv.Atoi(m[3])
	if major < oldestMajor || major == oldestMajor && minor < oldestMinor || major > newestMajor {
		return "", fault.Errorf(fault.Unsupported, "%s is QEMU %s; this driver is known to work with %d.%d only", program, m[1], oldestMajor, oldestMinor).
			WithHint("install the one of Debian 12 (%s), or put it first in PATH", packageHint)
	}
	return m[1], nil
}

// Name is "qemu".
func (d *Driver) Name() string { return "qemu" }

// Identity names QEMU's version and way, the guest's kernel and first
// filesystem, the host's kernel and its CPU features.
func (d *Driver) Identity() string { return d.identity }

// Emulated reports whether guest code is emulated: what time it takes then says
// nothing about any other host.
func (d *Driver) Emulated() bool { return d.opts.Accel == TCG }

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

// removeFiles removes what the driver keeps in a machine's directory: the root
// that QEMU sees.
func removeFiles(dir string) error { return os.RemoveAll(filepath.Join(dir, boxDir)) }

// boxDir is that root's name.
const boxDir = "box"

// memorySize is how much memory the guest's kernel has, in bytes: the guest's
// own, what its writable filesystems may hold, and what the kernel needs.
func memorySize(s sandbox.Shape) int64 {
	const unit = 2 << 20
	return (s.Memory + s.Disk + kernelMemory + unit - 1) / unit * unit
}

const (
	kernelMemory = 128 << 20
	// overhead is what QEMU holds besides the guest's memory, in bytes: itself,
	// and translated code.
	overhead  = 192 << 20
	codeCache = 64 // MiB
	// hostProcesses bounds QEMU's threads, besides one for each vCPU.
	hostProcesses = 64
)

// kernelLine is what the guest's kernel is told.
func (d *Driver) kernelLine(s sandbox.Shape) string {
	words := []string{
		// A machine that is lost says why, and then is gone.
		"console=ttyS0", "quiet", "loglevel=4", "panic=-1", "oops=panic", "reboot=t", "random.trust_cpu=on",
		// One user's machine: there is nobody inside to protect from each other,
		// and the host is protected from outside.
		"mitigations=off", "nokaslr", "swiotlb=noforce", "audit=0",
	}
	if d.Emulated() {
		words = append(words, "tsc_early_khz="+strconv.FormatUint(hostTSC(), 10), "tsc=reliable", "lpj=4000000")
	}
	return strings.Join(append(words, guestEnv(s)...), " ")
}
