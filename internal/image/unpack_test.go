package image

import (
	"archive/tar"
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"assay/internal/fault"
)

// unpackInto unpacks tars as layers into a directory that lies beside a file
// nobody may touch.
func unpackInto(t *testing.T, caps Caps, layers ...[]byte) (dir string, err error) {
	t.Helper()
	outer := t.TempDir()
	dir = filepath.Join(outer, "root")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(outer, "outside"), "untouched")
	u, err := newUnpacker(dir, caps, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer u.close()
	for _, l := range layers {
		if err = u.applyLayer(t.Context(), bytes.NewReader(l)); err != nil {
			break
		}
	}
	if got, rerr := os.ReadFile(filepath.Join(outer, "outside")); rerr != nil || string(got) != "untouched" {
		t.Errorf("a file outside of the tree is now %q (%v)", got, rerr)
	}
	if entries, _ := os.ReadDir(outer); len(entries) != 2 {
		t.Errorf("beside the tree there is now %v", entries)
	}
	return dir, err
}

func TestHostileTarIsRefused(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		entries []entry
		says    string
	}{
		{"dot_dot", []entry{{name: "../outside", data: "x"}}, `".."`},
		{"dot_dot_inside", []entry{{name: "a/../../outside", data: "x"}}, `".."`},
		{"absolute_dot_dot", []entry{{name: "/../outside", data: "x"}}, `".."`},
		{"hard_link_dot_dot", []entry{{name: "l", link: "../outside", kind: tar.TypeLink}}, `".."`},
		{"hard_link_to_nothing", []entry{{name: "l", link: "outside", kind: tar.TypeLink}}, "not a file of the tree"},
		{"hard_link_through_link", []entry{
			{name: "up", link: "..", kind: tar.TypeSymlink}, {name: "l", link: "up/outside", kind: tar.TypeLink},
		}, "not a file of the tree"},
		{"hard_link_to_directory", []entry{{name: "d", kind: tar.TypeDir}, {name: "l", link: "d", kind: tar.TypeLink}}, "not a file of the tree"},
		{"link_loop", []entry{
			{name: "a", link: "b", kind: tar.TypeSymlink}, {name: "b", link: "a", kind: tar.TypeSymlink}, {name: "a/x", data: "x"},
		}, "too many symbolic links"},
		{"file_as_directory", []entry{{name: "f", data: "x"}, {name: "f/x", data: "x"}}, "not a directory"},
		{"long_name", []entry{{name: strings.Repeat("x/", 3000), kind: tar.TypeDir}}, "malformed"},
		{"too_many_bytes", []entry{{name: "a", data: strings.Repeat("x", 600)}, {name: "b", data: strings.Repeat("x", 600)}}, "has more than 1000 bytes"},
		{"too_many_entries", slices.Repeat([]entry{{name: "a"}}, 21), "more than 20 entries"},
		{"whiteout_of_parent", []entry{{name: "a/.wh...", data: ""}}, "whiteout is malformed"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := unpackInto(t, Caps{Bytes: 1000, Entries: 20}, makeTar(t, tt.entries...))
			if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("got %v, want a fault of kind invalid that says %q", err, tt.says)
			}
		})
	}
}

func TestLinksStayInside(t *testing.T) {
	t.Parallel()
	dir, err := unpackInto(t, DefaultCaps, makeTar(t,
		entry{name: "up", link: "../../..", kind: tar.TypeSymlink},
		entry{name: "up/outside", data: "clamped"}, // ".." stops at the tree's root
		entry{name: "var/run", link: "/run", kind: tar.TypeSymlink},
		entry{name: "var/run/pid", data: "inside"},
		entry{name: "out", link: "../outside", kind: tar.TypeSymlink},
		entry{name: "out", data: "replaced"}, // never written through the link
	))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"outside": "clamped", "run/pid": "inside", "out": "replaced"} {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != want {
			t.Errorf("%s: got %q, %v, want %q", name, got, err, want)
		}
	}
}

func TestNoDevicesAndNoSetuid(t *testing.T) {
	t.Parallel()
	dir, err := unpackInto(t, DefaultCaps, makeTar(t,
		entry{name: "disk", kind: tar.TypeBlock}, entry{name: "null", kind: tar.TypeChar}, entry{name: "pipe", kind: tar.TypeFifo},
		entry{name: "su", data: "x", mode: 0o6755}, entry{name: "sticky", kind: tar.TypeDir, mode: 0o1777},
	))
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		got[e.Name()] = info.Mode().String()
	}
	if diff := cmp.Diff(map[string]string{"su": "-rwxr-xr-x", "sticky": "dtrwxrwxrwx"}, got); diff != "" {
		t.Errorf("tree (-want +got):\n%s", diff)
	}
}

