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
	"path/filepath"
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

// The boards that a guest finds itself on, the best first.
const (
	Microvm = "microvm" // a few devices without a bus: the quickest to restore
	Q35     = "q35"     // a PC, for a QEMU that was built without the other
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
	// Accel is KVM or TCG; empty is KVM where the device makes machines, else TCG.
	Accel string
	// KVMDevice is the device; empty is /dev/kvm.
	KVMDevice string
	// Board is Microvm or Q35; empty is the first that QEMU has.
	Board string
	// WithoutCgroups lets machines be made where cgroups cannot be, as root of a
	// user namespace: QEMU has no user of its own then, either.
	WithoutCgroups bool
}

// Driver makes QEMU machines. It implements sandbox.Driver.
type Driver struct {
	opts      Options
	tree      *cgroup.Tree
	board     board
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
	on, err := opts.board()
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
	initramfs, digest, err := k.bootFiles(opts.Guestd, opts.CacheDir, on.transport)
	if err != nil {
		return nil, err
	}
	host, err := sandbox.HostIdentity()
	if err != nil {
		return nil, err
	}
	return &Driver{
		opts: opts, tree: tree, board: on, kernel: k, initramfs: initramfs,
		identity: fmt.Sprintf("qemu %s %s %s; guest %s %s; %s", version, opts.Accel, on.name, k.version, digest, host),
	}, nil
}

// Name is "qemu".
func (d *Driver) Name() string { return "qemu" }

// Identity names QEMU's version, way and board, the guest's kernel and first
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
