package sandbox

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"assay/internal/fault"
	"assay/internal/guest"
	"assay/internal/netguard"
)

// The words of a network are the proxy's own; users of the engine need only this
// package.
type (
	NetworkPolicy = netguard.Policy
	NetworkPhase  = netguard.Phase
	NetworkUsage  = netguard.Usage
	Tap           = netguard.Tap
)

// Networks gives machines an interface with nothing but a proxy behind it.
// Package app hands it in. A network and whatever belongs to it ends with this
// process, however that ends.
type Networks interface {
	// Make gives the network of one machine that is to be made; nothing can be
	// reached yet. Errors: fault.Unsupported, with the reason, where this host
	// cannot; fault.Exhausted when there are too many.
	Make(ctx context.Context) (Network, error)
}

// Network is the network of one machine.
type Network interface {
	// Namespace is the path of the network namespace to start the machine in.
	Namespace() string
	// Tap gives the network as a file instead, for a machine of a Framer. It is
	// called once; the caller closes the file.
	Tap() (Tap, error)
	// Proxy is what programs in the machine use as their proxy: the same address
	// in every machine.
	Proxy() netip.AddrPort
	// Open lets the machine reach what the policy permits. tell hears of attempts;
	// it must not block. It is called once.
	Open(policy NetworkPolicy, tell func(netguard.Attempt)) error
	// Set changes the policy at once. A policy without entries shuts the door
	// before the proxy, too.
	Set(policy NetworkPolicy) error
	Usage() netguard.Usage
	// Close cuts everything. It is called after the machine's end.
	Close()
}

// joinNetwork says how a machine is joined with its network. The caller calls
// started when the machine has started, or could not.
func joinNetwork(d Driver, n Network, cfg *MachineConfig) (eth *guest.Interface, started func(), err error) {
	cfg.NetNS = n.Namespace()
	if _, ok := d.(Framer); !ok {
		return nil, func() {}, nil
	}
	tap, err := n.Tap()
	if err != nil {
		return nil, nil, err
	}
	cfg.Tap = tap.File
	return &guest.Interface{Address: tap.Address, Gateway: tap.Gateway}, func() { _ = tap.File.Close() }, nil
}

// noNetworks refuses.
type noNetworks struct{}

func (noNetworks) Make(context.Context) (Network, error) {
	return nil, fault.Errorf(fault.Unsupported, "this engine gives sandboxes no network").
		WithHint("create the sandbox without a network policy")
}

// inherit settles what a new sandbox may reach: asked for, and not more than
// that of what it is made of, when it is made of a sandbox.
func (src *source) inherit(asked *NetworkPolicy) error {
	if asked != nil {
		checked, err := asked.Check()
		if err != nil {
			return err
		}
		asked = &checked
	}
	if src.pooled { // a template: nobody's policy
		src.policy = asked
		return nil
	}
	origin := src.policy
	switch {
	case asked == nil:
		return nil
	case origin == nil:
		return fault.Errorf(fault.Denied, "the sandbox would reach more than the one it is made of, which has no network").
			WithHint("create the first one with a network policy; it may be empty")
	case !asked.Within(*origin):
		return fault.Errorf(fault.Denied, "the sandbox would reach more than the one it is made of").
			WithHint("ask for what it may reach, or less: %s (%s)", strings.Join(origin.Allow, ", "), origin.Phase)
	}
	src.policy = asked
	return nil
}

// openNetwork opens the door of a machine that becomes a sandbox.
func (s *Sandbox) openNetwork(policy NetworkPolicy) error {
	err := s.body.network.Open(policy, func(a netguard.Attempt) {
		s.events.add(Event{Kind: "network", Detail: map[string]any{"attempt": a}})
	})
	if err != nil {
		return err
	}
	s.info.Network = &policy
	return nil
}

// SetNetwork changes what the sandbox may reach, at once: connections that the
// new policy does not permit are cut. Errors: fault.Conflict for a sandbox that
// was made without a network, fault.Invalid for a policy that means nothing.
func (s *Sandbox) SetNetwork(policy NetworkPolicy) error {
	policy, err := policy.Check()
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.setNetwork(policy)
}

