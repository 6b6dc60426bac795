package image

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"assay/internal/fault"
	"assay/internal/require"
	"assay/internal/sandbox"
)

// openStore opens a store in a directory of the test's own, with a small file
// as guestd.
func openStore(t *testing.T, opt Options) *Store {
	t.Helper()
	if opt.Guestd == "" {
		opt.Guestd = filepath.Join(t.TempDir(), "guestd")
		writeFile(t, opt.Guestd, "guestd of a test")
	}
	s, err := Open(filepath.Join(t.TempDir(), "store"), opt)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func writeFile(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// entry is one entry of a tar made in a test.
type entry struct {
	name, link, data string
	kind             byte // tar.TypeReg if 0
	mode             int64
}

func makeTar(t *testing.T, entries ...entry) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range entries {
		h := &tar.Header{Name: e.name, Linkname: e.link, Typeflag: e.kind, Mode: e.mode, Size: int64(len(e.data)), ModTime: time.Unix(1e9, 0)}
		if h.Typeflag == 0 {
			h.Typeflag = tar.TypeReg
		}
		if h.Mode == 0 {
			h.Mode = 0o755
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(e.data)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// smallRoot is a root filesystem that shows whether finishing works.
func smallRoot(t *testing.T) []byte {
	return makeTar(t,
		entry{name: "usr/bin/", kind: tar.TypeDir},
		entry{name: "bin", link: "usr/bin", kind: tar.TypeSymlink},
		entry{name: "bin/sh", data: "shell"},
		entry{name: "usr/bin/su", data: "su", mode: 0o4755},
		entry{name: "etc/passwd", data: "root:x:0:0::/root:/bin/sh\nold:x:1000:1000::/home/old:/bin/sh\n"},
		entry{name: "etc/resolv.conf", link: "/run/resolv.conf", kind: tar.TypeSymlink},
		entry{name: "dev/null", kind: tar.TypeChar},
		entry{name: "var/lib/apt/lists/x", data: "list"},
	)
}

// defineTar writes a root filesystem and a definition that uses it, and gives
// the definition's path.
func defineTar(t *testing.T, root []byte, more string) string {
	t.Helper()
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "root.tar"), string(root))
	file := filepath.Join(dir, "small.yaml")
	writeFile(t, file, "from:\n  tar: root.tar\n"+more)
	return file
}

// stages is an observer that remembers which stages it saw.
type stages struct {
	mu   sync.Mutex
	seen []Stage
	at   map[Stage]func()
}

func (s *stages) Progress(p Progress) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.seen) == 0 || s.seen[len(s.seen)-1] != p.Stage {
		s.seen = append(s.seen, p.Stage)
		if f := s.at[p.Stage]; f != nil {
			f()
		}
	}
}

func mustBuild(t *testing.T, s *Store, name string, obs Observer) sandbox.Template {
	t.Helper()
	tm, err := s.Build(t.Context(), name, obs)
	if err != nil {
		t.Fatal(err)
	}
	return tm
}

// wantEmptyTmp: whatever happened, no build may leave anything.
func wantEmptyTmp(t *testing.T, s *Store) {
	t.Helper()
	entries, err := os.ReadDir(s.path(dirTmp))
	if err != nil || len(entries) > 0 {
		t.Errorf("tmp has %v (%v), want nothing", entries, err)
	}
}

func wantNothingBuilt(t *testing.T, s *Store) {
	t.Helper()
	wantEmptyTmp(t, s)
	for _, d := range []string{dirImages, dirTrees, dirRecords, dirLocks} {
		entries, err := os.ReadDir(s.path(d))
		if err != nil || len(entries) > 0 {
			t.Errorf("%s has %v (%v), want nothing", d, entries, err)
		}
	}
}

