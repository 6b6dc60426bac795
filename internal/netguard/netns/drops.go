package netns

import (
	"encoding/binary"
	"errors"
	"log/slog"
	"net/netip"
	"os"
	"strconv"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// gather is how long the kernel may wait for more before it tells: 50 ms.
const gather = 5

// snaplen is how much of a dropped packet is looked at: the IPv4 header with
// options and the ports.
const snaplen = 64

// drops reads the kernel's log of dropped packets.
type drops struct {
	conn *netlink.Conn
	tell func(from netip.Addr, to netip.AddrPort, protocol string)
	// whose gives the address that belongs to an interface, by its number: what a
	// packet says of itself may be another sandbox's.
	whose func(iface uint32) (netip.Addr, bool)
	log   *slog.Logger
}

// The messages of the log, as the kernel's nfnetlink_log.h has them.
const (
	logPacket = unix.NFNL_SUBSYS_ULOG << 8
	logConfig = unix.NFNL_SUBSYS_ULOG<<8 | 1

	configCommand = 1 // attribute; 1 binds the group
	configMode    = 2 // attribute; 2 copies packets
	configTimeout = 4 // attribute; how long the kernel gathers, in hundredths of a second

	packetInterface = 4 // attribute; the number of the interface that it came on
	packetPayload   = 9 // attribute
)

// openDrops listens in the calling thread's namespace.
func openDrops(tell func(netip.Addr, netip.AddrPort, string), whose func(uint32) (netip.Addr, bool), log *slog.Logger) (*drops, error) {
	conn, err := netlink.Dial(unix.NETLINK_NETFILTER, nil)
	if err != nil {
		return nil, err
	}
	mode := binary.BigEndian.AppendUint32(nil, snaplen)
	for _, a := range []netlink.Attribute{
		{Type: configCommand, Data: []byte{1}},
		{Type: configMode, Data: append(mode, 2, 0)},
		{Type: configTimeout, Data: binary.BigEndian.AppendUint32(nil, gather)},
	} {
		body, err := netlink.MarshalAttributes([]netlink.Attribute{a})
		if err == nil {
			head := append([]byte{unix.AF_UNSPEC, unix.NFNETLINK_V0}, binary.BigEndian.AppendUint16(nil, logGroup)...)
			_, err = conn.Execute(netlink.Message{
				Header: netlink.Header{Type: logConfig, Flags: netlink.Request | netlink.Acknowledge}, Data: append(head, body...),
			})
		}
		if err != nil {
			return nil, errors.Join(err, conn.Close())
		}
	}
	return &drops{conn: conn, tell: tell, whose: whose, log: log}, nil
}

// run reads until close.
func (d *drops) run() {
	for {
		list, err := d.conn.Receive()
		switch {
		case errors.Is(err, unix.ENOBUFS):
			continue // some were lost: sandboxes drop faster than anybody reads
		case errors.Is(err, os.ErrClosed), errors.Is(err, unix.EBADF):
			return
		case err != nil:
			d.log.Error("read the log of dropped packets", "err", err)
			return
		}
		for _, m := range list {
			if m.Header.Type != logPacket || len(m.Data) < 4 {
				continue
			}
			attrs, err := netlink.UnmarshalAttributes(m.Data[4:])
			if err != nil {
				continue
			}
			if d.tell != nil {
				d.dropped(attrs)
			}
		}
	}
}

// dropped tells of one packet.
func (d *drops) dropped(attrs []netlink.Attribute) {
	var from netip.Addr
	var known bool
	for _, a := range attrs {
		if a.Type == packetInterface && len(a.Data) == 4 {
			from, known = d.whose(binary.BigEndian.Uint32(a.Data))
		}
	}
	for _, a := range attrs {
		if a.Type != packetPayload || !known {
			continue
		}
		if _, to, protocol, ok := parsePacket(a.Data); ok {
			d.tell(from, to, protocol)
		}
	}
}

func (d *drops) close() error { return d.conn.Close() }

// parsePacket reads the headers of an IPv4 packet that a sandbox made.
func parsePacket(b []byte) (from netip.Addr, to netip.AddrPort, protocol string, ok bool) {
	if len(b) < 20 || b[0]>>4 != 4 {
		return netip.Addr{}, netip.AddrPort{}, "", false
	}
	from, _ = netip.AddrFromSlice(b[12:16])
	dest, _ := netip.AddrFromSlice(b[16:20])
	port := uint16(0)
	head := int(b[0]&15) * 4
	fragment := binary.BigEndian.Uint16(b[6:])&0x1fff != 0
	if (b[9] == unix.IPPROTO_TCP || b[9] == unix.IPPROTO_UDP) && head >= 20 && len(b) >= head+4 && !fragment {
		port = binary.BigEndian.Uint16(b[head+2:])
	}
	switch b[9] {
	case unix.IPPROTO_TCP:
		protocol = "tcp"
	case unix.IPPROTO_UDP:
		protocol = "udp"
	case unix.IPPROTO_ICMP:
		protocol = "icmp"
	default:
		protocol = "protocol " + strconv.Itoa(int(b[9]))
	}
	return from, netip.AddrPortFrom(dest, port), protocol, true
}
