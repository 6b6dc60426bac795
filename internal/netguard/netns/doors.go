package netns

import (
	"fmt"
	"net/netip"
	"sync"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// doors are the rules of the yard:
//
//	table inet assay {
//	  set doors { type ifname . ipv4_addr }
//	  chain prerouting {             # before the kernel looks where it would go
//	    type filter hook prerouting priority 0; policy drop
//	    iifname . ip saddr @doors ip daddr PROXY tcp dport 3128 accept
//	    limit rate 200/second log group 1
//	    meta l4proto tcp counter reject with tcp reset
//	    counter reject with icmpx port-unreachable
//	  }
//	  chain input { … policy drop; the first of these rules }
//	  chain forward { … policy drop }
//	  chain output {
//	    type filter hook output priority 0; policy drop
//	    ip saddr PROXY tcp sport 3128 accept
//	    ip protocol icmp accept                  # the rejections
//	    tcp flags & rst != 0 accept
//	  }
//	}
//
// To open a door is to add one element, whatever the number of sandboxes.
type doors struct {
	mu       sync.Mutex
	conn     *nftables.Conn
	elements *nftables.Set
}

const (
	// logGroup is the group of the kernel's packet log that the yard uses. Groups
	// are a namespace's own.
	logGroup = 1
	// dropsPerSecond is how many dropped packets the kernel tells of.
	dropsPerSecond = 200
)

// regAddr is where the address comes to lie behind an interface's name of 16
// bytes that was loaded into the first register.
const regAddr = unix.NFT_REG32_00 + 4

// openDoors makes the rules in the calling thread's namespace.
func openDoors(proxy netip.Addr) (*doors, error) {
	conn, err := nftables.New(nftables.AsLasting())
	if err != nil {
		return nil, err
	}
	d := &doors{conn: conn}
	if err := d.make(proxy); err != nil {
		d.close()
		return nil, err
	}
	return d, nil
}

func (d *doors) make(proxy netip.Addr) error {
	table := d.conn.AddTable(&nftables.Table{Name: "assay", Family: nftables.TableFamilyINet})
	kind, err := nftables.ConcatSetType(nftables.TypeIFName, nftables.TypeIPAddr)
	if err != nil {
		return err
	}
	// With a number of ours: the library's own come from a counter that all its
	// connections share, unguarded.
	d.elements = &nftables.Set{Table: table, ID: 1, Name: "doors", KeyType: kind, Concatenation: true}
	if err := d.conn.AddSet(d.elements, nil); err != nil {
		return err
	}
	drop := nftables.ChainPolicyDrop
	chain := func(name string, hook *nftables.ChainHook) *nftables.Chain {
		return d.conn.AddChain(&nftables.Chain{
			Name: name, Table: table, Type: nftables.ChainTypeFilter, Hooknum: hook, Priority: nftables.ChainPriorityFilter, Policy: &drop,
		})
	}
	rule := func(c *nftables.Chain, parts ...[]expr.Any) {
		var all []expr.Any
		for _, p := range parts {
			all = append(all, p...)
		}
		d.conn.AddRule(&nftables.Rule{Table: table, Chain: c, Exprs: all})
	}
	accept := []expr.Any{&expr.Verdict{Kind: expr.VerdictAccept}}
	// For the proxy, from the address that belongs to the interface.
	admit := func(c *nftables.Chain) {
		rule(c, ipv4(), []expr.Any{
			&expr.Meta{Key: expr.MetaKeyIIFNAME, Register: unix.NFT_REG_1},
			&expr.Payload{DestRegister: regAddr, Base: expr.PayloadBaseNetworkHeader, Offset: 12, Len: 4},
			&expr.Lookup{SourceRegister: unix.NFT_REG_1, SetName: d.elements.Name, SetID: d.elements.ID},
		}, field(16, proxy.AsSlice()), tcpPort(2), accept)
	}
	first := chain("prerouting", nftables.ChainHookPrerouting)
	admit(first)
	rule(first, []expr.Any{
		&expr.Limit{Type: expr.LimitTypePkts, Rate: dropsPerSecond, Unit: expr.LimitTimeSecond, Burst: dropsPerSecond},
		&expr.Log{Key: 1<<unix.NFTA_LOG_GROUP | 1<<unix.NFTA_LOG_SNAPLEN, Group: logGroup, Snaplen: snaplen},
	})
	// Whoever tries is told at once: a program that hangs helps nobody.
	rule(first, tcp(), []expr.Any{&expr.Counter{}, &expr.Reject{Type: unix.NFT_REJECT_TCP_RST}})
	rule(first, []expr.Any{&expr.Counter{}, &expr.Reject{Type: unix.NFT_REJECT_ICMPX_UNREACH, Code: unix.NFT_REJECT_ICMPX_PORT_UNREACH}})
	admit(chain("input", nftables.ChainHookInput))
	chain("forward", nftables.ChainHookForward)
	output := chain("output", nftables.ChainHookOutput)
	rule(output, ipv4(), field(12, proxy.AsSlice()), tcpPort(0), accept)
	rule(output, ipv4(), field(9, []byte{unix.IPPROTO_ICMP}), accept)
	rule(output, tcp(), []expr.Any{
		&expr.Payload{DestRegister: unix.NFT_REG_1, Base: expr.PayloadBaseTransportHeader, Offset: 13, Len: 1},
		&expr.Bitwise{SourceRegister: unix.NFT_REG_1, DestRegister: unix.NFT_REG_1, Len: 1, Mask: []byte{tcpRST}, Xor: []byte{0}},
		&expr.Cmp{Op: expr.CmpOpNeq, Register: unix.NFT_REG_1, Data: []byte{0}},
	}, accept)
	return d.conn.Flush()
}

// ipv4 matches packets of IPv4.
func ipv4() []expr.Any {
	return []expr.Any{
		&expr.Meta{Key: expr.MetaKeyNFPROTO, Register: unix.NFT_REG_1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: unix.NFT_REG_1, Data: []byte{unix.NFPROTO_IPV4}},
	}
}

// field matches bytes of the IPv4 header.
func field(offset uint32, want []byte) []expr.Any {
	return []expr.Any{
		&expr.Payload{DestRegister: unix.NFT_REG_1, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: uint32(len(want))},
		&expr.Cmp{Op: expr.CmpOpEq, Register: unix.NFT_REG_1, Data: want},
	}
}

// tcpRST is the flag of a TCP segment that refuses.
const tcpRST = 4

func tcp() []expr.Any {
	return []expr.Any{
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: unix.NFT_REG_1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: unix.NFT_REG_1, Data: []byte{unix.IPPROTO_TCP}},
	}
}

// tcpPort matches the proxy's port at an offset of the TCP header.
func tcpPort(offset uint32) []expr.Any {
	return append(tcp(),
		&expr.Payload{DestRegister: unix.NFT_REG_1, Base: expr.PayloadBaseTransportHeader, Offset: offset, Len: 2},
		&expr.Cmp{Op: expr.CmpOpEq, Register: unix.NFT_REG_1, Data: binaryutil.BigEndian.PutUint16(ProxyPort)},
	)
}

// set opens or shuts the door of an interface for its one address.
func (d *doors) set(iface string, guest netip.Addr, open bool) error {
	key := make([]byte, unix.IFNAMSIZ, unix.IFNAMSIZ+4)
	copy(key, iface)
	one := []nftables.SetElement{{Key: append(key, guest.AsSlice()...)}}
	d.mu.Lock()
	defer d.mu.Unlock()
	change := d.conn.SetDeleteElements
	if open {
		change = d.conn.SetAddElements
	}
	if err := change(d.elements, one); err != nil {
		return err
	}
	if err := d.conn.Flush(); err != nil {
		return fmt.Errorf("door of %s: %w", iface, err)
	}
	return nil
}

func (d *doors) close() { _ = d.conn.CloseLasting() }