func TestBuildFromTar(t *testing.T) {
	t.Parallel()
	require.Tool(t, "mkfs.erofs")
	fsck := require.Tool(t, "fsck.erofs")
	s := openStore(t, Options{})
	tm := mustBuild(t, s, defineTar(t, smallRoot(t), "shape: {memory: 128MiB}\nwarm: [\"true\"]\nfiles: [{path: /opt/x, content: hi, mode: \"0755\"}]\n"), nil)
	wantEmptyTmp(t, s)

	wantShape := sandbox.Shape{VCPUs: 2, Memory: 128 << 20, Disk: 512 << 20, Processes: 256}
	if tm.Name != "small" || tm.Shape != wantShape || !cmp.Equal(tm.Warm, []string{"true"}) || !strings.HasPrefix(tm.Digest, "sha256:") {
		t.Errorf("got template %+v", tm)
	}
	if out, err := exec.Command(fsck, tm.Image).CombinedOutput(); err != nil {
		t.Errorf("fsck.erofs: %v: %s", err, out)
	}
	root := filepath.Join(s.path(dirTrees), onlyEntry(t, s.path(dirTrees)), "root")
	for name, want := range map[string]string{
		"usr/bin/sh": "shell", "opt/x": "hi", "etc/hostname": "assay\n", "etc/resolv.conf": resolvers, "etc/machine-id": "",
		".assay/guestd": "guestd of a test",
		"etc/passwd":    "root:x:0:0::/root:/bin/sh\nuser:x:1000:1000::/home/user:/bin/sh\n",
		"etc/group":     "root:x:0:\nuser:x:1000:\n",
	} {
		got, err := os.ReadFile(filepath.Join(root, name))
		if err != nil || string(got) != want {
			t.Errorf("%s: got %q, %v, want %q", name, got, err, want)
		}
	}
	for _, gone := range []string{"dev/null", "var/lib/apt/lists/x", "home/old"} {
		if exists(filepath.Join(root, gone)) {
			t.Errorf("%s is in the tree", gone)
		}
	}
	for name, want := range map[string]os.FileMode{
		"usr/bin/su": 0o755, "tmp": 0o777 | os.ModeSticky | os.ModeDir, "dev/shm": 0o777 | os.ModeSticky | os.ModeDir,
		".assay/guestd": 0o755, ".assay": 0o755 | os.ModeDir, "proc": 0o755 | os.ModeDir, "sys": 0o755 | os.ModeDir,
	} {
		info, err := os.Lstat(filepath.Join(root, name))
		if err != nil || info.Mode() != want {
			t.Errorf("%s: got %v, %v, want mode %v", name, info, err, want)
		}
	}
	if os.Geteuid() == 0 {
		for name, want := range map[string]uint32{"box": 0, "home/user": UserID} {
			var st unix.Stat_t
			if err := unix.Lstat(filepath.Join(root, name), &st); err != nil || st.Uid != want || st.Gid != want {
				t.Errorf("%s belongs to %d:%d (%v), want %d", name, st.Uid, st.Gid, err, want)
			}
		}
	}
}

func onlyEntry(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Fatalf("%s has %v (%v), want one entry", dir, entries, err)
	}
	return entries[0].Name()
}

func TestSecondBuildIsFound(t *testing.T) {
	t.Parallel()
	require.Tool(t, "mkfs.erofs")
	s := openStore(t, Options{})
	file := defineTar(t, smallRoot(t), "")
	first := mustBuild(t, s, file, nil)
	before, err := os.Stat(first.Image)
	if err != nil {
		t.Fatal(err)
	}
	var obs stages
	second := mustBuild(t, s, file, &obs)
	after, err := os.Stat(second.Image)
	if err != nil {
		t.Fatal(err)
	}
	if !os.SameFile(before, after) || len(obs.seen) > 0 {
		t.Errorf("the second build made the image again, in stages %v", obs.seen)
	}
	if diff := cmp.Diff(first, second); diff != "" {
		t.Errorf("templates differ (-first +second):\n%s", diff)
	}
}

func TestNewGuestdCostsNoNewTree(t *testing.T) {
	t.Parallel()
	require.Tool(t, "mkfs.erofs")
	s := openStore(t, Options{})
	file := defineTar(t, smallRoot(t), "")
	first := mustBuild(t, s, file, nil)
	writeFile(t, s.opt.Guestd, "a newer guestd")
	var obs stages
	second := mustBuild(t, s, file, &obs)
	if want := []Stage{StageImage}; !cmp.Equal(obs.seen, want) {
		t.Errorf("stages %v, want %v", obs.seen, want)
	}
	if first.Digest == second.Digest || first.Image == second.Image {
		t.Error("the template has the same digest or image with another guestd")
	}
	if exists(first.Image) || exists(first.Snapshots) {
		t.Error("the image of the old guestd is still there, and nobody uses it")
	}
}

func TestDigestCoversWarmAndShape(t *testing.T) {
	t.Parallel()
	require.Tool(t, "mkfs.erofs")
	s := openStore(t, Options{})
	root := smallRoot(t)
	digests := map[string]bool{}
	for _, more := range []string{"", "warm: [a]\n", "warm: [b]\n", "shape: {processes: 99}\n", "files: [{path: /x, content: y}]\n", "user: other\n"} {
		digests[mustBuild(t, s, defineTar(t, root, more), nil).Digest] = true
	}
	if len(digests) != 6 {
		t.Errorf("6 definitions gave %d digests", len(digests))
	}
}

