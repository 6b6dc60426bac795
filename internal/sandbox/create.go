package sandbox

import "time"

// BootMode says how a sandbox came to be.
type BootMode string

// The boot modes, from fastest to slowest.
const (
	BootPool     BootMode = "pool"     // was waiting, never used
	BootFork     BootMode = "fork"     // memory and disk of a running sandbox
	BootSnapshot BootMode = "snapshot" // restored on demand
	BootCold     BootMode = "cold"     // booted from nothing
)

// Spec asks for a sandbox: exactly one of Template and Snapshot.
type Spec struct {
	Template *Template
	// Snapshot is the ID of a snapshot taken with Sandbox.Snapshot.
	Snapshot string
	// Deadline is the hard end of the sandbox, whatever it does. Zero is
	// DefaultDeadline from now.
	Deadline time.Time
	// IdleLimit ends the sandbox after so long without a call. Zero is none.
	IdleLimit time.Duration
	// Metadata is kept and shown, never interpreted.
	Metadata map[string]string
	// Persistent sandboxes outlive this process and are adopted by the next.
	Persistent bool
}

// DefaultDeadline is how long a sandbox may live when its Spec does not say.
const DefaultDeadline = time.Hour
