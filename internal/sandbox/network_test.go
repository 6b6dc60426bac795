package sandbox_test

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"

	"assay/internal/fault"
	"assay/internal/netguard"
	"assay/internal/sandbox"
)

// networks records what the engine does with networks.
type networks struct {
	mu   sync.Mutex
	all  []*network
	fail error
}

type network struct {
	n      *networks
	policy *sandbox.NetworkPolicy // nil before Open
	tell   func(netguard.Attempt)
	closed bool
}

func (n *networks) Make(context.Context) (sandbox.Network, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.fail != nil {
		return nil, n.fail
	}
	w := &network{n: n}
	n.all = append(n.all, w)
	return w, nil
}

// open counts networks that are not closed.
func (n *networks) open() (count int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, w := range n.all {
		if !w.closed {
			count++
		}
	}
	return count
}

func (w *network) Namespace() string { return "/proc/self/ns/net" }
func (w *network) Tap() (sandbox.Tap, error) {
	return sandbox.Tap{}, fault.Errorf(fault.Unsupported, "this one is a namespace")
}
func (w *network) Proxy() netip.AddrPort { return netip.MustParseAddrPort("10.192.0.1:3128") }

func (w *network) Open(p sandbox.NetworkPolicy, tell func(netguard.Attempt)) error {
	w.tell = tell
	return w.Set(p)
}

func (w *network) Set(p sandbox.NetworkPolicy) error {
	w.n.mu.Lock()
	defer w.n.mu.Unlock()
	w.policy = &p
	return nil
}

func (w *network) Usage() netguard.Usage { return netguard.Usage{Attempts: 1} }

func (w *network) Close() {
	w.n.mu.Lock()
	defer w.n.mu.Unlock()
	w.closed = true
}

func allow(names ...string) *sandbox.NetworkPolicy { return &sandbox.NetworkPolicy{Allow: names} }

func TestNetworkFollowsTheSandbox(t *testing.T) {
	n := &networks{}
	bubble(t, func(o *sandbox.Options) { o.Networks = n }, func(e *env) {
		t := e.t
		plain := e.create(nil)
		if len(n.all) != 0 || plain.Info().Network != nil {
			t.Fatalf("a sandbox without a policy has a network: %+v", plain.Info().Network)
		}
		wantKind(t, "give it one", plain.SetNetwork(*allow("a.example.org")), fault.Conflict)
		must(t, plain.EndSetup())
		if env := plain.Env(nil); env != nil {
			t.Errorf("it is told of a proxy: %q", env)
		}
		s := e.create(func(s *sandbox.Spec) { s.Network = allow("A.example.org", "*.example.org:443") })
		if got := s.Info().Network.Allow; !slices.Equal(got, []string{"*.example.org:443", "a.example.org"}) || len(n.all) != 1 {
			t.Errorf("policy %q, %d networks", got, len(n.all))
		}
		env := strings.Join(s.Env([]string{"https_proxy=mine"}), " ")
		if !strings.Contains(env, "http_proxy=http://10.192.0.1:3128") || !strings.Contains(env, "https_proxy=mine") || strings.Count(env, "https_proxy=") != 1 {
			t.Errorf("environment %s", env)
		}
		n.all[0].tell(netguard.Attempt{How: "http", Target: "b.example.org:80", Why: netguard.NotListed, Count: 1})
		must(t, s.SetNetwork(sandbox.NetworkPolicy{Phase: netguard.Setup, Allow: []string{"c.example.org"}}))
		must(t, s.EndSetup())
		if p := n.all[0].policy; len(p.Allow) != 0 || p.Phase != netguard.Setup {
			t.Errorf("after the setup %+v", p)
		}
		wantKind(t, "a policy that means nothing", s.SetNetwork(*allow("127.0.0.1")), fault.Invalid)
		must(t, s.Destroy())
		var kinds []string
		for _, ev := range s.Events() {
			kinds = append(kinds, ev.Kind)
		}
		if got := strings.Join(kinds, " "); got != "created network network_changed network_changed network_used ended" {
			t.Errorf("events %s", got)
		}
		wantKind(t, "after its end", s.SetNetwork(sandbox.NetworkPolicy{}), fault.Conflict)
		must(t, plain.Destroy())
		if n.open() != 0 {
			t.Errorf("%d networks are left", n.open())
		}
	})
}

func TestNetworkIsNeverWiderThanItsOrigin(t *testing.T) {
	n := &networks{}
	bubble(t, func(o *sandbox.Options) { o.Networks = n }, func(e *env) {
		t := e.t
		plain, s := e.create(nil), e.create(func(s *sandbox.Spec) { s.Network = allow("*.example.org") })
		for _, tt := range []struct {
			name   string
			origin *sandbox.Sandbox
			asked  *sandbox.NetworkPolicy
			want   *sandbox.NetworkPolicy // nil is refused
		}{
			{"same", s, nil, allow("*.example.org")},
			{"less", s, allow("a.example.org:443"), allow("a.example.org:443")},
			{"nothing", s, allow(), allow()},
			{"more", s, allow("*.example.net"), nil},
			{"of_none", plain, allow("a.example.org"), nil},
			{"nothing_of_none", plain, allow(), nil},
		} {
			snap := e.snapshot(tt.origin, 0)
			children, err := tt.origin.Fork(t.Context(), 1, sandbox.Spec{Network: tt.asked})
			restored, restoreErr := e.Create(t.Context(), sandbox.Spec{Snapshot: snap.ID, Network: tt.asked})
			if tt.want == nil {
				wantKind(t, tt.name, err, fault.Denied)
				wantKind(t, tt.name, restoreErr, fault.Denied)
				continue
			}
			must(t, err)
			must(t, children[0].Err)
			must(t, restoreErr)
			for _, made := range []*sandbox.Sandbox{children[0].Sandbox, restored} {
				if got := made.Info().Network; got == nil || !slices.Equal(got.Allow, tt.want.Allow) {
					t.Errorf("%s: %+v, want %+v", tt.name, got, tt.want)
				}
				must(t, made.Destroy())
			}
		}
	})
}

func TestNetworkThatCannotBeMade(t *testing.T) {
	n := &networks{fail: fault.Errorf(fault.Unsupported, "no capability")}
	bubble(t, func(o *sandbox.Options) { o.Networks = n }, func(e *env) {
		t := e.t
		_, err := e.Create(t.Context(), sandbox.Spec{Template: &e.template, Network: allow("a.example.org")})
		wantKind(t, "with a policy", err, fault.Unsupported)
		s := e.create(nil)
		run1(t, s, "true")
		_, err = e.Create(t.Context(), sandbox.Spec{Template: &e.template, Network: allow("*")})
		wantKind(t, "with a policy that means nothing", err, fault.Invalid)
		must(t, s.Destroy())
		e.bare()
	})
}

func TestNetworkOfAnEngineWithoutAny(t *testing.T) {
	bubble(t, nil, func(e *env) {
		t := e.t
		_, err := e.Create(t.Context(), sandbox.Spec{Template: &e.template, Network: allow("a.example.org")})
		wantKind(t, "without any networks", err, fault.Unsupported)
	})
}