func TestImageIsReproducible(t *testing.T) {
	t.Parallel()
	require.Tool(t, "mkfs.erofs")
	var images [2][]byte
	for i := range images {
		s := openStore(t, Options{})
		tm := mustBuild(t, s, defineTar(t, smallRoot(t), ""), nil)
		data, err := os.ReadFile(tm.Image)
		if err != nil {
			t.Fatal(err)
		}
		images[i] = data
	}
	if !bytes.Equal(images[0], images[1]) {
		t.Error("two stores made different images of one definition")
	}
}

func TestConcurrentBuildsMakeOneImage(t *testing.T) {
	t.Parallel()
	require.Tool(t, "mkfs.erofs")
	s := openStore(t, Options{})
	other, err := Open(s.root, s.opt) // as another process would
	if err != nil {
		t.Fatal(err)
	}
	file := defineTar(t, smallRoot(t), "")
	var wg sync.WaitGroup
	var mu sync.Mutex
	made, digests := 0, map[string]bool{}
	for i := range 6 {
		store := s
		if i%2 == 1 {
			store = other
		}
		wg.Go(func() {
			var obs stages
			tm, err := store.Build(t.Context(), file, &obs)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Error(err)
			}
			digests[tm.Digest] = true
			for _, st := range obs.seen {
				if st == StageImage {
					made++
				}
			}
		})
	}
	wg.Wait()
	if made != 1 || len(digests) != 1 {
		t.Errorf("the image was made %d times with %d digests, want once", made, len(digests))
	}
	wantEmptyTmp(t, s)
}

func TestOpenRemovesLeftovers(t *testing.T) {
	t.Parallel()
	s := openStore(t, Options{})
	alive, err := s.newWork()
	if err != nil {
		t.Fatal(err)
	}
	dead, err := s.newWork()
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(dead.path, "half"), "x")
	dead.lock.release() // what the kernel does when a process dies
	if err := os.MkdirAll(s.path(dirTmp, "build-nolock", "deep"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(s.root, s.opt); err != nil {
		t.Fatal(err)
	}
	if exists(dead.path) || exists(s.path(dirTmp, "build-nolock")) {
		t.Error("leftovers of a dead build are still there")
	}
	if !exists(alive.path) {
		t.Error("the directory of a running build was removed")
	}
	if err := alive.remove(); err != nil {
		t.Fatal(err)
	}
	wantEmptyTmp(t, s)
}

func TestHalfResultIsNoResult(t *testing.T) {
	t.Parallel()
	require.Tool(t, "mkfs.erofs")
	s := openStore(t, Options{})
	file := defineTar(t, smallRoot(t), "")
	tm := mustBuild(t, s, file, nil)
	// A tree without its note, and an image cut short: neither may be used.
	tree := filepath.Join(s.path(dirTrees), onlyEntry(t, s.path(dirTrees)))
	if err := os.Remove(filepath.Join(tree, treeInfoName)); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(tm.Image, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(tm.Image, 4096); err != nil {
		t.Fatal(err)
	}
	var obs stages
	again := mustBuild(t, s, file, &obs)
	if info, err := os.Stat(again.Image); err != nil || info.Size() <= 4096 {
		t.Errorf("the image is still cut short: %v, %v", info, err)
	}
	if want := []Stage{StageUnpack, StageFinish, StageImage}; !cmp.Equal(obs.seen, want) {
		t.Errorf("stages %v, want %v", obs.seen, want)
	}
}

func TestCancelledBuildLeavesNothing(t *testing.T) {
	t.Parallel()
	require.Tool(t, "mkfs.erofs")
	s := openStore(t, Options{})
	ctx, cancel := context.WithCancel(t.Context())
	obs := &stages{at: map[Stage]func(){StageImage: cancel}}
	_, err := s.Build(ctx, defineTar(t, smallRoot(t), ""), obs)
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v, want canceled", err)
	}
	wantEmptyTmp(t, s)
	if entries, _ := os.ReadDir(s.path(dirImages)); len(entries) > 0 {
		t.Errorf("images has %v, want nothing", entries)
	}
}

func TestRemoveWaitsForUsers(t *testing.T) {
	t.Parallel()
	require.Tool(t, "mkfs.erofs")
	s := openStore(t, Options{})
	tm := mustBuild(t, s, defineTar(t, smallRoot(t), ""), nil)
	release, err := s.Use(t.Context(), tm)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Remove("small"); !fault.Is(err, fault.Conflict) || fault.HintOf(err) == "" {
		t.Errorf("removing a template in use: got %v, want a conflict with a hint", err)
	}
	if !exists(tm.Image) {
		t.Fatal("the image of a template in use is gone")
	}
	release()
	if err := s.Remove("small"); err != nil {
		t.Fatal(err)
	}
	wantNothingBuilt(t, s)
	if exists(tm.Snapshots) {
		t.Error("the snapshots are still there")
	}
	if _, err := s.Use(t.Context(), tm); !fault.Is(err, fault.NotFound) {
		t.Errorf("using a removed template: got %v, want not found", err)
	}
	if err := s.Remove("small"); !fault.Is(err, fault.NotFound) {
		t.Errorf("removing it again: got %v, want not found", err)
	}
}

func TestImportListShow(t *testing.T) {
	t.Parallel()
	require.Tool(t, "mkfs.erofs")
	s := openStore(t, Options{})
	file := defineTar(t, smallRoot(t), "description: mine\n")
	if _, err := s.Import(t.Context(), "mine", file); err != nil {
		t.Fatal(err)
	}
	tarFile := filepath.Join(t.TempDir(), "root.tgz")
	var b bytes.Buffer
	zw := gzip.NewWriter(&b)
	zw.Write(smallRoot(t))
	zw.Close()
	writeFile(t, tarFile, b.String())
	if _, err := s.Import(t.Context(), "fromtar", tarFile); err != nil {
		t.Fatal(err)
	}
	mustBuild(t, s, "fromtar", nil)
	writeFile(t, s.path(dirDefinitions, "broken.yaml"), "form: x\n")

	entries, err := s.List()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, strings.Join([]string{e.Name, e.Origin, map[bool]string{true: "built"}[e.Digest != ""], map[bool]string{true: "broken"}[e.Problem != ""]}, " "))
	}
	want := []string{"broken imported  broken", "fromtar imported built ", "mine imported  "}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("list (-want +got):\n%s", diff)
	}
	d, err := s.Show("fromtar")
	if err != nil || d.ImageBytes == 0 || d.Definition.From.Tar != tarFile {
		t.Errorf("show: got %+v, %v", d, err)
	}
	if err := s.Remove("mine"); err != nil {
		t.Error(err)
	}
	if _, err := s.Show("mine"); !fault.Is(err, fault.NotFound) {
		t.Errorf("show a removed template: got %v, want not found", err)
	}
}

