package kvm

import (
	"errors"
	"io/fs"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestDeviceThatMakesNoMachine: a device that can be opened proves nothing.
func TestDeviceThatMakesNoMachine(t *testing.T) {
	t.Parallel()
	if err := Check("/dev/null"); !errors.Is(err, unix.ENOTTY) {
		t.Errorf("a device that is not KVM's: %v", err)
	}
	if err := Check(filepath.Join(t.TempDir(), "kvm")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no device: %v", err)
	}
}
