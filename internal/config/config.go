// Package config says how a server is set up: one struct, read from flags, the
// environment and a file, and checked once. Start with Server.
//
// It must not know what the settings do: package app hands them on.
package config

import (
	"errors"
	"net"
	"net/netip"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"assay/internal/fault"
)

// Server is all that a server can be told. The tags are the flags' names, the
// variables of the environment and the words for people; a YAML file has the
// flags' names as keys. A flag goes before the environment, which goes before
// the file.
type Server struct {
	Listen    string `name:"listen" env:"ASSAY_LISTEN" default:"127.0.0.1:8080" placeholder:"ADDRESS" help:"Address and port of the API and the pages."`
	PublicURL string `name:"public-url" env:"ASSAY_PUBLIC_URL" placeholder:"URL" help:"How users reach this server, for links; https makes cookies secure (default: http:// and where it listens)."`
	Role      string `name:"role" env:"ASSAY_ROLE" enum:"all,api,node" default:"all" help:"all, api (no sandboxes here: nodes have them) or node (for api servers; it answers as they do)."`
	Node      string `name:"node" env:"ASSAY_NODE" placeholder:"NAME" help:"This host's name among the nodes (default: the host's name)."`

	NodeURL string `name:"node-url" env:"ASSAY_NODE_URL" placeholder:"URL" help:"How the other processes reach this one, directly (default: http:// and the address that it listens on)."`

	PreviewListen string        `name:"preview-listen" env:"ASSAY_PREVIEW_LISTEN" placeholder:"ADDRESS" help:"Address and port of previews: ports of sandboxes for browsers, apart from the API; off is none (default: the port after that of --listen)."`
	PreviewURL    string        `name:"preview-url" env:"ASSAY_PREVIEW_URL" placeholder:"URL" help:"How users reach previews: names below this host, as PORT-SANDBOX.preview.example.org (default: http://localhost and the port of --preview-listen, for browsers on this host)."`
	PreviewMax    time.Duration `name:"preview-max" env:"ASSAY_PREVIEW_MAX" default:"24h" help:"Longest that a preview's link works."`

	DatabaseURL Secret `name:"database-url" env:"ASSAY_DATABASE_URL" placeholder:"URL" help:"postgres://user:password@host/database (default: SQLite in the data directory)."`
	NATSURL     Secret `name:"nats-url" env:"ASSAY_NATS_URL" placeholder:"URL" help:"nats://host:4222 (default: a server inside this process)."`
	BlobURL     Secret `name:"blob-url" env:"ASSAY_BLOB_URL" placeholder:"URL" help:"s3://key:secret@host/bucket/prefix (default: a folder in the data directory)."`

	Pool      int           `name:"pool" env:"ASSAY_POOL" default:"1" help:"Machines of each template that wait, never used."`
	Jobs      int           `name:"jobs" env:"ASSAY_JOBS" default:"0" placeholder:"N" help:"Submissions judged and graded at once (default: one for each core)."`
	Templates []string      `name:"templates" env:"ASSAY_TEMPLATES" default:"base" help:"Templates to build and warm up before the server is ready."`
	Lease     time.Duration `name:"lease" env:"ASSAY_LEASE" default:"30s" help:"How long a node may be silent before others take its work."`
	Drain     time.Duration `name:"drain" env:"ASSAY_DRAIN" default:"60s" help:"How long work and requests under way may take after a signal to end."`

	Rate           float64  `name:"rate" env:"ASSAY_RATE" default:"50" help:"Requests per second of one token, user or address; 0 is no limit."`
	MaxUpload      int64    `name:"max-upload" env:"ASSAY_MAX_UPLOAD" default:"536870912" help:"Largest file that may be uploaded, in bytes."`
	TrustedProxies []string `name:"trusted-proxies" env:"ASSAY_TRUSTED_PROXIES" placeholder:"CIDR" help:"Networks whose X-Forwarded-For and X-Forwarded-Proto are believed."`

	KeepAudit time.Duration `name:"keep-audit" env:"ASSAY_KEEP_AUDIT" default:"9600h" help:"How long entries of the audit log are kept; 0 is for ever."`

	LogFormat string `name:"log-format" env:"ASSAY_LOG_FORMAT" enum:"text,json" default:"text" help:"text or json."`
	LogLevel  string `name:"log-level" env:"ASSAY_LOG_LEVEL" enum:"debug,info,warn,error" default:"info" help:"debug, info, warn or error."`

	OIDC  OIDC  `embed:"" prefix:"oidc-" group:"Sign in with another service (OpenID Connect):"`
	Quota Quota `embed:"" prefix:"quota-" group:"What one user may hold, where their token does not say:"`
	Cost  Cost  `embed:"" prefix:"cost-" group:"What use costs, for the cost report:"`
}

