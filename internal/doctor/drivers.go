package doctor

import (
	"context"
	"fmt"
	"io/fs"
	"path"
	"strings"
)

// guestKernels are where driver qemu looks for a guest's kernel.
var guestKernels = []string{"usr/local/lib/assay/guest-kernel/boot/vmlinuz-*-cloud-amd64", "boot/vmlinuz-*-cloud-amd64"}

// knownQEMU begins the versions that driver qemu is known to work with.
const knownQEMU = "7."

// checkDrivers says which drivers this host can run, and which to choose.
func checkDrivers(ctx context.Context, h *Host) Finding {
	const without = "gvisor, the default; qemu cannot be used: "
	if h.Arch != "amd64" {
		return ok("gvisor; qemu is there for x86-64 hosts only")
	}
	if _, err := h.LookPath("qemu-system-x86_64"); err != nil {
		return warn(without+"no qemu-system-x86_64", "apt-get install --no-install-recommends qemu-system-x86, where a guest kernel of its own is wanted")
	}
	version, err := h.QEMUVersion(ctx)
	if err != nil || !strings.HasPrefix(version, knownQEMU) {
		if err != nil {
			version = err.Error()
		}
		return warn(without+"QEMU's version is "+version, "install the QEMU of Debian 12: it is known to work with "+knownQEMU+"2")
	}
	if !h.hasGuestKernel() {
		return warn(without+"no guest kernel", "run tools/install-guest-kernel as root: it unpacks Debian's linux-image-cloud-amd64 beside the host's own")
	}
	box := path.Join(h.BinDir, "assay-box")
	if _, err := fs.Stat(h.FS, strings.TrimPrefix(box, "/")); err != nil {
		return warn(without+"no "+box, "run \"make build\", or install it beside assay")
	}
	if _, err := fs.Stat(h.FS, "dev/kvm"); err != nil {
		return ok(fmt.Sprintf("gvisor, the default and to be chosen; qemu %s emulated for want of KVM, which is slow: for tests only", version))
	}
	if err := h.MakeVM(); err != nil {
		return ok(fmt.Sprintf("gvisor, the default and to be chosen; qemu %s emulated, which is slow, since KVM cannot be used (%v): for tests only", version, err))
	}
	return ok(fmt.Sprintf("gvisor, the default; qemu %s with KVM: choose it for the strongest wall (--driver qemu)", version))
}

func (h *Host) hasGuestKernel() bool {
	for _, pattern := range guestKernels {
		if found, err := fs.Glob(h.FS, pattern); err == nil && len(found) > 0 {
			return true
		}
	}
	return false
}
