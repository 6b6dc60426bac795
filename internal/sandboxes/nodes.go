package sandboxes

import (
	"context"
	"time"

	"assay/internal/fault"
	"assay/internal/guest"
	"assay/internal/sandbox"
)

// Here reports whether a sandbox lives on this node.
func (s *Service) Here(id string) bool { return s.get(id) != nil }

// WriteOff writes the ends of sandboxes whose nodes are lost for good: they
// would count for their owners' quotas for ever. If such a node comes back, it
// has begun anew without them. Those made after the instant are left alone.
func (s *Service) WriteOff(ctx context.Context, before time.Time, lost func(node string) bool) error {
	rows, err := s.o.Store.Sandboxes(ctx, Query{Live: true, To: before})
	if err != nil {
		return err
	}
	for _, r := range rows {
		if r.Node == s.o.Node || !lost(r.Node) {
			continue
		}
		if err := s.o.Store.EndSandbox(ctx, r.ID, End{At: time.Now(), Why: "the node that had it is lost", Cause: guest.MachineLost}); err != nil {
			return err
		}
		s.o.Log.WarnContext(ctx, "a sandbox was lost with its node", "sandbox", r.ID, "node", r.Node)
	}
	return nil
}

// NoMachines is the engine of a process that runs no sandboxes: it has none and
// makes none. Lists and what is kept of them work all the same.
type NoMachines struct{}

var (
	_ Machines  = NoMachines{}
	_ Templates = NoMachines{}
)

func noMachines() error {
	return fault.Errorf(fault.Unavailable, "this process runs no sandboxes").WithHint("is a node running? see GET /nodes")
}

// Create makes none.
func (NoMachines) Create(context.Context, sandbox.Spec) (*sandbox.Sandbox, error) {
	return nil, noMachines()
}

// Get finds none.
func (NoMachines) Get(id string) (*sandbox.Sandbox, error) { return nil, noSandbox(id) }

// List finds none.
func (NoMachines) List() []*sandbox.Sandbox { return nil }

// Snapshot finds none.
func (NoMachines) Snapshot(id string) (sandbox.Snapshot, error) {
	return sandbox.Snapshot{}, fault.Errorf(fault.NotFound, "there is no snapshot %.64s", id)
}

// RemoveSnapshot finds none.
func (NoMachines) RemoveSnapshot(id string) error {
	return fault.Errorf(fault.NotFound, "there is no snapshot %.64s", id)
}

// Events has none.
func (NoMachines) Events(string) ([]sandbox.Event, error) { return nil, noMachines() }

// Template gives none.
func (NoMachines) Template(context.Context, string) (sandbox.Template, error) {
	return sandbox.Template{}, noMachines()
}

// Templates gives none.
func (NoMachines) Templates(context.Context) ([]Template, error) { return nil, noMachines() }
