package netguard

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"assay/internal/fault"
)

func TestCheckWritesPolicyOneWay(t *testing.T) {
	t.Parallel()
	got, err := Policy{Allow: []string{"B.example.org.", "*.A.example.org:443", "b.example.org", "git.example.org:*"}}.Check()
	if err != nil {
		t.Fatal(err)
	}
	want := Policy{Allow: []string{"*.a.example.org:443", "b.example.org", "git.example.org:*"}, Phase: Always}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestCheckRefuses(t *testing.T) {
	t.Parallel()
	for _, entry := range []string{
		"", ".", "*", "*.", "*.org", "a.*.org", "*a.example.org", "a..b", "-a.org", "a-.org", "example.org:0", "example.org:65536",
		"example.org:+80", "example.org:080", "example.org:", "example.org:80:80", "http://example.org", "example.org/x", "user@example.org",
		"127.0.0.1", "10.0.0.1:80", "2130706433", "0x7f000001", "0177.0.0.1", "127.1", "[::1]:80", "::1", "*.0.0.1", "ex ample.org", "exämple.org", "a\x00.org",
	} {
		if _, err := (Policy{Allow: []string{entry}}).Check(); fault.KindOf(err) != fault.Invalid {
			t.Errorf("entry %q: %v, want it refused", entry, err)
		}
		if (Policy{Allow: []string{entry}}).Permits("example.org", 80) {
			t.Errorf("entry %q permits", entry)
		}
	}
	if _, err := (Policy{Phase: "sometimes"}).Check(); fault.KindOf(err) != fault.Invalid {
		t.Errorf("unknown phase: %v", err)
	}
}

func TestPermits(t *testing.T) {
	t.Parallel()
	p := Policy{Allow: []string{"a.example.org", "*.w.example.org:443", "db.example.org:*", "p.example.org:8080"}}
	tests := []struct {
		name string
		port int
		want bool
	}{
		{"a.example.org", 80, true},
		{"A.Example.org.", 443, true},
		{"a.example.org", 8080, false},
		{"b.a.example.org", 80, false},
		{"xa.example.org", 80, false},
		{"example.org", 80, false},
		{"w.example.org", 443, false},
		{"x.w.example.org", 443, true},
		{"y.x.w.example.org", 443, true},
		{"x.w.example.org", 80, false},
		{"xw.example.org", 443, false},
		{"db.example.org", 1, true},
		{"p.example.org", 8080, true},
		{"p.example.org", 80, false},
		{"127.0.0.1", 80, false},
	}
	for _, tt := range tests {
		if got := p.Permits(tt.name, tt.port); got != tt.want {
			t.Errorf("%s:%d permitted: %v, want %v", tt.name, tt.port, got, tt.want)
		}
	}
}

func TestWithin(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name          string
		child, origin Policy
		want          bool
	}{
		{"nothing", Policy{}, Policy{}, true},
		{"same", Policy{Allow: []string{"a.example.org"}}, Policy{Allow: []string{"a.example.org"}}, true},
		{"one_port_of_web", Policy{Allow: []string{"a.example.org:443"}}, Policy{Allow: []string{"a.example.org"}}, true},
		{"other_port", Policy{Allow: []string{"a.example.org:22"}}, Policy{Allow: []string{"a.example.org"}}, false},
		{"web_of_one_port", Policy{Allow: []string{"a.example.org"}}, Policy{Allow: []string{"a.example.org:443"}}, false},
		{"any_port", Policy{Allow: []string{"a.example.org:*"}}, Policy{Allow: []string{"a.example.org"}}, false},
		{"name_of_wildcard", Policy{Allow: []string{"a.example.org"}}, Policy{Allow: []string{"*.example.org"}}, true},
		{"wildcard_of_name", Policy{Allow: []string{"*.a.example.org"}}, Policy{Allow: []string{"a.example.org"}}, false},
		{"narrower_wildcard", Policy{Allow: []string{"*.a.example.org"}}, Policy{Allow: []string{"*.example.org"}}, true},
		{"wider_wildcard", Policy{Allow: []string{"*.example.org"}}, Policy{Allow: []string{"*.a.example.org"}}, false},
		{"longer", Policy{Allow: []string{"a.example.org"}}, Policy{Allow: []string{"a.example.org"}, Phase: Setup}, false},
		{"shorter", Policy{Allow: []string{"a.example.org"}, Phase: Setup}, Policy{Allow: []string{"a.example.org"}}, true},
	}
	for _, tt := range tests {
		if got := tt.child.Within(tt.origin); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

// TestWithinNeverPermitsMore is the law of inheritance.
func TestWithinNeverPermitsMore(t *testing.T) {
	t.Parallel()
	label := rapid.SampledFrom([]string{"a", "b"})
	name := rapid.Custom(func(t *rapid.T) string {
		s := "c.d"
		for range rapid.IntRange(0, 3).Draw(t, "depth") {
			s = label.Draw(t, "label") + "." + s
		}
		return s
	})
	entry := rapid.Custom(func(t *rapid.T) string {
		return rapid.SampledFrom([]string{"", "*."}).Draw(t, "wild") + name.Draw(t, "name") + rapid.SampledFrom([]string{"", ":80", ":22", ":*"}).Draw(t, "port")
	})
	policy := rapid.Custom(func(t *rapid.T) Policy { return Policy{Allow: rapid.SliceOfN(entry, 0, 3).Draw(t, "allow")} })
	rapid.Check(t, func(t *rapid.T) {
		child, origin := policy.Draw(t, "child"), policy.Draw(t, "origin")
		if !child.Within(origin) {
			return
		}
		n, port := name.Draw(t, "asked"), rapid.SampledFrom([]int{80, 443, 22, 9}).Draw(t, "port")
		if child.Permits(n, port) && !origin.Permits(n, port) {
			t.Fatalf("%v is within %v and permits %s:%d", child, origin, n, port)
		}
	})
}

func TestPublic(t *testing.T) {
	t.Parallel()
	for _, s := range []string{
		"0.0.0.0", "0.1.2.3", "10.1.2.3", "100.64.0.1", "127.0.0.1", "127.255.255.254", "169.254.169.254", "172.16.0.1", "172.31.255.255",
		"192.0.0.8", "192.0.2.1", "192.88.99.1", "192.168.1.1", "198.18.0.1", "198.51.100.1", "203.0.113.1", "224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255",
		"::", "::1", "::127.0.0.1", "::ffff:127.0.0.1", "::ffff:169.254.169.254", "::ffff:8.8.8.8%eth0", "64:ff9b::7f00:1", "64:ff9b:1::1", "100::1", "2001::1", "2001:db8::1", "2002:7f00:1::",
		"fc00::1", "fd00:ec2::254", "fe80::1", "fe80::1%eth0", "fec0::1", "ff02::1", "3fff::1", "4000::1",
	} {
		a := netip.MustParseAddr(s)
		if Public(a) {
			t.Errorf("%s counts as public", s)
		}
	}
	for _, s := range []string{"8.8.8.8", "93.184.215.14", "172.32.0.1", "100.128.0.1", "::ffff:8.8.8.8", "2606:2800:21f::1"} {
		if !Public(netip.MustParseAddr(s)) {
			t.Errorf("%s does not count as public", s)
		}
	}
	if Public(netip.Addr{}) {
		t.Error("no address counts as public")
	}
}

func FuzzPolicy(f *testing.F) {
	for _, s := range []string{"a.example.org", "*.example.org:443", "0x7f.1", "[::1]:80", "a:*", "*.*.b.c", "ｅ.org"} {
		f.Add(s, "b.example.org")
	}
	f.Fuzz(func(t *testing.T, entry, asked string) {
		p, err := Policy{Allow: []string{entry}}.Check()
		if err != nil {
			if fault.KindOf(err) != fault.Invalid {
				t.Errorf("refused as %v", fault.KindOf(err))
			}
			return
		}
		again, err := p.Check()
		if err != nil || !slices.Equal(again.Allow, p.Allow) || !p.Within(again) {
			t.Errorf("%q is written %q, and then %q, %v", entry, p.Allow, again.Allow, err)
		}
		if p.Permits(asked, 443) {
			if _, err := netip.ParseAddr(asked); err == nil {
				t.Errorf("%q permits the address %s", entry, asked)
			}
		}
	})
}
