// Package kvm finds out whether this host's processor can run guests: see
// Check. It is apart from the QEMU driver because the doctor asks the same, and
// from the doctor because a driver asks it. It must know neither.
package kvm

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Device is KVM's device file.
const Device = "/dev/kvm"

// The two ioctls that Check needs; x/sys/unix has none of them.
const (
	getAPIVersion = 0xAE00
	createVM      = 0xAE01
	apiVersion    = 12
)

// Check makes an empty virtual machine with the device and drops it. That goes
// further than opening: a host may have the device and still refuse to make a
// machine. The error is fs.ErrNotExist without the device and fs.ErrPermission
// for a user who may not use it.
func Check(device string) error {
	f, err := os.OpenFile(device, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	version, err := unix.IoctlRetInt(int(f.Fd()), getAPIVersion)
	if err != nil {
		return fmt.Errorf("ask %s for its version: %w", device, err)
	}
	if version != apiVersion {
		return fmt.Errorf("the version of %s is %d, not %d", device, version, apiVersion)
	}
	vm, err := unix.IoctlRetInt(int(f.Fd()), createVM)
	if err != nil {
		return fmt.Errorf("make a machine with %s: %w", device, err)
	}
	return unix.Close(vm)
}
