package netns

import (
	"errors"
	"fmt"
	"net/netip"
	"os"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"assay/internal/netguard"
)

// Tap makes of the namespace the network of a guest that has a kernel of its own:
//
//	tap0 ── br0 ── eth0 ────── asN (yard)
//
// The address is no longer eth0's but the guest's to use. What the yard lets
// through is the same as without, since the guest was never trusted to keep to its
// address. It is called once. The caller closes the file; the tap goes with its
// last copy.
func (n *Namespace) Tap() (*os.File, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return nil, errClosed
	}
	var tap *os.File
	err := n.y.keep.do(func() (err error) {
		if err := unix.Setns(n.fd, unix.CLONE_NEWNET); err != nil {
			return err
		}
		tap, err = n.bridge()
		if back := unix.Setns(n.y.fd, unix.CLONE_NEWNET); back != nil {
			return errors.Join(err, fmt.Errorf("come back: %w", back))
		}
		return err
	})
	if err != nil {
		if tap != nil {
			_ = tap.Close()
		}
		return nil, unsupported("join a virtual machine with its network", err)
	}
	return tap, nil
}

// bridge joins a new tap with eth0; the calling thread is in the namespace.
func (n *Namespace) bridge() (*os.File, error) {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open /dev/net/tun: %w", err)
	}
	req, err := unix.NewIfreq("tap0")
	if err == nil {
		req.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI)
		err = unix.IoctlIfreq(fd, unix.TUNSETIFF, req)
	}
	// Not before: until it is a tap there is nothing to wait for on it.
	file := os.NewFile(uintptr(fd), "tap")
	if err != nil {
		return file, fmt.Errorf("make a tap: %w", err)
	}
	nl, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return file, err
	}
	defer nl.Close()
	eth, err := nl.LinkByName("eth0")
	if err == nil {
		err = nl.AddrDel(eth, addr(n.guest, 30))
	}
	if err != nil {
		return file, fmt.Errorf("take the address from eth0: %w", err)
	}
	off := false
	br := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "br0", HardwareAddr: mac(n.guest)}, MulticastSnooping: &off}
	if err := nl.LinkAdd(br); err != nil {
		return file, fmt.Errorf("add a bridge: %w", err)
	}
	tap, err := nl.LinkByName("tap0")
	if err != nil {
		return file, err
	}
	for _, port := range []netlink.Link{eth, tap} {
		if err := nl.LinkSetMaster(port, br); err != nil {
			return file, fmt.Errorf("join %s with the bridge: %w", port.Attrs().Name, err)
		}
		// A guest that makes up addresses would fill the host's memory with them.
		if err := nl.LinkSetLearning(port, false); err != nil {
			return file, err
		}
	}
	return file, errors.Join(nl.LinkSetUp(tap), nl.LinkSetUp(br))
}

// Tap gives the network as a file of frames, once, for a machine that does not
// live in the namespace. Errors: fault.Unsupported where this host cannot.
func (w *Network) Tap() (netguard.Tap, error) {
	file, err := w.space.Tap()
	if err != nil {
		return netguard.Tap{}, err
	}
	gateway, guest := w.space.y.network(w.space.index)
	return netguard.Tap{File: file, Address: netip.PrefixFrom(guest, 30), Gateway: gateway}, nil
}