// PreviewOff is the PreviewListen of a server without previews.
const PreviewOff = "off"

// PreviewAddress is where previews are listened for, or "": the port after that
// of Listen where nothing else is said.
func (s *Server) PreviewAddress() string {
	switch s.PreviewListen {
	case "":
	case PreviewOff:
		return ""
	default:
		return s.PreviewListen
	}
	host, port, err := net.SplitHostPort(s.Listen)
	n, nerr := strconv.Atoi(port)
	if err != nil || nerr != nil || n == 65535 {
		return net.JoinHostPort(host, "0")
	}
	if n > 0 {
		n++
	}
	return net.JoinHostPort(host, strconv.Itoa(n))
}

// OIDC is a service that signs people in.
type OIDC struct {
	Issuer       string   `name:"issuer" env:"ASSAY_OIDC_ISSUER" placeholder:"URL" help:"The service's address."`
	ClientID     string   `name:"client-id" env:"ASSAY_OIDC_CLIENT_ID" placeholder:"ID" help:"What this server is called there."`
	ClientSecret Secret   `name:"client-secret" env:"ASSAY_OIDC_CLIENT_SECRET" placeholder:"SECRET" help:"The secret that goes with it; best in the environment."`
	Domains      []string `name:"domains" env:"ASSAY_OIDC_DOMAINS" help:"Domains whose e-mail addresses may sign in; none is all."`
	Role         string   `name:"role" env:"ASSAY_OIDC_ROLE" enum:"member,staff" default:"member" help:"Role of those who sign in for the first time."`
}

// Quota bounds what one user holds; 0 is no bound.
type Quota struct {
	Sandboxes   int           `name:"sandboxes" env:"ASSAY_QUOTA_SANDBOXES" default:"20" help:"Sandboxes at once."`
	CPUPerDay   time.Duration `name:"cpu-per-day" env:"ASSAY_QUOTA_CPU_PER_DAY" default:"24h" help:"CPU time of sandboxes in a day."`
	Disk        int64         `name:"disk" env:"ASSAY_QUOTA_DISK" default:"68719476736" help:"Bytes that snapshots take."`
	Snapshots   int           `name:"snapshots" env:"ASSAY_QUOTA_SNAPSHOTS" default:"50" help:"Snapshots."`
	Submissions int           `name:"submissions-per-minute" env:"ASSAY_QUOTA_SUBMISSIONS" default:"30" help:"Submissions of one member in a minute."`
}

// Cost is what use costs, in Currency.
type Cost struct {
	Currency      string  `name:"currency" env:"ASSAY_COST_CURRENCY" default:"EUR" help:"What the other rates are in."`
	CPUHour       float64 `name:"cpu-hour" env:"ASSAY_COST_CPU_HOUR" default:"0" help:"One hour of CPU time."`
	GiBHour       float64 `name:"gib-hour" env:"ASSAY_COST_GIB_HOUR" default:"0" help:"One GiB of machine memory for an hour."`
	SnapshotMonth float64 `name:"snapshot-gib-month" env:"ASSAY_COST_SNAPSHOT_GIB_MONTH" default:"0" help:"One GiB of snapshots for 30 days."`
}

// Secret is a setting that may hold a password: it never shows itself.
type Secret string

// String hides the secret.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return "(hidden)"
}

// GoString hides the secret.
func (s Secret) GoString() string { return s.String() }

// MarshalText hides the secret.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Reveal gives the secret.
func (s Secret) Reveal() string { return string(s) }

// API says whether this process answers requests, Runs whether it runs
// sandboxes.
func (s *Server) API() bool { return s.Role != "node" }

// Runs says whether this process runs sandboxes.
func (s *Server) Runs() bool { return s.Role != "api" }

// Proxies are TrustedProxies, which Check has read before.
func (s *Server) Proxies() []netip.Prefix {
	var list []netip.Prefix
	for _, text := range s.TrustedProxies {
		if p, err := proxy(text); err == nil {
			list = append(list, p)
		}
	}
	return list
}

// proxy reads a network or one address.
func proxy(text string) (netip.Prefix, error) {
	if ip, err := netip.ParseAddr(text); err == nil {
		return netip.PrefixFrom(ip, ip.BitLen()), nil
	}
	return netip.ParsePrefix(text)
}

