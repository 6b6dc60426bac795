package sandboxes

import (
	"context"
	"time"

	"assay/internal/sandbox"
)

// Machines is the engine: *sandbox.Manager is one.
type Machines interface {
	Create(ctx context.Context, spec sandbox.Spec) (*sandbox.Sandbox, error)
	Get(id string) (*sandbox.Sandbox, error)
	// List gives all live sandboxes.
	List() []*sandbox.Sandbox
	Snapshot(id string) (sandbox.Snapshot, error)
	RemoveSnapshot(id string) error
	// Events gives the log of a live or ended sandbox.
	Events(id string) ([]sandbox.Event, error)
}

// Templates are the starting points that sandboxes are made of.
type Templates interface {
	// Template gives a template that has been built: NotFound if there is none of
	// this name, Conflict if it must be built first.
	Template(ctx context.Context, name string) (sandbox.Template, error)
	// Templates are all, by name.
	Templates(ctx context.Context) ([]Template, error)
}

// Template is what there is to know of a template.
type Template struct {
	Name        string
	Description string
	Languages   []string
	Shape       sandbox.Shape
	// Digest, Built and ImageBytes are zero while it has not been built.
	Digest     string
	Built      time.Time
	ImageBytes int64
	// Problem says why it cannot be used, or is empty.
	Problem string
}

// Store keeps who has what. It may be used from many goroutines and by many
// processes at once.
type Store interface {
	SandboxStore
	SnapshotStore
	Memory
}

// SandboxStore keeps sandboxes, live and ended.
type SandboxStore interface {
	// AddSandbox writes a new sandbox: Conflict if the ID is taken.
	AddSandbox(ctx context.Context, r Record) error
	// Sandbox finds one by its ID, or gives NotFound.
	Sandbox(ctx context.Context, id string) (Record, error)
	// Sandboxes are those that a query asks for, newest first.
	Sandboxes(ctx context.Context, q Query) ([]Record, error)
	// SetLimits (deadline and idle limit) and SetPaused change a live one; an
	// ended one stays as it is.
	SetLimits(ctx context.Context, id string, deadline time.Time, idle time.Duration) error
	SetPaused(ctx context.Context, id string, paused bool) error
	// AddUsage adds to what sandboxes used and to their owners' days, all or
	// nothing.
	AddUsage(ctx context.Context, used []Used) error
	// EndSandbox writes the end, once: a later end changes nothing.
	EndSandbox(ctx context.Context, id string, e End) error
	// Held is what an owner has now, and the CPU time of the day that begins at
	// the instant. With a token named, only what was made with it counts.
	Held(ctx context.Context, owner, token string, day time.Time) (Held, error)
}

// SnapshotStore keeps snapshots.
type SnapshotStore interface {
	AddSnapshot(ctx context.Context, s Snapshot) error
	// Snapshot finds one that has not been removed, or gives NotFound.
	Snapshot(ctx context.Context, id string) (Snapshot, error)
	// Snapshots are those that a query asks for, newest first.
	Snapshots(ctx context.Context, q Query) ([]Snapshot, error)
	// EndSnapshot writes that it was removed, once.
	EndSnapshot(ctx context.Context, id string, at time.Time) error
}

// Memory remembers requests that carried a key.
type Memory interface {
	// Remember writes a request under way. If the owner has used the key before,
	// nothing is written and that request is given.
	Remember(ctx context.Context, r Request) (before *Request, err error)
	// Answered keeps the answer of a request under way.
	Answered(ctx context.Context, owner, key string, answer []byte) error
	// Forget takes away a request that came to nothing.
	Forget(ctx context.Context, owner, key string) error
	// ShrinkAnswers puts another answer in place of those that are longer than so
	// many bytes, of requests made before the instant.
	ShrinkAnswers(ctx context.Context, before time.Time, longer int, answer []byte) error
	// ForgetBefore takes away requests made before the instant, and those that
	// a node left under way if one is named.
	ForgetBefore(ctx context.Context, at time.Time, node string) error
}

// Record is a sandbox as it is kept.
type Record struct {
	ID string
	// Owner is the ID of the user whose it is; "" is the server's.
	Owner string
	// Token is the API token that made it; "" is a session.
	Token string
	// Node is where its machine runs.
	Node string
	Name string
	// Labels are the owner's notes, never interpreted.
	Labels         map[string]string
	Template       string
	TemplateDigest string
	// Snapshot and Parent are what it was made from, if so.
	Snapshot, Parent string
	BootMode         sandbox.BootMode
	Boot             time.Duration
	Shape            sandbox.Shape
	Dedicated        bool
	// Persistent says that it outlives the process of its node.
	Persistent bool
	Created    time.Time
	Deadline   time.Time
	// Idle ends it after so long without a call; zero is never.
	Idle   time.Duration
	Paused bool
	// CPU and ByteSeconds are what it has used: processor time by the host's
	// count, and the memory of its shape times how long it had it.
	CPU         time.Duration
	ByteSeconds float64
	// SnapshotBytes is the sum of all snapshots taken of it.
	SnapshotBytes int64
	// End is zero while it lives.
	End End
}

// Live reports whether the sandbox has not ended.
func (r Record) Live() bool { return r.End.At.IsZero() }

// End is when and why a sandbox ended.
type End struct {
	At time.Time
	// Why is in words: "destroyed", "deadline reached", "server stopped".
	Why   string
	Cause sandbox.Cause
}

// Snapshot is a snapshot as it is kept.
type Snapshot struct {
	ID      string
	Owner   string
	Node    string
	Name    string
	Labels  map[string]string
	Sandbox string
	// Template is the name of the template that the sandbox was made of.
	Template string
	Shape    sandbox.Shape
	Bytes    int64
	Taken    time.Time
	// Expires is when it is deleted; zero is never.
	Expires time.Time
	Removed time.Time
}

// Used is what one sandbox used since the last count.
type Used struct {
	Sandbox, Owner string
	// Token is the one that made the sandbox, or "".
	Token string
	// Day is the beginning of the day that it counts for, in UTC.
	Day           time.Time
	CPU           time.Duration
	ByteSeconds   float64
	SnapshotBytes int64
}

// Held is what an owner has.
type Held struct {
	Sandboxes     int
	DiskBytes     int64
	Snapshots     int
	SnapshotBytes int64
	// CPU is what the owner's sandboxes used on the day.
	CPU time.Duration
}

// Query asks for sandboxes or snapshots.
type Query struct {
	// Owner limits to one owner; nil is all.
	Owner *string
	// Node limits to one node; "" is all.
	Node string
	// Sandbox limits snapshots to those of one sandbox.
	Sandbox string
	// Labels must all be there with these values.
	Labels map[string]string
	// Live leaves out what has ended or was removed.
	Live bool
	// From and To bound when it was made: From inclusive, To not. Zero is open.
	From, To time.Time
	// Before and BeforeID give what comes after this one in the list.
	Before   time.Time
	BeforeID string
	// Limit is the most to give; zero is all.
	Limit int
}

// Request is a request that carried a key.
type Request struct {
	Owner string
	// Key is what the caller chose, with what it was used for.
	Key string
	// Digest is of all that the request asked for.
	Digest string
	// Node is who works on it.
	Node string
	Made time.Time
	// Answer is nil while it is under way.
	Answer []byte
}
