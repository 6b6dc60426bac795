package qemu

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"assay/internal/fault"
	"assay/internal/kvm"
)

// settle fills in what the host decides.
func (o *Options) settle() error {
	if o.QEMU == "" {
		path, err := exec.LookPath("qemu-system-x86_64")
		if err != nil {
			return fault.Errorf(fault.Unsupported, "qemu-system-x86_64 is not installed").WithHint(packageHint)
		}
		o.QEMU = path
	}
	if o.KVMDevice == "" {
		o.KVMDevice = kvm.Device
	}
	switch o.Accel {
	case "":
		o.Accel = KVM
		if o.usableKVM() != nil {
			o.Accel = TCG
		}
	case KVM:
		if err := o.usableKVM(); err != nil {
			return err
		}
	case TCG:
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

// usableKVM says why guests cannot run on the host's processor, with the remedy;
// nil when they can.
func (o *Options) usableKVM() error {
	const orEmulate = ", or let QEMU emulate, which is slow: --qemu-accel tcg"
	err := kvm.Check(o.KVMDevice)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fault.Errorf(fault.Unsupported, "this host has no KVM: %w", err).
			WithHint("use a host with hardware virtualisation (load kvm_intel or kvm_amd; in a virtual machine its owner must switch nesting on)" + orEmulate)
	case errors.Is(err, fs.ErrPermission):
		return fault.Errorf(fault.Unsupported, "KVM is not for this user: %w", err).
			WithHint("add the user to the group of %s%s", o.KVMDevice, orEmulate)
	case err != nil:
		return fault.Errorf(fault.Unsupported, "KVM makes no machines here: %w", err).
			WithHint("look for kvm in the host's kernel log; in a virtual machine its owner must switch nesting on" + orEmulate)
	case o.WithoutCgroups:
		return nil // QEMU keeps this user
	}
	// QEMU runs as a user that has nothing but the device's group.
	var st unix.Stat_t
	if err := unix.Stat(o.KVMDevice, &st); err != nil {
		return fault.Errorf(fault.Unsupported, "look at KVM: %w", err)
	}
	if st.Mode&0o060 != 0o060 {
		return fault.Errorf(fault.Unsupported, "the group of %s may not use it (mode %04o)", o.KVMDevice, st.Mode&0o777).
			WithHint("chmod g+rw %s: QEMU gives up root and keeps that group%s", o.KVMDevice, orEmulate)
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

// qemuBoard asks the program which of the boards it has that this driver knows,
// and gives the best.
func qemuBoard(program string) (board, error) {
	out, err := exec.Command(program, "-machine", "help").Output()
	if err != nil {
		return board{}, fault.Errorf(fault.Unsupported, "ask %s for its machines: %w", program, err).WithHint(packageHint)
	}
	return parseBoards(program, string(out))
}

func parseBoards(program, text string) (board, error) {
	has := map[string]bool{}
	for line := range strings.Lines(text) {
		name, _, _ := strings.Cut(line, " ")
		has[name] = true
	}
	for _, b := range boards {
		if has[b.name] {
			return b, nil
		}
	}
	return board{}, fault.Errorf(fault.Unsupported, "%s has neither machine %s nor %s", program, boards[0].name, boards[1].name).
		WithHint(packageHint)
}
