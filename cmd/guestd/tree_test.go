package main

import (
	"archive/tar"
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"assay/internal/fault"
	"assay/internal/require"
)

// archive makes a tar archive of headers; a regular file's content is its
// Linkname.
func archive(t testing.TB, headers ...tar.Header) *bytes.Buffer {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range headers {
		content := ""
		if h.Typeflag == tar.TypeReg {
			content, h.Linkname = h.Linkname, ""
			h.Size = int64(len(content))
		}
		if h.Mode == 0 {
			h.Mode = 0o755
		}
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, content); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return &b
}

func file(name, content string) tar.Header {
	return tar.Header{Typeflag: tar.TypeReg, Name: name, Linkname: content}
}

func link(name, target string) tar.Header {
	return tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: target}
}

func openTree(t testing.TB, dir string) int {
	t.Helper()
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	return fd
}

func TestUnpackRefusesWhatLeavesTheTree(t *testing.T) {
	t.Parallel()
	require.Root(t)
	for _, tt := range []struct {
		name    string
		headers []tar.Header
	}{
		{"absolute", []tar.Header{file("/etc/x", "x")}},
		{"dot_dot", []tar.Header{file("../x", "x")}},
		{"dot_dot_inside", []tar.Header{file("a/../../x", "x")}},
		{"root_as_file", []tar.Header{file(".", "x")}},
		{"link_absolute", []tar.Header{link("l", "/etc")}},
		{"link_up", []tar.Header{link("l", "..")}},
		{"link_up_deep", []tar.Header{link("a/b/l", "../../../x")}},
		{"link_up_by_link", []tar.Header{link("d/l", ".."), link("m", "d/l/..")}},
		{"link_empty_up", []tar.Header{link("l", "./../x")}},
		{"through_link", []tar.Header{{Typeflag: tar.TypeDir, Name: "d"}, link("l", "d"), file("l/x", "x")}},
		{"hard_link_out", []tar.Header{{Typeflag: tar.TypeLink, Name: "h", Linkname: "../outside"}}},
		{"hard_link_absolute", []tar.Header{{Typeflag: tar.TypeLink, Name: "h", Linkname: "/etc/passwd"}}},
		{"hard_link_to_link", []tar.Header{link("l", "x"), {Typeflag: tar.TypeLink, Name: "h", Linkname: "l"}}},
		{"device", []tar.Header{{Typeflag: tar.TypeChar, Name: "null", Devmajor: 1, Devminor: 3}}},
		{"fifo", []tar.Header{{Typeflag: tar.TypeFifo, Name: "f"}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			base := t.TempDir()
			dir := base + "/tree"
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(base+"/outside", nil, 0o644); err != nil {
				t.Fatal(err)
			}
			_, err := unpackTree(archive(t, tt.headers...), openTree(t, dir), userID, treeCaps)
			if !fault.Is(err, fault.Invalid) {
				t.Errorf("got %v (%v)", err, fault.KindOf(err))
			}
			if list, _ := os.ReadDir(base); len(list) != 2 {
				t.Errorf("outside of the tree there is %v", list)
			}
		})
	}
}

