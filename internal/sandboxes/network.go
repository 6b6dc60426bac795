package sandboxes

import (
	"context"

	"assay/internal/account"
	"assay/internal/sandbox"
)

// Network is what a live sandbox may reach, and what it did.
type Network struct {
	// Policy is nil for a sandbox that has no interface but loopback.
	Policy *sandbox.NetworkPolicy
	Used   sandbox.NetworkUsage
}

// Network gives what a live sandbox may reach.
func (s *Service) Network(ctx context.Context, id string) (Network, error) {
	l, err := s.alive(ctx, account.Read, id)
	if err != nil {
		return Network{}, err
	}
	return networkOf(l.sb), nil
}

// SetNetwork changes what it may reach, at once; an empty policy is off. Only a
// sandbox that was made with a policy has an interface: others are
// fault.Conflict.
func (s *Service) SetNetwork(ctx context.Context, id string, policy sandbox.NetworkPolicy) (Network, error) {
	l, err := s.alive(ctx, account.Change, id)
	if err != nil {
		return Network{}, err
	}
	if err := l.sb.SetNetwork(policy); err != nil {
		return Network{}, err
	}
	return networkOf(l.sb), nil
}

// EndSetup shuts what a sandbox could reach for its setup only.
func (s *Service) EndSetup(ctx context.Context, id string) (Network, error) {
	l, err := s.alive(ctx, account.Change, id)
	if err != nil {
		return Network{}, err
	}
	if err := l.sb.EndSetup(); err != nil {
		return Network{}, err
	}
	return networkOf(l.sb), nil
}

func networkOf(sb *sandbox.Sandbox) Network {
	return Network{Policy: sb.Info().Network, Used: sb.NetworkUsage()}
}
