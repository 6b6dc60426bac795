package app

import (
	"path/filepath"

	"assay/internal/fault"
	"assay/internal/sandbox"
	"assay/internal/sandbox/gvisor"
	"assay/internal/sandbox/qemu"
)

// The drivers that an engine can be opened with.
const (
	DriverGVisor = "gvisor"
	DriverQEMU   = "qemu"
)

// reclaimers remove what machines of any driver left: one data directory may
// have been used with each.
var reclaimers = map[string]sandbox.Reclaim{DriverGVisor: gvisor.Reclaim, DriverQEMU: qemu.Reclaim}

// openDriver opens the driver of a name.
func openDriver(c Config, name string) (sandbox.Driver, error) {
	cache := func(driver string) string { return filepath.Join(c.DataDir, "engine", driver) }
	// Root that was made so by a user namespace has no cgroups of the host.
	switch without := InUserNamespace(); name {
	case "", DriverGVisor:
		d, err := gvisor.New(gvisor.Options{
			BootBinary: filepath.Join(c.BinDir, "assay-boot"), CacheDir: cache(DriverGVisor), WithoutCgroups: without,
		})
		if err != nil {
			return nil, err
		}
		return d, nil
	case DriverQEMU:
		if c.Accel == "auto" {
			c.Accel = ""
		}
		d, err := qemu.New(qemu.Options{
			Guestd: filepath.Join(c.BinDir, "guestd"), BoxBinary: filepath.Join(c.BinDir, "assay-box"), CacheDir: cache(DriverQEMU), Accel: c.Accel, WithoutCgroups: without,
		})
		if err != nil {
			return nil, err
		}
		return d, nil
	}
	return nil, fault.Errorf(fault.Invalid, "there is no driver %q", name).WithHint("the drivers are %s and %s", DriverGVisor, DriverQEMU)
}
