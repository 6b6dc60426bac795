package image

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"assay/internal/bytesize"
	"assay/internal/sandbox"
)

// Definition says how a template is made. Zero values of Shape, User and Driver
// mean "the parent's, or the default's".
type Definition struct {
	Description string `yaml:"description,omitempty" json:"description,omitempty"`
	// From is where the root filesystem comes from.
	From From `yaml:"from" json:"from"`
	// Packages are Debian packages to install, "name" or "name=version".
	Packages []string `yaml:"packages,omitempty" json:"packages,omitempty"`
	// Files are put into the tree after the packages and before Run.
	Files []File `yaml:"files,omitempty" json:"files,omitempty"`
	// Run are shell steps, run as root inside the tree, in order; the first
	// that fails ends the build. They are the administrator's code.
	Run []string `yaml:"run,omitempty" json:"run,omitempty"`
	// Shape is the size of the machines.
	Shape Shape `yaml:"shape,omitempty" json:"shape"`
	// Driver is what makes the machines, one of DriverNames; empty leaves it to
	// who uses the template.
	Driver string `yaml:"driver,omitempty" json:"driver,omitempty"`
	// Languages names what the template can compile or run.
	Languages []string `yaml:"languages,omitempty" json:"languages,omitempty"`
	// Warm are shell commands run once in the booted machine, before the
	// snapshot that later machines are restored from.
	Warm []string `yaml:"warm,omitempty" json:"warm,omitempty"`
	// User is the name of the account with uid and gid 1000 that commands run
	// as; DefaultUser if empty.
	User string `yaml:"user,omitempty" json:"user,omitempty"`
}

// From names one source of the root filesystem. Debian and OCI may stand
// together: the OCI image, which then must already have the packages and
// steps in it, is used on hosts without mmdebstrap.
type From struct {
	// Debian is a suite ("bookworm"), fetched with the host's own apt sources.
	Debian string `yaml:"debian,omitempty" json:"debian,omitempty"`
	// OCI is an image: a registry reference, or, when it begins with "/" or
	// ".", the path of an OCI layout directory or of an image tar.
	OCI string `yaml:"oci,omitempty" json:"oci,omitempty"`
	// Tar is the path of a root filesystem, plain or compressed with gzip.
	Tar string `yaml:"tar,omitempty" json:"tar,omitempty"`
	// Template is another template, to which this definition adds.
	Template string `yaml:"template,omitempty" json:"template,omitempty"`
}

// File is one file to put into the tree.
type File struct {
	Path string `yaml:"path" json:"path"`
	// Content is the file's text; Source is a file on the host, absolute or
	// beside the definition. Exactly one is given.
	Content string `yaml:"content,omitempty" json:"content,omitempty"`
	Source  string `yaml:"source,omitempty" json:"source,omitempty"`
	// Mode is octal, "0644" if empty.
	Mode string `yaml:"mode,omitempty" json:"mode,omitempty"`
	// Owner is "root" (default) or "user".
	Owner string `yaml:"owner,omitempty" json:"owner,omitempty"`
}

// Shape is sandbox.Shape as a definition writes it.
type Shape struct {
	VCPUs     int           `yaml:"vcpus,omitempty" json:"vcpus"`
	Memory    bytesize.Size `yaml:"memory,omitempty" json:"memory_bytes"`
	Disk      bytesize.Size `yaml:"disk,omitempty" json:"disk_bytes"`
	Processes int           `yaml:"processes,omitempty" json:"processes"`
}

// DefaultUser is the account that commands run as; UserID is its uid and gid.
const (
	DefaultUser = "user"
	UserID      = 1000
)

// DriverNames are the drivers that a definition may ask for. Whether a host can
// run one shows when a machine is made.
var DriverNames = []string{"gvisor", "qemu"}

// defaultShape fills what neither a definition nor its parents say.
var defaultShape = Shape{VCPUs: 2, Memory: 512 << 20, Disk: 512 << 20, Processes: 256}

// Bounds of a definition.
const (
	MaxDefinition = 256 << 10 // bytes of YAML
	maxFileSource = 64 << 20  // bytes of one file brought in by Source
	maxItems      = 2000      // entries of one list
	maxText       = 64 << 10  // bytes of one step, command or content
	maxParents    = 8
)