func TestLayersAndWhiteouts(t *testing.T) {
	t.Parallel()
	lower := makeTar(t,
		entry{name: "keep", data: "1"}, entry{name: "gone", data: "1"}, entry{name: "changed", data: "1"},
		entry{name: "dir/old", data: "1"}, entry{name: "dir/sub/old", data: "1"}, entry{name: "tree/a/b", data: "1"},
	)
	upper := makeTar(t,
		entry{name: ".wh.gone"}, entry{name: "changed", data: "2"},
		entry{name: "dir/new", data: "2"}, entry{name: "dir/sub/new", data: "2"},
		entry{name: "dir/.wh..wh..opq"}, // after what this layer put there: that stays
		entry{name: ".wh.tree"}, entry{name: ".wh.never-there"},
	)
	dir, err := unpackInto(t, DefaultCaps, lower, upper)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	err = filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(p)
		rel, _ := filepath.Rel(dir, p)
		got[rel] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"keep": "1", "changed": "2", "dir/new": "2", "dir/sub/new": "2"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("tree (-want +got):\n%s", diff)
	}
}

// FuzzUnpack: no tar, however made, may write outside of the tree or end in
// anything but an error.
func FuzzUnpack(f *testing.F) {
	for _, entries := range [][]entry{
		{{name: "a/b", data: "x"}, {name: "l", link: "a/b", kind: tar.TypeLink}},
		{{name: "l", link: "../..", kind: tar.TypeSymlink}, {name: "l/x", data: "x"}},
		{{name: "d", kind: tar.TypeDir}, {name: "d/.wh..wh..opq"}, {name: ".wh.d"}},
	} {
		var t testing.T
		f.Add(makeTar(&t, entries...))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		_, _ = unpackInto(t, Caps{Bytes: 1 << 16, Entries: 64}, data)
	})
}

func TestFreezePyc(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "__pycache__"), 0o755); err != nil {
		t.Fatal(err)
	}
	source := filepath.Join(dir, "m.py")
	writeFile(t, source, "pass\n")
	info, err := os.Stat(source)
	if err != nil {
		t.Fatal(err)
	}
	mtime := uint32(info.ModTime().Unix())
	head := func(flags byte, mtime uint32, size byte) []byte {
		return []byte{1, 2, 3, 4, flags, 0, 0, 0, byte(mtime), byte(mtime >> 8), byte(mtime >> 16), byte(mtime >> 24), size, 0, 0, 0, 'x'}
	}
	frozen := []byte{1, 2, 3, 4, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 'x'}
	tests := []struct {
		name       string
		have, want []byte
	}{
		{"valid", head(0, mtime, 5), frozen},
		{"stale_time", head(0, mtime+1, 5), head(0, mtime+1, 5)},
		{"stale_size", head(0, mtime, 6), head(0, mtime, 6)},
		{"hash_checked", head(3, mtime, 5), head(3, mtime, 5)},
		{"short", []byte{1, 2}, []byte{1, 2}},
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	for _, tt := range tests {
		name := filepath.Join("__pycache__", "m.cpython-311.pyc")
		writeFile(t, filepath.Join(dir, name), string(tt.have))
		if err := (&finisher{root: root}).freezePyc(name); err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
		if got, _ := os.ReadFile(filepath.Join(dir, name)); !bytes.Equal(got, tt.want) {
			t.Errorf("%s: got %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestFinishRefusesEscapingTree(t *testing.T) {
	t.Parallel()
	outer := t.TempDir()
	dir := filepath.Join(outer, "root")
	for _, d := range []string{"etc", "var/lib"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	writeFile(t, filepath.Join(outer, "status"), "Package: host\nVersion: 1\n")
	if err := os.Symlink(outer, filepath.Join(dir, "var/lib/dpkg")); err != nil {
		t.Fatal(err)
	}
	info, err := finish(dir, "user", false)
	if !fault.Is(err, fault.Invalid) || len(info.Packages) > 0 {
		t.Errorf("got %+v, %v, want a fault of kind invalid", info, err)
	}
}
