package sandbox

import (
	"context"

	"assay/internal/fault"
)

// reservation is what one machine has of the host. Those made beside it may
// live longer; what they took of its memory comes back when they end.
type reservation struct {
	a     *admission
	cores []int

	// Guarded by the admission's mu.
	cpus, memory int64
	beside       int64        // still free of what was set aside for others, in bytes
	from         *reservation // whose memory for others this one took, and how much
	took         int64
	over         bool
}

// release gives it back. It may be called more than once.
func (r *reservation) release() {
	r.a.mu.Lock()
	defer r.a.mu.Unlock()
	if r.over {
		return
	}
	r.over = true
	memory := r.memory + r.beside
	if r.took > 0 && !r.from.over {
		r.from.beside += r.took
		memory -= r.took
	}
	r.a.giveBackLocked(r.cpus, memory, r.cores)
}

// reserveBeside reserves memory for n machines beside another, at once or not
// at all.
func (a *admission) reserveBeside(other *reservation, s Shape, n int) ([]*reservation, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	aside := int64(0)
	if !other.over {
		aside = other.beside
	}
	if need := int64(n) * s.Memory; need > aside+a.memory {
		return nil, fault.Errorf(fault.Exhausted, "no room for %d machines of %d MiB beside another: %d MiB were set aside and %d MiB are free",
			n, s.Memory>>20, aside>>20, a.memory>>20).WithHint("set memory aside when the other sandbox is made")
	}
	list := make([]*reservation, n)
	for i := range list {
		took := min(s.Memory, aside)
		aside -= took
		other.beside -= took
		a.memory -= s.Memory - took
		list[i] = &reservation{a: a, memory: s.Memory, from: other, took: took}
	}
	return list, nil
}

// admit reserves what n sandboxes of a spec need.
func (m *Manager) admit(ctx context.Context, shape Shape, spec Spec, n int) ([]*reservation, error) {
	if spec.Beside != nil {
		if spec.Beside.ending() {
			return nil, fault.Errorf(fault.Conflict, "sandbox %s, which another was to be beside, has ended", spec.Beside.info.ID)
		}
		return m.admission.reserveBeside(spec.Beside.reserved, shape, n)
	}
	return m.admission.reserve(ctx, claim{shape: shape, dedicated: spec.Dedicated, cores: spec.Cores, beside: spec.BesideMemory}, n, spec.Queued)
}
