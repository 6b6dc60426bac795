package sandboxes

import (
	"context"
	"time"

	"assay/internal/account"
	"assay/internal/fault"
	"assay/internal/sandbox"
)

func newLive(sb *sandbox.Sandbox, by account.Actor, rec Record) *live {
	return &live{sb: sb, by: by, rec: rec, at: rec.Created, written: make(chan struct{}), left: make(chan struct{})}
}

// leave gives up a sandbox that goes on. Caller holds the service's mu.
func (l *live) leave() {
	select {
	case <-l.left:
	default:
		close(l.left)
	}
}

// adoptAll takes up the persistent sandboxes that the engine has adopted. One
// whose row is missing or has ended is nobody's: its end was promised, or the
// process died before anybody had it.
func (s *Service) adoptAll(ctx context.Context) error {
	for _, sb := range s.o.Machines.List() {
		if !sb.Info().Persistent {
			continue
		}
		r, err := s.o.Store.Sandbox(ctx, sb.Info().ID)
		if err != nil && !fault.Is(err, fault.NotFound) {
			return err
		}
		if err != nil || !r.Live() || r.Node != s.o.Node {
			s.o.Log.WarnContext(ctx, "end a persistent sandbox that is nobody's", "sandbox", sb.Info().ID)
			if err := sb.Destroy(); err != nil {
				return err
			}
			continue
		}
		l := s.adoptOne(ctx, sb, r)
		// The row is the truth, also where the engine has not heard of it.
		err = sb.Extend(r.Deadline)
		if err == nil {
			err = sb.SetIdleLimit(r.Idle)
		}
		if err != nil {
			s.o.Log.WarnContext(ctx, "end a persistent sandbox whose limits cannot be kept", "sandbox", r.ID, "err", err)
			if err := l.destroy("its deadline passed while the server was away"); err != nil {
				return err
			}
		}
	}
	return nil
}

// adoptOne goes on with a row. What it has used up to now is counted from what
// the store has, so nothing is counted twice and nothing left out.
func (s *Service) adoptOne(ctx context.Context, sb *sandbox.Sandbox, r Record) *live {
	by := account.SystemActor()
	if r.Owner != "" {
		by = s.o.Actor(ctx, r.Owner, r.Token)
	}
	l := newLive(sb, by, r)
	l.counted, l.frozen = r.CPU, r.SnapshotBytes
	if r.Shape.Memory > 0 {
		l.at = r.Created.Add(time.Duration(r.ByteSeconds / float64(r.Shape.Memory) * float64(time.Second)))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.live[r.ID] = l
	s.calls.Go(func() { s.follow(l) }) // ends with the sandbox, or is left
	return l
}