func TestWhatCannotBeBuiltSaysWhy(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := openStore(t, Options{Dirs: []string{dir}})
	for name, text := range map[string]string{
		"loop-a": "from: {template: loop-b}", "loop-b": "from: {template: loop-a}",
		"orphan": "from: {template: nobody}", "no-tar": "from: {tar: missing.tar}", "no-layout": "from: {oci: ./missing}",
		"steps": "from: {template: tree}\nrun: [\"true\"]", "tree": "from: {tar: x.tar}", "typo": "from:\n  debain: x",
		"no-file": "from: {tar: x.tar}\nfiles: [{path: /x, source: missing}]", "suite": "from: {debian: nosuchsuite}",
	} {
		writeFile(t, filepath.Join(dir, name+".yaml"), text)
	}
	tests := []struct {
		name, template string
		kind           fault.Kind
		says           string
	}{
		{"unknown", "nobody", fault.NotFound, `there is no template "nobody"`},
		{"not_a_name", "Ünknown", fault.Invalid, "no template name"},
		{"dots", "..", fault.Invalid, "no template name"},
		{"missing_file", "./nothing.yaml", fault.NotFound, "nothing.yaml"},
		{"loop", "loop-a", fault.Invalid, "stands on itself: loop-a from loop-b from loop-a"},
		{"orphan", "orphan", fault.NotFound, `there is no template "nobody"`},
		{"missing_tar", "no-tar", fault.NotFound, "missing.tar"},
		{"missing_layout", "no-layout", fault.NotFound, "missing"},
		{"steps_on_a_tar", "steps", fault.Invalid, `run steps need "from: debian"`},
		{"typo", "typo", fault.Invalid, "typo.yaml:2:3"},
		{"missing_source", "no-file", fault.NotFound, "missing"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := s.Build(t.Context(), tt.template, nil)
			if fault.KindOf(err) != tt.kind || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("got %v (%v), want %v saying %q", err, fault.KindOf(err), tt.kind, tt.says)
			}
			wantNothingBuilt(t, s)
		})
	}
}