func TestUnpackedTreeIsPackedTheSame(t *testing.T) {
	t.Parallel()
	require.Root(t)
	dir := t.TempDir()
	content := strings.Repeat("0123456789", 50_000)
	info, err := unpackTree(archive(t,
		tar.Header{Typeflag: tar.TypeDir, Name: "./"},
		file("a", content), file("d/e/f", "deep"),
		link("d/e/l", "../../a"), link("self", "."),
		tar.Header{Typeflag: tar.TypeLink, Name: "h", Linkname: "a"},
		file("a2", "first"), file("a2", "second"),
	), openTree(t, dir), userID, treeCaps)
	if err != nil {
		t.Fatal(err)
	}
	if info.Entries != 8 || info.Files != 4 || info.Bytes != int64(len(content)+4+5+6) {
		t.Errorf("unpacked %+v", info)
	}
	if err := unix.Mkfifo(dir+"/fifo", 0o666); err != nil {
		t.Fatal(err)
	}
	var st unix.Stat_t
	if err := unix.Stat(dir+"/d/e/f", &st); err != nil || st.Uid != userID {
		t.Errorf("owner %d, %v", st.Uid, err)
	}
	d, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	var out bytes.Buffer
	if err := packTree(t.Context(), d, &out, treeCaps); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for r := tar.NewReader(&out); ; {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		b, _ := io.ReadAll(r)
		got[h.Name] = string(h.Typeflag) + h.Linkname + string(b)
	}
	want := map[string]string{
		"a": "0" + content, "h": "0" + content, "a2": "0second", "d/": "5", "d/e/": "5", "d/e/f": "0deep",
		"d/e/l": "2../../a", "self": "2.",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestTreesAreBounded(t *testing.T) {
	t.Parallel()
	require.Root(t)
	caps := treeBounds{entries: 3, depth: 2, bytes: 10}
	for _, tt := range []struct {
		name    string
		headers []tar.Header
		fits    bool
	}{
		{"fits", []tar.Header{file("a", "12345"), file("d/b", "12345"), file("c", "")}, true},
		{"entries", []tar.Header{file("a", ""), file("b", ""), file("c", ""), file("d", "")}, false},
		{"bytes", []tar.Header{file("a", "12345"), file("b", "123456")}, false},
		{"depth", []tar.Header{file("a/b/c", "")}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			_, err := unpackTree(archive(t, tt.headers...), openTree(t, dir), userID, caps)
			if tt.fits != (err == nil) || err != nil && !fault.Is(err, fault.Exhausted) {
				t.Errorf("unpack: %v", err)
			}
			full := t.TempDir()
			if _, err := unpackTree(archive(t, tt.headers...), openTree(t, full), userID, treeCaps); err != nil {
				t.Fatal(err)
			}
			d, err := os.Open(full)
			if err != nil {
				t.Fatal(err)
			}
			defer d.Close()
			caps := caps
			caps.entries++ // packing also counts the directory
			if err := packTree(t.Context(), d, io.Discard, caps); tt.fits != (err == nil) && tt.name != "entries" {
				t.Errorf("pack: %v", err)
			}
		})
	}
}

func TestUnpackReplacesLinksInTheWay(t *testing.T) {
	t.Parallel()
	h := setupHostile(t)
	if _, err := unpackTree(archive(t, file("to_file", "new")), openTree(t, h.user), userID, treeCaps); err != nil {
		t.Error(err)
	}
	if _, err := unpackTree(archive(t, file("to_dir/secret", "new")), openTree(t, h.user), userID, treeCaps); !fault.Is(err, fault.Invalid) {
		t.Errorf("behind a user's link: %v", err)
	}
	if _, err := unpackTree(archive(t, file("dir", "new")), openTree(t, h.user), userID, treeCaps); !fault.Is(err, fault.Conflict) && !fault.Is(err, fault.Denied) {
		t.Errorf("in place of a directory: %v", err)
	}
	h.untouched(t)
}

func FuzzUnpackStaysInTheTree(f *testing.F) {
	f.Add(archive(f, file("a/b", "x"), link("l", "a"), file("l/c", "y")).Bytes())
	f.Add(archive(f, link("l", "../x"), tar.Header{Typeflag: tar.TypeLink, Name: "h", Linkname: "l"}).Bytes())
	f.Add(archive(f, file("../x", "x")).Bytes())
	caps := treeBounds{entries: 100, depth: 10, bytes: 1 << 20}
	f.Fuzz(func(t *testing.T, b []byte) {
		base := t.TempDir()
		dir := filepath.Join(base, "tree")
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		_, _ = unpackTree(bytes.NewReader(b), openTree(t, dir), os.Geteuid(), caps)
		if list, _ := os.ReadDir(base); len(list) != 1 {
			t.Errorf("outside of the tree there is %v", list)
		}
	})
}
