package image

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"assay/internal/fault"
	"assay/internal/require"
)

// needDebian skips where a Debian tree cannot be built, or must not be since
// it takes 15 seconds and the network.
func needDebian(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("builds a Debian tree")
	}
	require.Root(t)
	require.Tool(t, "mmdebstrap")
	require.Tool(t, "mkfs.erofs")
	if out, err := exec.Command("apt-get", "indextargets", "--no-release-info", "--format", "$(RELEASE)", "Created-By: Packages").Output(); err != nil || !strings.Contains(string(out), "bookworm\n") {
		t.Skip("this host's apt sources do not have bookworm")
	}
}

func define(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "deb.yaml")
	writeFile(t, file, text)
	return file
}

func TestDebianTreeHasNothingOfTheHost(t *testing.T) {
	t.Parallel()
	needDebian(t)
	s := openStore(t, Options{})
	mustBuild(t, s, define(t, `
from: {debian: bookworm}
packages: [make]
files: [{path: /opt/greeting, content: "hello", mode: "0700", owner: user}]
run:
  - test "$(cat /opt/greeting)" = hello && echo "it's $(id -u)" > /opt/step
  - env > /opt/env
`), nil)
	wantEmptyTmp(t, s)
	root := filepath.Join(s.path(dirTrees), onlyEntry(t, s.path(dirTrees)), "root")
	for name, want := range map[string]string{"opt/step": "it's 0\n", "etc/resolv.conf": resolvers, "etc/hostname": "assay\n", "etc/machine-id": ""} {
		if got, err := os.ReadFile(filepath.Join(root, name)); err != nil || string(got) != want {
			t.Errorf("%s: got %q, %v, want %q", name, got, err, want)
		}
	}
	env, err := os.ReadFile(filepath.Join(root, "opt/env"))
	if err != nil || strings.Contains(string(env), "proxy") || strings.Contains(string(env), "TMPDIR") {
		t.Errorf("a step sees the environment %q (%v)", env, err)
	}
	for _, gone := range []string{"etc/apt/sources.list", "etc/apt/apt.conf.d/00assay-host", "var/log/apt", "usr/share/doc/make", "var/lib/apt/lists/partial"} {
		if exists(filepath.Join(root, gone)) {
			t.Errorf("%s is in the tree", gone)
		}
	}
	err = filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if info.Mode()&(fs.ModeSetuid|fs.ModeSetgid|fs.ModeDevice|fs.ModeNamedPipe|fs.ModeSocket) != 0 {
			t.Errorf("%s has mode %v", p, info.Mode())
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	d, err := s.Show("deb")
	if err != nil || !strings.Contains(strings.Join(d.Packages, "\n"), "\nmake=4.") {
		t.Errorf("show has packages %v (%v), want make among them", d.Packages, err)
	}
}

func TestFailingStepIsNamed(t *testing.T) {
	t.Parallel()
	needDebian(t)
	s := openStore(t, Options{})
	_, err := s.Build(t.Context(), define(t, "from: {debian: bookworm}\nrun: [\"true\", \"echo about to fail; exit 3\"]\n"), nil)
	if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "step 2 of the definition") || !strings.Contains(err.Error(), "about to fail") {
		t.Errorf("got %v, want a fault of kind invalid with the step's number and output", err)
	}
	wantNothingBuilt(t, s)
}

// cancelAt cancels at the first event whose text begins with something.
type cancelAt struct {
	text   string
	cancel func()
}

func (c cancelAt) Progress(p Progress) {
	if strings.HasPrefix(p.Text, c.text) {
		c.cancel()
	}
}

func TestCancelledPackagesLeaveNothing(t *testing.T) {
	t.Parallel()
	needDebian(t)
	s := openStore(t, Options{})
	ctx, cancel := context.WithCancel(t.Context())
	_, err := s.Build(ctx, define(t, "from: {debian: bookworm}\n"), cancelAt{"download", cancel})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want canceled", err)
	}
	wantNothingBuilt(t, s)
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil || strings.Contains(string(mounts), s.root) {
		t.Errorf("mounts are left under %s (%v)", s.root, err)
	}
}

func TestFullDiskInPackages(t *testing.T) {
	t.Parallel()
	needDebian(t)
	s := openOn(t, smallDisk(t, "90m"))
	_, err := s.Build(t.Context(), define(t, "from: {debian: bookworm}\n"), nil)
	wantFull(t, err)
	wantNothingBuilt(t, s)
}
