package netguard

import (
	"net/netip"
	"os"
)

// Tap is a machine's network for a guest that has a kernel of its own: a file of
// Ethernet frames, and what that kernel has to be told.
type Tap struct {
	// File reads and writes one frame at a time, without any header.
	File *os.File
	// Address is the guest's, with its network; all else is behind the gateway.
	Address netip.Prefix
	Gateway netip.Addr
}
