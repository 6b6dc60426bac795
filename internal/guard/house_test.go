package guard

import (
	"path"
	"slices"
	"strings"
	"testing"
)

// Lengths of files in lines. Beyond the aim a file is only named in the log.
const (
	linesAim   = 400
	linesLimit = 700
)

func TestFileLength(t *testing.T) {
	t.Parallel()
	for _, s := range sources(t) {
		switch {
		case s.generated:
		case s.lines > linesLimit:
			t.Errorf("%s has %d lines, more than %d\n\treason against it: long files began as \"the manager\"; split by verb on the noun (lease.go, fork.go)", s.path, s.lines, linesLimit)
		case s.lines > linesAim:
			t.Logf("%s has %d lines; files aim under %d", s.path, s.lines, linesAim)
		}
	}
}

// TestPackageComment wants one comment in each package, as godoc shows it.
func TestPackageComment(t *testing.T) {
	t.Parallel()
	type pkg struct {
		name      string
		commented []string
	}
	packages := map[string]*pkg{}
	for _, s := range sources(t) {
		name := s.ast.Name.Name
		if s.test && strings.HasSuffix(name, "_test") {
			continue // an external test package belongs to the package it tests
		}
		p := packages[s.dir]
		if p == nil {
			p = &pkg{name: name}
			packages[s.dir] = p
		}
		if s.ast.Doc == nil {
			continue
		}
		p.commented = append(p.commented, s.path)
		begin := "Package " + name + " "
		if name == "main" {
			begin = "Command " + path.Base(s.dir) + " "
		}
		if !strings.HasPrefix(s.ast.Doc.Text(), begin) {
			t.Errorf("%s: the package comment does not begin with %q", s.path, begin)
		}
	}
	for dir, p := range packages {
		if len(p.commented) != 1 {
			t.Errorf("package %s has %d package comments %v, want exactly one\n\treason: it says what the package is for, where to start and what it must not know", dir, len(p.commented), p.commented)
		}
	}
}

// TestNoGrabBags refuses names that say nothing about what is inside.
func TestNoGrabBags(t *testing.T) {
	t.Parallel()
	const reason = "\treason against it: everything fits into such a name, so everything ends there"
	folders := []string{"util", "utils", "common", "helper", "helpers", "shared", "misc", "lib", "pkg"}
	files := []string{"types.go", "util.go", "utils.go", "common.go", "helper.go", "helpers.go", "misc.go", "shared.go"}
	for _, s := range sources(t) {
		for _, part := range strings.Split(s.dir, "/") {
			if slices.Contains(folders, part) {
				t.Errorf("%s lies in a folder named %s\n%s", s.path, part, reason)
			}
		}
		if base := path.Base(s.path); slices.Contains(files, base) || slices.Contains(files, strings.Replace(base, "_test.go", ".go", 1)) {
			t.Errorf("%s is a grab-bag file name\n%s", s.path, reason)
		}
	}
}

// callRule says where certain functions may be called.
type callRule struct {
	name  string
	pkg   string
	funcs []string
	// allowed lists the packages that may call them.
	allowed []string
	reason  string
}

var callRules = []callRule{
	{
		name: "environment", pkg: "os", funcs: []string{"Getenv", "LookupEnv", "Environ"},
		// image hands the host's own proxy and apt settings to mmdebstrap.
		// The driver suite's probe is a program that runs inside machines.
		allowed: []string{"internal/cli/...", "internal/config/...", "internal/image", "internal/require", "internal/sandbox/drivertest/probe", "cmd/..."},
		reason:  "settings are read once at the edge and handed down; a setting read deep in the code is on no page",
	},
	{
		name: "printing", pkg: "fmt", funcs: []string{"Print", "Printf", "Println"},
		allowed: []string{"internal/cli/...", "cmd/..."},
		reason:  "stdout belongs to the command that runs; others return values or log",
	},
	{
		name: "exiting", pkg: "os", funcs: []string{"Exit"},
		allowed: []string{"cmd/...", "internal/sandbox/gvisor/...", "internal/sandbox/drivertest/probe"},
		reason:  "whoever exits skips everybody's cleaning up; the boot process of gvisor is a program of its own",
	},
	{
		// A tool dies with the thread that started it, too: image unlocks at its end.
		name: "locked_threads", pkg: "runtime", funcs: []string{"LockOSThread"},
		// netns keeps one thread of its own, on which nothing is ever started.
		allowed: []string{"internal/image", "internal/netguard/netns", "cmd/..."},
		reason:  "a goroutine that ends with its thread locked ends the thread, and the kernel ends every machine that was started on it",
	},
}

func TestCallRules(t *testing.T) {
	t.Parallel()
	for _, rule := range callRules {
		t.Run(rule.name, func(t *testing.T) {
			t.Parallel()
			for _, s := range sources(t) {
				if s.test || matchesAny(rule.allowed, s.dir) {
					continue
				}
				for _, at := range s.calls(rule.pkg, rule.funcs...) {
					t.Errorf("%s calls %s.%s\n\treason against it: %s", at, rule.pkg, strings.Join(rule.funcs, "/"), rule.reason)
				}
			}
		})
	}
}

// TestNoSleepInTests allows time.Sleep only where synctest's clock makes it
// exact and free.
func TestNoSleepInTests(t *testing.T) {
	t.Parallel()
	for _, s := range sources(t) {
		if !s.test || slices.Contains(s.imports(), "testing/synctest") {
			continue
		}
		for _, at := range s.calls("time", "Sleep") {
			t.Errorf("%s sleeps\n\treason against it: a test waits on a signal, not on time", at)
		}
	}
}