// setNetwork takes a checked policy. Caller holds mu.
func (s *Sandbox) setNetwork(policy NetworkPolicy) error {
	switch {
	case s.ended != "":
		return s.refuse("change the network")
	case s.info.Network == nil:
		return fault.Errorf(fault.Conflict, "sandbox %s was made without a network", s.info.ID).
			WithHint("create it with a network policy, which may be empty at first")
	}
	if err := s.body.network.Set(policy); err != nil {
		return err
	}
	s.info.Network = &policy
	s.events.add(Event{Kind: "network_changed", Detail: map[string]any{"policy": policy}})
	return nil
}

// EndSetup shuts the network of a sandbox whose policy was for its setup, for
// good unless SetNetwork opens it again. Call it before a person joins or
// something that counts begins. It does nothing to others.
func (s *Sandbox) EndSetup() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.info.Network
	if p == nil || p.Phase != netguard.Setup || len(p.Allow) == 0 {
		return nil
	}
	return s.setNetwork(p.Closed())
}

// NetworkUsage is what went through the sandbox's proxy so far; zero without a
// network.
func (s *Sandbox) NetworkUsage() netguard.Usage {
	if s.body.network == nil {
		return netguard.Usage{}
	}
	return s.body.network.Usage()
}

// Env gives the environment for a command or terminal: env as it is, or the
// default when nil, and how to find the proxy in a sandbox that has a network.
// It says nothing that env says itself.
func (s *Sandbox) Env(env []string) []string {
	if s.body.network == nil {
		return env
	}
	if env == nil {
		env = guest.DefaultEnv
	}
	env = slices.Clone(env)
	for _, kv := range proxyEnv(s.body.network.Proxy()) {
		name, _, _ := strings.Cut(kv, "=")
		if !slices.ContainsFunc(env, func(have string) bool { return strings.HasPrefix(have, name+"=") }) {
			env = append(env, kv)
		}
	}
	return env
}

// OpenTerminal starts a command in a new terminal, with the way to the proxy in
// its environment. Somebody joins: a setup's network is shut before.
func (s *Sandbox) OpenTerminal(ctx context.Context, spec guest.TerminalSpec) (*guest.Terminal, error) {
	if err := s.EndSetup(); err != nil {
		return nil, err
	}
	if s.body.network != nil && spec.Env == nil {
		for _, kv := range guest.DefaultEnv {
			if !strings.HasPrefix(kv, "TERM=") {
				spec.Env = append(spec.Env, kv)
			}
		}
		spec.Env = append(spec.Env, "TERM=xterm-256color")
	}
	spec.Env = s.Env(spec.Env)
	return s.Guest().OpenTerminal(ctx, spec)
}

// AttachTerminal attaches to a terminal; see OpenTerminal.
func (s *Sandbox) AttachTerminal(ctx context.Context, id string) (*guest.Terminal, error) {
	if err := s.EndSetup(); err != nil {
		return nil, err
	}
	return s.Guest().AttachTerminal(ctx, id)
}

// proxyEnv is how programs are told of a proxy. curl, wget, pip, apt, go, cargo
// and git read the lower-case names, npm and others the upper-case ones, Maven
// its own.
func proxyEnv(proxy netip.AddrPort) []string {
	url := "http://" + proxy.String()
	const local = "localhost,127.0.0.1,::1"
	const java = "-Dhttp.proxyHost=%[1]s -Dhttp.proxyPort=%[2]d -Dhttps.proxyHost=%[1]s -Dhttps.proxyPort=%[2]d"
	return []string{
		"http_proxy=" + url, "https_proxy=" + url, "HTTP_PROXY=" + url, "HTTPS_PROXY=" + url,
		"no_proxy=" + local, "NO_PROXY=" + local, "MAVEN_OPTS=" + fmt.Sprintf(java, proxy.Addr(), proxy.Port()),
	}
}