var nodeName = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]{0,62})?$`)

// Check fills in what was left out and gives all that is wrong at once, as one
// fault of kind Invalid.
func (s *Server) Check() error {
	var wrong []error
	bad := func(name, format string, args ...any) {
		wrong = append(wrong, fault.Errorf(fault.Invalid, name+": "+format, args...))
	}
	if s.Node == "" {
		host, err := os.Hostname()
		if err != nil {
			bad("node", "the host has no name: %w", err)
		}
		s.Node = host
	}
	if !nodeName.MatchString(s.Node) {
		bad("node", "%q is no name: letters, digits, dots, dashes and underscores", s.Node)
	}
	if _, _, err := net.SplitHostPort(s.Listen); err != nil {
		bad("listen", "%q is no ADDRESS:PORT", s.Listen)
	}
	if u, err := url.Parse(s.PublicURL); s.PublicURL != "" && (err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.Path != "" && u.Path != "/") {
		bad("public-url", "%q is no http or https address without a path", s.PublicURL)
	}
	s.PublicURL, s.NodeURL = strings.TrimSuffix(s.PublicURL, "/"), strings.TrimSuffix(s.NodeURL, "/")
	if u, err := url.Parse(s.NodeURL); s.NodeURL != "" && (err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.Path != "" && u.Path != "/") {
		bad("node-url", "%q is no http or https address without a path", s.NodeURL)
	}
	s.PreviewURL = strings.TrimSuffix(s.PreviewURL, "/")
	switch u, err := url.Parse(s.PreviewURL); {
	case s.PreviewURL == "":
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.Path != "":
		bad("preview-url", "%q is no http or https address without a path", s.PreviewURL)
	case net.ParseIP(u.Hostname()) != nil:
		bad("preview-url", "%q: an address has no names below it", s.PreviewURL)
	}
	if _, _, err := net.SplitHostPort(s.PreviewListen); s.PreviewListen != "" && s.PreviewListen != PreviewOff && err != nil {
		bad("preview-listen", "%q is no ADDRESS:PORT, and not %q", s.PreviewListen, PreviewOff)
	}
	if s.PreviewMax == 0 {
		s.PreviewMax = 24 * time.Hour
	}
	if s.PreviewMax < time.Minute {
		bad("preview-max", "%v is shorter than a minute", s.PreviewMax)
	}
	for name, check := range map[string]struct {
		text    Secret
		schemes []string
	}{
		"database-url": {s.DatabaseURL, []string{"postgres", "postgresql"}},
		"nats-url":     {s.NATSURL, []string{"nats", "tls"}},
		"blob-url":     {s.BlobURL, []string{"s3"}},
	} {
		if check.text == "" {
			continue
		}
		// What url.Parse says may hold the password.
		if u, err := url.Parse(check.text.Reveal()); err != nil || !slices.Contains(check.schemes, u.Scheme) {
			bad(name, "is no URL that begins with %s://", check.schemes[0])
		}
	}
	if s.Role != "all" && (s.DatabaseURL == "" || s.NATSURL == "" || s.BlobURL == "") {
		bad("role", "%q shares its work with others: it needs database-url, nats-url and blob-url", s.Role)
	}
	for _, text := range s.TrustedProxies {
		if _, err := proxy(text); err != nil {
			bad("trusted-proxies", "%q is no network, like 10.0.0.0/8", text)
		}
	}
	for name, n := range map[string]float64{
		"pool": float64(s.Pool), "jobs": float64(s.Jobs), "rate": s.Rate, "max-upload": float64(s.MaxUpload), "quota-sandboxes": float64(s.Quota.Sandboxes),
		"quota-disk": float64(s.Quota.Disk), "quota-snapshots": float64(s.Quota.Snapshots), "quota-cpu-per-day": s.Quota.CPUPerDay.Seconds(),
		"quota-submissions-per-minute": float64(s.Quota.Submissions), "cost-cpu-hour": s.Cost.CPUHour, "cost-gib-hour": s.Cost.GiBHour,
		"cost-snapshot-gib-month": s.Cost.SnapshotMonth,
	} {
		if n < 0 {
			bad(name, "%v is below zero", n)
		}
	}
	if s.Lease < time.Second {
		bad("lease", "%v is shorter than a second", s.Lease)
	}
	if s.KeepAudit < 0 {
		bad("keep-audit", "%v is below zero", s.KeepAudit)
	}
	if s.Drain < 0 {
		bad("drain", "%v is below zero", s.Drain)
	}
	if s.OIDC.Issuer != "" && s.OIDC.ClientID == "" {
		bad("oidc-client-id", "is missing, oidc-issuer is given")
	}
	if len(wrong) == 0 {
		return nil
	}
	slices.SortFunc(wrong, func(a, b error) int {
		if a.Error() < b.Error() {
			return -1
		}
		return 1
	})
	return fault.Errorf(fault.Invalid, "%w", errors.Join(wrong...)).WithHint(`"assay serve --help" lists all settings`)
}
