// Package supervisor keeps sandboxes alive between commands: one small process
// for each data directory holds the engine and serves it on a Unix socket, and
// ends by itself a little after the last sandbox. Start with Connect (finds the
// supervisor or starts it, and gives a Client) and Serve (what the process
// does).
//
// The wire is HTTP/2 without TLS: JSON for small requests, the guest link's
// frames for streams. Whoever may open the socket may do all: it is its owner's
// alone. One lock file decides who is the supervisor; it is held by the process
// that starts one, inherited by the one started, and kept until its end.
//
// The package knows the engine only; drivers, templates and the terminal are
// handed in or stay with the caller.
package supervisor

import (
	"time"

	"assay/internal/guest"
	"assay/internal/sandbox"
)

// Version is the wire's version; client and supervisor must have the same.
const Version = 2

// DefaultGrace is how long a supervisor lives without a sandbox and without a
// connection.
const DefaultGrace = 3 * time.Second

// Hello is a supervisor's first answer.
type Hello struct {
	Version int `json:"version"`
	PID     int `json:"pid"`
	// Reclaimed is how many machines of supervisors that died were removed when
	// this one started.
	Reclaimed int `json:"reclaimed"`
	// Adopted is how many persistent sandboxes it took over.
	Adopted int `json:"adopted,omitempty"`
	// Driver is what makes its sandboxes.
	Driver string `json:"driver"`
}

// The states of a sandbox that lives.
const (
	StateRunning = "running"
	StatePaused  = "paused"
)

// Sandbox is what there is to know of a live sandbox.
type Sandbox struct {
	sandbox.Info
	State string `json:"state"`
}

// Terms are the bounds of a new sandbox's life.
type Terms struct {
	// TTL is from creation to the hard deadline; zero is
	// sandbox.DefaultDeadline.
	TTL time.Duration `json:"ttl_ns,omitempty"`
	// Idle ends the sandbox after so long without a use; zero is never.
	Idle     time.Duration     `json:"idle_ns,omitempty"`
	Metadata map[string]string `json:"metadata,omitempty"`
	// Network is what it may reach; nil is nothing, or what its origin may.
	Network *sandbox.NetworkPolicy `json:"network,omitempty"`
	// Persistent lets it outlive the supervisor: the next one adopts it.
	Persistent bool `json:"persistent,omitempty"`
}

// NetworkRequest changes what a sandbox may reach: to Policy, or, when that is
// nil, to what is left when its setup ends. An empty policy is off.
type NetworkRequest struct {
	Policy *sandbox.NetworkPolicy `json:"policy,omitempty"`
}

// CreateRequest asks for a sandbox, of exactly one of Template and Snapshot.
type CreateRequest struct {
	Template string `json:"template,omitempty"`
	Snapshot string `json:"snapshot,omitempty"`
	Terms
}

// Progress is what a creation does while it takes long: building a template
// (Title and Stage, and Done of Total units), or waiting (Queued: the place).
type Progress struct {
	Title  string `json:"title,omitempty"`
	Stage  string `json:"stage,omitempty"`
	Done   int64  `json:"done,omitempty"`
	Total  int64  `json:"total,omitempty"`
	Queued int    `json:"queued,omitempty"`
}

// ForkRequest asks for N children, each on these terms.
type ForkRequest struct {
	N int `json:"n"`
	Terms
}

// Child is one child of a fork: a sandbox, or why there is none.
type Child struct {
	Sandbox *Sandbox         `json:"sandbox,omitempty"`
	Error   *guest.WireFault `json:"error,omitempty"`
}

// Removed says what the removal of a sandbox found.
type Removed struct {
	ID string `json:"id"`
	// Ended is why the sandbox had ended before, or empty.
	Ended string `json:"ended_before,omitempty"`
}

// TerminalRequest opens a terminal, or attaches to one.
type TerminalRequest struct {
	Spec guest.TerminalSpec `json:"spec"`
	// Attach says that the terminal Spec.ID exists; the rest of Spec but Size is
	// ignored.
	Attach bool `json:"attach,omitempty"`
}
