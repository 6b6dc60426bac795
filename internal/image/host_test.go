package image

import (
	"crypto/rand"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"assay/internal/fault"
	"assay/internal/require"
)

// smallDisk mounts a tmpfs of so many bytes.
func smallDisk(t *testing.T, size string) string {
	t.Helper()
	require.Root(t)
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size="+size); err != nil {
		t.Skipf("cannot mount a tmpfs: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func openOn(t *testing.T, disk string) *Store {
	t.Helper()
	guestd := filepath.Join(t.TempDir(), "guestd")
	writeFile(t, guestd, "guestd")
	s, err := Open(filepath.Join(disk, "store"), Options{Guestd: guestd})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func bigRoot(t *testing.T, bytes int) []byte {
	data := make([]byte, bytes)
	rand.Read(data)
	return makeTar(t, entry{name: "etc/passwd", data: "root:x:0:0::/:/bin/sh\n"}, entry{name: "big", data: string(data)})
}

func TestFullDiskWhileUnpacking(t *testing.T) {
	t.Parallel()
	s := openOn(t, smallDisk(t, "4m"))
	_, err := s.Build(t.Context(), defineTar(t, bigRoot(t, 6<<20), ""), nil)
	wantFull(t, err)
	wantNothingBuilt(t, s)
}

func TestFullDiskBeforeTheImage(t *testing.T) {
	t.Parallel()
	require.Tool(t, "mkfs.erofs")
	s := openOn(t, smallDisk(t, "10m"))
	_, err := s.Build(t.Context(), defineTar(t, bigRoot(t, 6<<20), ""), nil)
	wantFull(t, err)
	if !strings.Contains(err.Error(), "are needed") {
		t.Errorf("got %q, want it to say how much is needed", err)
	}
	wantNothingBuilt(t, s)
}

// TestFullDiskInMkfs fills the disk between the check and the write.
func TestFullDiskInMkfs(t *testing.T) {
	t.Parallel()
	require.Tool(t, "mkfs.erofs")
	disk := smallDisk(t, "24m")
	s := openOn(t, disk)
	root := t.TempDir()
	data := make([]byte, 8<<20)
	rand.Read(data)
	writeFile(t, filepath.Join(root, "big"), string(data))
	writeFile(t, filepath.Join(disk, "ballast"), strings.Repeat("x", 20<<20))
	log := &buildLog{}
	// A tree that claims to be small passes the check.
	err := s.mkfs(t.Context(), treeInfo{Bytes: 4096, Owned: true}, root, filepath.Join(s.path(dirTmp), "out"), "sha256:x", log)
	wantFull(t, err)
}

func wantFull(t *testing.T, err error) {
	t.Helper()
	if !fault.Is(err, fault.Exhausted) || !strings.Contains(err.Error(), "the disk is full") || !strings.Contains(err.Error(), "are free") || fault.HintOf(err) == "" {
		t.Fatalf("got %v (%v), want exhausted, with what is free and a hint", err, fault.KindOf(err))
	}
}

// TestMissingToolHasRemedy is not parallel: it changes PATH.
func TestMissingToolHasRemedy(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	s := openStore(t, Options{})
	debian := filepath.Join(t.TempDir(), "deb.yaml")
	writeFile(t, debian, "from: {debian: bookworm}\n")
	for file, pkg := range map[string]string{debian: "mmdebstrap", defineTar(t, smallRoot(t), ""): "erofs-utils"} {
		_, err := s.Build(t.Context(), file, nil)
		if !fault.Is(err, fault.Unsupported) || fault.HintOf(err) != "apt-get install "+pkg {
			t.Errorf("got %v with hint %q, want unsupported with the remedy for %s", err, fault.HintOf(err), pkg)
		}
		wantEmptyTmp(t, s)
	}
}

// TestOCIStandsInForMmdebstrap is not parallel: it changes PATH.
func TestOCIStandsInForMmdebstrap(t *testing.T) {
	require.Tool(t, "mkfs.erofs")
	bin := t.TempDir()
	if err := os.Symlink(require.Tool(t, "mkfs.erofs"), filepath.Join(bin, "mkfs.erofs")); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin)
	s := openStore(t, Options{})
	file := filepath.Join(t.TempDir(), "both.yaml")
	writeFile(t, file, "from: {debian: bookworm, oci: "+writeLayout(t, twoLayers(t))+"}\npackages: [make]\nrun: [\"true\"]\n")
	mustBuild(t, s, file, nil)
}

func TestSuiteThatTheHostDoesNotHave(t *testing.T) {
	t.Parallel()
	require.Tool(t, "mmdebstrap")
	s := openStore(t, Options{})
	file := filepath.Join(t.TempDir(), "old.yaml")
	writeFile(t, file, "from: {debian: nosuchsuite}\n")
	_, err := s.Build(t.Context(), file, nil)
	if !fault.Is(err, fault.Unsupported) || !strings.Contains(fault.HintOf(err), "nosuchsuite") {
		t.Errorf("got %v with hint %q, want unsupported that names the suite", err, fault.HintOf(err))
	}
	wantNothingBuilt(t, s)
}