var (
	nameRE     = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,39}$`)
	suiteRE    = regexp.MustCompile(`^[a-z][a-z0-9.-]{0,39}$`)
	packageRE  = regexp.MustCompile(`^[a-z0-9][a-z0-9+.-]{0,127}(=[A-Za-z0-9.+:~-]{1,127})?$`)
	languageRE = regexp.MustCompile(`^[a-z][a-z0-9+#._-]{0,39}$`)
	userRE     = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,30}$`)
	modeRE     = regexp.MustCompile(`^0?[0-7]{3}$`)
)

// flaw is one mistake and the YAML path of the value that has it.
type flaw struct{ at, text string }

// check finds the first mistake that the YAML reader cannot see, or nil.
func (d Definition) check() *flaw {
	for _, f := range []func() *flaw{d.checkFrom, d.checkPackages, d.checkFiles, d.checkTexts, d.checkShape} {
		if bad := f(); bad != nil {
			return bad
		}
	}
	if d.User != "" && (!userRE.MatchString(d.User) || d.User == "root") {
		return &flaw{"$.user", fmt.Sprintf("user %q is not the name of an ordinary account", d.User)}
	}
	if d.Driver != "" && !slices.Contains(DriverNames, d.Driver) {
		return &flaw{"$.driver", fmt.Sprintf("driver %q is none of %s", d.Driver, strings.Join(DriverNames, ", "))}
	}
	for i, l := range d.Languages {
		if !languageRE.MatchString(l) {
			return &flaw{item("languages", i), fmt.Sprintf("language %q is not a name in lower case", l)}
		}
	}
	return nil
}

func (d Definition) checkFrom() *flaw {
	f := d.From
	var given []string
	for _, k := range []struct{ key, value string }{{"debian", f.Debian}, {"oci", f.OCI}, {"tar", f.Tar}, {"template", f.Template}} {
		if k.value != "" {
			given = append(given, k.key)
		}
	}
	switch {
	case len(given) == 0:
		return &flaw{"$.from", "from needs one of debian, oci, tar, template"}
	case len(given) == 2 && f.Debian != "" && f.OCI != "":
	case len(given) > 1:
		return &flaw{"$.from." + given[1], "from has " + strings.Join(given, " and ") + ", which do not go together"}
	}
	switch {
	case f.Debian != "" && !suiteRE.MatchString(f.Debian):
		return &flaw{"$.from.debian", fmt.Sprintf("%q is not a Debian suite such as bookworm", f.Debian)}
	case f.Template != "" && !nameRE.MatchString(f.Template):
		return &flaw{"$.from.template", fmt.Sprintf("%q is not a template name", f.Template)}
	case f.OCI != "" && !isPath(f.OCI):
		if err := checkReference(f.OCI); err != nil {
			return &flaw{"$.from.oci", err.Error()}
		}
	}
	if f.Debian == "" && f.Template == "" {
		// Steps need a root they can be run in without touching the host, which
		// today only mmdebstrap gives.
		if len(d.Packages) > 0 {
			return &flaw{"$.packages", "packages need \"from: debian\""}
		}
		if len(d.Run) > 0 {
			return &flaw{"$.run", "run steps need \"from: debian\""}
		}
	}
	return nil
}

func (d Definition) checkPackages() *flaw {
	if len(d.Packages) > maxItems {
		return &flaw{"$.packages", fmt.Sprintf("more than %d packages", maxItems)}
	}
	for i, p := range d.Packages {
		// A trailing dash asks apt to remove the package.
		if !packageRE.MatchString(p) || strings.HasSuffix(p, "-") {
			return &flaw{item("packages", i), fmt.Sprintf("%q is not a package name", p)}
		}
	}
	return nil
}

func (d Definition) checkFiles() *flaw {
	if len(d.Files) > maxItems {
		return &flaw{"$.files", fmt.Sprintf("more than %d files", maxItems)}
	}
	for i, f := range d.Files {
		at := item("files", i)
		switch {
		case !path.IsAbs(f.Path) || path.Clean(f.Path) != f.Path || f.Path == "/" || strings.ContainsRune(f.Path, 0):
			return &flaw{at + ".path", fmt.Sprintf("file path %q is not absolute and plain", f.Path)}
		case isReserved(f.Path):
			return &flaw{at + ".path", fmt.Sprintf("file path %q belongs to the machine", f.Path)}
		case (f.Content == "") == (f.Source == ""):
			return &flaw{at, "a file needs one of content, source"}
		case len(f.Content) > maxText:
			return &flaw{at + ".content", fmt.Sprintf("content is larger than %s; use source", bytesize.Size(maxText))}
		case f.Mode != "" && !modeRE.MatchString(f.Mode):
			return &flaw{at + ".mode", fmt.Sprintf("mode %q is not octal such as \"0644\"", f.Mode)}
		case f.Owner != "" && f.Owner != "root" && f.Owner != "user":
			return &flaw{at + ".owner", fmt.Sprintf("owner %q is not root or user", f.Owner)}
		}
	}
	return nil
}

func (d Definition) checkTexts() *flaw {
	for _, list := range []struct {
		key   string
		texts []string
	}{{"run", d.Run}, {"warm", d.Warm}} {
		if len(list.texts) > maxItems {
			return &flaw{"$." + list.key, fmt.Sprintf("more than %d entries", maxItems)}
		}
		for i, t := range list.texts {
			if strings.TrimSpace(t) == "" || len(t) > maxText || strings.ContainsRune(t, 0) {
				return &flaw{item(list.key, i), fmt.Sprintf("a command must have text, of at most %s", bytesize.Size(maxText))}
			}
		}
	}
	return nil
}

func (d Definition) checkShape() *flaw {
	for _, b := range []struct {
		key           string
		value, lo, hi int64
		size          bool
	}{
		{"vcpus", int64(d.Shape.VCPUs), 1, 256, false},
		{"memory", int64(d.Shape.Memory), 64 << 20, 1 << 42, true},
		{"disk", int64(d.Shape.Disk), 1 << 20, 1 << 44, true},
		{"processes", int64(d.Shape.Processes), 16, 1 << 20, false},
	} {
		if b.value == 0 || (b.value >= b.lo && b.value <= b.hi) {
			continue
		}
		lo, hi := strconv.FormatInt(b.lo, 10), strconv.FormatInt(b.hi, 10)
		if b.size {
			lo, hi = bytesize.Size(b.lo).String(), bytesize.Size(b.hi).String()
		}
		return &flaw{"$.shape." + b.key, fmt.Sprintf("%s is not between %s and %s", b.key, lo, hi)}
	}
	return nil
}

// extend gives the definition that d describes on top of its parent.
func (d Definition) extend(parent Definition) Definition {
	out := parent
	out.Description = d.Description
	out.Packages = union(parent.Packages, d.Packages)
	out.Languages = union(parent.Languages, d.Languages)
	out.Files = slices.Concat(parent.Files, d.Files)
	out.Run = slices.Concat(parent.Run, d.Run)
	out.Warm = slices.Concat(parent.Warm, d.Warm)
	out.Shape = d.Shape.or(parent.Shape)
	if d.User != "" {
		out.User = d.User
	}
	if d.Driver != "" {
		out.Driver = d.Driver
	}
	return out
}

// or fills what s leaves out from t.
func (s Shape) or(t Shape) Shape {
	if s.VCPUs == 0 {
		s.VCPUs = t.VCPUs
	}
	if s.Memory == 0 {
		s.Memory = t.Memory
	}
	if s.Disk == 0 {
		s.Disk = t.Disk
	}
	if s.Processes == 0 {
		s.Processes = t.Processes
	}
	return s
}

func (s Shape) engine() sandbox.Shape {
	return sandbox.Shape{VCPUs: s.VCPUs, Memory: int64(s.Memory), Disk: int64(s.Disk), Processes: s.Processes}
}

// perm gives the file's mode; check has accepted it.
func (f File) perm() int64 {
	if f.Mode == "" {
		return 0o644
	}
	n, err := strconv.ParseInt(f.Mode, 8, 32)
	if err != nil {
		return 0o644
	}
	return n
}

func union(a, b []string) []string {
	out := slices.Clone(a)
	for _, x := range b {
		if !slices.Contains(out, x) {
			out = append(out, x)
		}
	}
	return out
}

func item(key string, i int) string { return "$." + key + "[" + strconv.Itoa(i) + "]" }

// isPath tells a path from a registry reference.
func isPath(s string) bool { return strings.HasPrefix(s, "/") || strings.HasPrefix(s, ".") }

// isReserved says that a path of the tree is the machine's own.
func isReserved(p string) bool {
	for _, dir := range []string{"/proc", "/sys", "/dev", "/.assay"} {
		if p == dir || strings.HasPrefix(p, dir+"/") {
			return true
		}
	}
	return false
}
