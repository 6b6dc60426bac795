package httpapi

import (
	"context"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"assay/api"
	"assay/internal/netguard"
	"assay/internal/sandbox"
)

// paperNetworks lead nowhere: fake machines send nothing. Package app has the
// real ones.
type paperNetworks struct{}

func (paperNetworks) Make(context.Context) (sandbox.Network, error) { return paperNetworks{}, nil }

func (paperNetworks) Namespace() string         { return "" }
func (paperNetworks) Tap() (sandbox.Tap, error) { return sandbox.Tap{}, nil }

func (paperNetworks) Proxy() netip.AddrPort                                      { return netip.MustParseAddrPort("10.192.0.1:3128") }
func (paperNetworks) Open(sandbox.NetworkPolicy, func(a netguard.Attempt)) error { return nil }
func (paperNetworks) Set(sandbox.NetworkPolicy) error                            { return nil }
func (paperNetworks) Usage() netguard.Usage                                      { return netguard.Usage{Attempts: 3, Sent: 4, Received: 5} }
func (paperNetworks) Close()                                                     {}

// TestSandboxNetworkLivesOverHTTP: from create over each change to a fork.
func TestSandboxNetworkLivesOverHTTP(t *testing.T) {
	t.Parallel()
	h := sandboxDoor(t, func(o *sandbox.Options) { o.Networks = paperNetworks{} })
	sb := read[api.Sandbox](t, as(h, "ann", "POST", "/api/v1/sandboxes", `{"template":"base","network":{"allow":["*.Example.org"],"phase":"setup"}}`), 201)
	at := "/api/v1/sandboxes/" + sb.ID
	policy := func(method, path, body string, status int) api.NetworkPolicy {
		t.Helper()
		n := read[api.SandboxNetwork](t, as(h, "ann", method, path, body), status)
		if n.Attempts != 3 || n.SentBytes != 4 || n.ReceivedBytes != 5 {
			t.Errorf("usage %+v", n)
		}
		return n.Policy
	}
	want := func(got api.NetworkPolicy, phase api.NetworkPolicyPhase, allow ...string) {
		t.Helper()
		if diff := cmp.Diff(api.NetworkPolicy{Allow: append([]string{}, allow...), Phase: phase}, got); diff != "" {
			t.Error(diff)
		}
	}
	want(policy("GET", at+"/network", "", 200), api.Setup, "*.example.org")
	if w := as(h, "ann", "POST", at+"/fork", `{"network":{"allow":["example.net"]}}`); w.Code != 403 {
		t.Errorf("a wider fork: %d %s", w.Code, w.Body)
	}
	for body, allow := range map[string]string{`{}`: "*.example.org", `{"network":{"allow":["a.example.org"],"phase":"setup"}}`: "a.example.org"} {
		forked := read[api.ForkResult](t, as(h, "ann", "POST", at+"/fork", body), 201)
		want(policy("GET", "/api/v1/sandboxes/"+forked.Children[0].Sandbox.ID+"/network", "", 200), api.Setup, allow)
	}
	want(policy("POST", at+"/network/end-setup", "", 200), api.Setup)
	want(policy("PUT", at+"/network", `{"allow":["b.example.org:443","a.example.org"]}`, 200), api.Always, "a.example.org", "b.example.org:443")
	want(policy("DELETE", at+"/network", "", 200), api.Always)
	if w := as(h, "ann", "DELETE", at, ""); w.Code != 204 {
		t.Fatalf("end it: %d %s", w.Code, w.Body)
	}
	if w := as(h, "ann", "GET", at+"/network", ""); w.Code != 409 {
		t.Errorf("after its end: %d %s", w.Code, w.Body)
	}
}

// TestSandboxWithoutNetworkOverHTTP is what can be said of one that was made
// without, on a host that has none.
func TestSandboxWithoutNetworkOverHTTP(t *testing.T) {
	t.Parallel()
	h := sandboxDoor(t)
	sb := read[api.Sandbox](t, as(h, "ann", "POST", "/api/v1/sandboxes", `{"template":"base"}`), 201)
	at := "/api/v1/sandboxes/" + sb.ID + "/network"
	if w := as(h, "ann", "GET", at, ""); w.Code != 200 || strings.Contains(w.Body.String(), "policy") {
		t.Errorf("of a sandbox without: %d %s", w.Code, w.Body)
	}
	for _, tt := range []struct {
		name, method, path, body string
		want                     int
	}{
		{"made_without", "PUT", at, `{"allow":["a.example.org"]}`, 409},
		{"off_made_without", "DELETE", at, "", 409},
		{"end_setup_made_without", "POST", at + "/end-setup", "", 200},
		{"entry_that_means_nothing", "PUT", at, `{"allow":["127.0.0.1"]}`, 400},
		{"no_list", "PUT", at, `{}`, 400},
		{"unknown_phase", "PUT", at, `{"allow":[],"phase":"later"}`, 400},
		{"create_with_nonsense", "POST", "/api/v1/sandboxes", `{"template":"base","network":{"allow":["*"]}}`, 400},
		{"create_on_a_host_without", "POST", "/api/v1/sandboxes", `{"template":"base","network":{"allow":[]}}`, 501},
		{"fork_wider", "POST", "/api/v1/sandboxes/" + sb.ID + "/fork", `{"network":{"allow":["a.example.org"]}}`, 403},
	} {
		if w := as(h, "ann", tt.method, tt.path, tt.body); w.Code != tt.want {
			t.Errorf("%s: %d %s, want %d", tt.name, w.Code, w.Body, tt.want)
		}
	}
}
