package main

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"

	"assay/internal/fault"
	"assay/internal/guest"
)

// firstLater is the lowest descriptor that modules for later are kept under: the
// link has one of those below.
const firstLater = 20

// openLater opens the modules that may be needed later, for guestd itself, and
// gives their descriptors as text. They have no names then: nobody in the machine
// can put others in their place.
func openLater() (string, error) {
	list, err := os.ReadFile(guest.VMModules + "/later")
	if err != nil {
		return "", fmt.Errorf("read list of modules: %w", err)
	}
	var fds []string
	for name := range strings.FieldsSeq(string(list)) {
		f, err := os.Open(filepath.Join(guest.VMModules, name))
		if err != nil {
			return "", fmt.Errorf("open module: %w", err)
		}
		fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD, firstLater)
		_ = f.Close()
		if err != nil {
			return "", fmt.Errorf("keep module %s: %w", name, err)
		}
		fds = append(fds, strconv.Itoa(fd))
	}
	return strings.Join(fds, ","), nil
}

// network is the machine's one interface besides loopback, in a virtual machine
// that has one.
type network struct {
	mu      sync.Mutex
	modules []int // descriptors of what is loaded first; nil when that was done
}

// keepModules takes over what was opened before guestd began.
func (n *network) keepModules(text string) error {
	for field := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == ',' }) {
		fd, err := strconv.Atoi(field)
		if err != nil {
			return fmt.Errorf("read %s: %w", guest.VMLater, err)
		}
		unix.CloseOnExec(fd)
		n.modules = append(n.modules, fd)
	}
	return nil
}

// networkName is what the kernel calls its first Ethernet interface.
const networkName = "eth0"

// set gives the interface its address and way, in place of what it had: that of
// the machine that this one was made of.
func (n *network) set(want guest.Interface) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !want.Address.IsValid() || !want.Address.Addr().Is4() || !want.Gateway.Is4() {
		return fault.Errorf(fault.Invalid, "interface with address %s and gateway %s is none of IPv4", want.Address, want.Gateway)
	}
	for _, fd := range n.modules {
		if err := unix.FinitModule(fd, "", 0); err != nil && !errors.Is(err, unix.EEXIST) {
			return fault.Errorf(fault.Internal, "load the network's module: %w", err)
		}
	}
	for _, fd := range n.modules {
		_ = unix.Close(fd)
	}
	n.modules = nil
	if err := n.configure(want); err != nil {
		return fault.Errorf(fault.Internal, "set up %s: %w", networkName, err)
	}
	return nil
}

func (n *network) configure(want guest.Interface) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	// With the interface all routes go that were through it.
	if err := interfaceFlags(fd, 0); err != nil {
		return fmt.Errorf("down: %w", err)
	}
	mask := netip.AddrFrom4([4]byte{255, 255, 255, 255})
	if p, err := mask.Prefix(want.Address.Bits()); err == nil {
		mask = p.Addr()
	}
	for _, s := range []struct {
		request uint
		value   netip.Addr
	}{{unix.SIOCSIFADDR, want.Address.Addr()}, {unix.SIOCSIFNETMASK, mask}} {
		req, err := unix.NewIfreq(networkName)
		if err != nil {
			return err
		}
		if err := req.SetInet4Addr(s.value.AsSlice()); err != nil {
			return err
		}
		if err := unix.IoctlIfreq(fd, s.request, req); err != nil {
			return fmt.Errorf("address %s: %w", s.value, err)
		}
	}
	if err := interfaceFlags(fd, unix.IFF_UP); err != nil {
		return fmt.Errorf("up: %w", err)
	}
	return addDefaultRoute(fd, want.Gateway)
}

func interfaceFlags(fd int, flags uint16) error {
	req, err := unix.NewIfreq(networkName)
	if err != nil {
		return err
	}
	req.SetUint16(flags)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, req)
}

// rtentry is the kernel's struct rtentry.
type rtentry struct {
	_                  uintptr
	dst, gateway, mask unix.RawSockaddrInet4
	flags              uint16
	_                  int16
	_                  uintptr
	_                  uintptr
	metric             int16
	device             *byte
	mtu, window        uintptr
	irtt               uint16
}

// addDefaultRoute sends everything to the gateway.
func addDefaultRoute(fd int, gateway netip.Addr) error {
	r := rtentry{flags: unix.RTF_UP | unix.RTF_GATEWAY}
	r.dst.Family, r.mask.Family, r.gateway.Family = unix.AF_INET, unix.AF_INET, unix.AF_INET
	r.gateway.Addr = gateway.As4()
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCADDRT, uintptr(unsafe.Pointer(&r))); errno != 0 {
		return fmt.Errorf("route by %s: %w", gateway, errno)
	}
	return nil
}
