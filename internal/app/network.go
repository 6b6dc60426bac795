package app

import (
	"context"
	"errors"

	"assay/internal/netguard"
	"assay/internal/netguard/netns"
	"assay/internal/sandbox"
)

// namespacesReady is how many namespaces wait, once a sandbox has needed one.
const namespacesReady = 2

// openNetworks gives the engine's networks. Nothing is made before a sandbox asks
// for one, so a host that cannot is told so only then.
func openNetworks(c Config) *netns.Networks {
	if c.Outside.Log == nil {
		c.Outside.Log = c.Log
	}
	return netns.NewNetworks(netns.Options{Ready: namespacesReady, Log: c.Log}, netguard.NewProxy(c.Outside), netguard.Caps{})
}

// engineNetworks fits them to the engine.
type engineNetworks struct{ n *netns.Networks }

func (e engineNetworks) Make(ctx context.Context) (sandbox.Network, error) {
	n, err := e.n.Make(ctx)
	if err != nil {
		return nil, err // not a nil network inside an interface
	}
	return n, nil
}

// TryNetwork makes a network as a sandbox would get it, and gives it up. Its
// error, of fault.Unsupported, says what this host or user lacks.
func TryNetwork(ctx context.Context) error {
	yard, err := netns.Open(netns.Options{})
	if err != nil {
		return err
	}
	n, err := yard.Make(ctx)
	if err == nil {
		n.Close()
	}
	return errors.Join(err, yard.Close())
}
