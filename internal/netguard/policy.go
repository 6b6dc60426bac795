// Package netguard is the one narrow door of a sandbox to the network: what a
// sandbox may reach (Policy), and the proxy through which it must go (Proxy, with
// a Gate for each sandbox). Nothing else is open to it: package netns below makes
// the namespaces in which that is true.
//
// It opens sockets to the outside and knows no sandbox, driver or store.
package netguard

import (
	"slices"
	"strconv"
	"strings"

	"assay/internal/fault"
)

// Phase says for how long a policy's door is open.
type Phase string

// The phases.
const (
	// Always is as long as the sandbox lives.
	Always Phase = "always"
	// Setup is until the setup is declared over, or a person joins; the door does
	// not open again by itself.
	Setup Phase = "setup"
)

// Policy is what a sandbox may reach. The zero value reaches nothing.
type Policy struct {
	// Allow lists names with ports: "packages.example.org" (ports 80 and 443),
	// "git.example.org:8443", "*.example.org" (any name below, not the name
	// itself), "db.example.org:*" (any port). No addresses.
	Allow []string `json:"allow"`
	// Phase is Always when empty.
	Phase Phase `json:"phase,omitempty"`
}

// The bounds of a policy.
const (
	maxRules = 256
	maxName  = 253
)

// Check gives the policy in its one written form (lower case, sorted, nothing
// twice), or fault.Invalid with the entry that means nothing.
func (p Policy) Check() (Policy, error) {
	if len(p.Allow) > maxRules {
		return Policy{}, fault.Errorf(fault.Invalid, "the network policy has %d entries, more than %d", len(p.Allow), maxRules).
			WithHint("allow all names below one with *.NAME")
	}
	q := Policy{Phase: p.Phase, Allow: make([]string, 0, len(p.Allow))}
	switch p.Phase {
	case "":
		q.Phase = Always
	case Always, Setup:
	default:
		return Policy{}, fault.Errorf(fault.Invalid, "network phase %q is not known", p.Phase).WithHint("use %s or %s", Setup, Always)
	}
	for _, s := range p.Allow {
		r, err := parseRule(s)
		if err != nil {
			return Policy{}, err
		}
		q.Allow = append(q.Allow, r.String())
	}
	slices.Sort(q.Allow)
	q.Allow = slices.Compact(q.Allow)
	return q, nil
}

// Permits reports whether a name and port may be reached. A policy that Check
// would refuse permits nothing by the entries that it would refuse.
func (p Policy) Permits(name string, port int) bool {
	name, err := cleanName(name)
	if err != nil {
		return false
	}
	for _, s := range p.Allow {
		if r, err := parseRule(s); err == nil && r.permits(name, port) {
			return true
		}
	}
	return false
}

// Within reports whether everything that p permits is permitted by origin, for
// no longer: what is made of a sandbox never reaches more than it.
func (p Policy) Within(origin Policy) bool {
	if len(p.Allow) > 0 && origin.Phase == Setup && p.Phase != Setup {
		return false
	}
	for _, s := range p.Allow {
		r, err := parseRule(s)
		if err != nil {
			return false
		}
		if !slices.ContainsFunc(origin.Allow, func(o string) bool {
			wide, err := parseRule(o)
			return err == nil && r.within(wide)
		}) {
			return false
		}
	}
	return true
}

// Closed is the policy that reaches nothing, in p's phase.
func (p Policy) Closed() Policy { return Policy{Allow: []string{}, Phase: p.Phase} }

// rule is one entry of a policy.
type rule struct {
	name string // without the leading "*."
	wild bool   // names below it, not itself
	// port is the only one; 0 is those of the web, anyPort is all.
	port int
}

const anyPort = -1

// webPorts are meant by an entry without a port.
var webPorts = []int{80, 443}

// minWild is how many labels a wildcard must leave: "*.org" would be everybody.
const minWild = 2

func parseRule(s string) (rule, error) {
	bad := func(why string) (rule, error) {
		return rule{}, fault.Errorf(fault.Invalid, "network entry %q %s", clip(s), why).
			WithHint("write a name with a port or without: packages.example.org, *.example.org:443")
	}
	var r rule
	name, port, found := strings.Cut(s, ":")
	switch {
	case !found:
	case port == "*":
		r.port = anyPort
	default:
		n, ok := parsePort(port)
		if !ok {
			return bad("has no port between 1 and 65535 behind the colon")
		}
		r.port = n
	}
	name, r.wild = strings.CutPrefix(name, "*.")
	if strings.Contains(name, "*") {
		return bad("has a * that does not stand for all names below one: it may only be the first label")
	}
	clean, err := cleanName(name)
	if err != nil {
		return bad(err.Error())
	}
	if r.wild && strings.Count(clean, ".")+1 < minWild {
		return bad("is wider than one owner's names: at least two labels must follow the *")
	}
	r.name = clean
	return r, nil
}

func parsePort(s string) (int, bool) {
	n, err := strconv.Atoi(s)
	return n, err == nil && n >= 1 && n <= 65535 && s == strconv.Itoa(n)
}

func (r rule) String() string {
	s := r.name
	if r.wild {
		s = "*." + s
	}
	switch r.port {
	case 0:
		return s
	case anyPort:
		return s + ":*"
	default:
		return s + ":" + strconv.Itoa(r.port)
	}
}

// permits takes a clean name.
func (r rule) permits(name string, port int) bool {
	return r.permitsName(name) && r.permitsPort(port)
}

func (r rule) permitsName(name string) bool {
	if r.wild {
		return strings.HasSuffix(name, "."+r.name)
	}
	return name == r.name
}

func (r rule) permitsPort(port int) bool {
	switch r.port {
	case anyPort:
		return true
	case 0:
		return slices.Contains(webPorts, port)
	default:
		return port == r.port
	}
}

// within reports whether wide permits all that r permits.
func (r rule) within(wide rule) bool {
	names := wide.permitsName(r.name) || r.wild && wide.wild && r.name == wide.name
	if r.wild && !wide.wild {
		names = false
	}
	switch {
	case wide.port == anyPort:
		return names
	case r.port == anyPort:
		return false
	case r.port == 0:
		return names && wide.port == 0
	default:
		return names && wide.permitsPort(r.port)
	}
}

// nameError says what is wrong with a name, to follow the name in a sentence.
type nameError string

func (e nameError) Error() string { return string(e) }

// cleanName gives a DNS name in its one written form. Addresses in any spelling
// are refused, as are names that a resolver might take for one: those whose last
// label is a number.
func cleanName(s string) (string, error) {
	s = strings.ToLower(strings.TrimSuffix(s, "."))
	if s == "" {
		return "", nameError("has no name")
	}
	if len(s) > maxName {
		return "", nameError("is longer than a DNS name")
	}
	labels := strings.Split(s, ".")
	for _, l := range labels {
		if l == "" || len(l) > 63 {
			return "", nameError("has an empty or too long label")
		}
		if l[0] == '-' || l[len(l)-1] == '-' {
			return "", nameError("has a label that begins or ends with a hyphen")
		}
		for i := range len(l) {
			c := l[i]
			if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '_' {
				return "", nameError("has a character that no DNS name has; write names of other scripts in their xn-- form")
			}
		}
	}
	last := labels[len(labels)-1]
	if last[0] >= '0' && last[0] <= '9' {
		return "", nameError("is an address and not a name")
	}
	return s, nil
}

// clip cuts what is shown of somebody else's text.
func clip(s string) string {
	const most = 100
	if len(s) > most {
		return s[:most] + "…"
	}
	return s
}
