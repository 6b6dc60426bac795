package qemu

import (
	"strconv"

	"assay/internal/sandbox"
)

var _ sandbox.Framer = (*Driver)(nil)

// Frames says that guests are given their networks as files of frames.
func (d *Driver) Frames() {}

// lateModules are loaded by guestd when a machine is given a network: a guest
// without one has no interface but loopback.
var lateModules = []string{"virtio_net"}

// networkAddress is the hardware address of every machine: each has a network of
// its own, and a fork keeps what its parent had.
const networkAddress = "02:a5:00:00:00:01"

// network is the network device. Every machine has it, since a snapshot is one of
// all devices and must serve machines with a network and without. Without, there
// is nothing behind it, and no driver in front: its interface is not there.
func (c commandLine) network() []string {
	device := "virtio-net-" + c.d.board.bus + ",mac=" + networkAddress
	if c.d.board.bus == "pci" {
		device += ",romfile=" // nothing boots from it
	}
	if c.tap == 0 {
		return []string{"-device", device}
	}
	return []string{"-netdev", "tap,id=network,fd=" + strconv.Itoa(c.tap), "-device", device + ",netdev=network"}
}
