package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"assay/internal/fault"
	"assay/internal/guest"
	"assay/internal/require"
)

// hostileDir is a directory as the sandbox's user may have prepared it, and a
// directory of root's beside it.
type hostileDir struct {
	user, root string
}

func setupHostile(t *testing.T) hostileDir {
	t.Helper()
	require.Root(t)
	base := t.TempDir()
	h := hostileDir{user: base + "/user", root: base + "/root"}
	for _, err := range []error{
		os.Mkdir(h.user, 0o755), os.Mkdir(h.root, 0o755), os.Chmod(base, 0o755),
		os.WriteFile(h.root+"/secret", []byte("root's"), 0o644),
		os.Mkdir(h.user+"/dir", 0o755),
		os.WriteFile(h.user+"/dir/file", []byte("user's"), 0o644),
		os.Symlink(h.root+"/secret", h.user+"/to_file"),
		os.Symlink(h.root, h.user+"/to_dir"),
		os.Symlink("../root", h.user+"/dir/relative"),
		unix.Mkfifo(h.user+"/fifo", 0o666),
		unix.Mknod(h.user+"/socket", unix.S_IFSOCK|0o666, 0),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	err := filepath.WalkDir(h.user, func(p string, _ fs.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(p, userID, userID))
	})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// untouched fails the test if root's directory is not as it was.
func (h hostileDir) untouched(t *testing.T) {
	t.Helper()
	list, err := os.ReadDir(h.root)
	if err != nil || len(list) != 1 {
		t.Errorf("root's directory holds %v, %v", list, err)
	}
	b, err := os.ReadFile(h.root + "/secret")
	if err != nil || string(b) != "root's" {
		t.Errorf("root's file holds %q, %v", b, err)
	}
	st, err := os.Stat(h.root + "/secret")
	if err != nil || st.Mode() != 0o644 {
		t.Errorf("root's file has mode %v, %v", st.Mode(), err)
	}
}

func put(name, content string, q url.Values) (guest.FileInfo, error) {
	return putUpTo(name, content, q, guest.MaxFile)
}

func putUpTo(name, content string, q url.Values, limit int64) (guest.FileInfo, error) {
	if q == nil {
		q = url.Values{}
	}
	q.Set("path", name)
	r := httptest.NewRequest(http.MethodPut, guest.PathFile+"?"+q.Encode(), strings.NewReader(content))
	return writeRequest(r, limit)
}

func TestWriteReplacesALinkAndDoesNotFollowIt(t *testing.T) {
	t.Parallel()
	h := setupHostile(t)
	info, err := put(h.user+"/to_file", "new", nil)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256([]byte("new"))
	if info.Size != 3 || info.SHA256 != hex.EncodeToString(sum[:]) || info.UID != userID || info.Mode != 0o644 {
		t.Errorf("written file is %+v", info)
	}
	st, err := os.Lstat(h.user + "/to_file")
	if err != nil || !st.Mode().IsRegular() {
		t.Errorf("the link was not replaced: %v, %v", st.Mode(), err)
	}
	h.untouched(t)
}

func TestUserLinksOnTheWayAreDenied(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		call func(h hostileDir) error
	}{
		{"write", func(h hostileDir) error { _, err := put(h.user+"/to_dir/secret", "x", nil); return err }},
		{"write_relative", func(h hostileDir) error { _, err := put(h.user+"/dir/relative/secret", "x", nil); return err }},
		{"make_parents", func(h hostileDir) error {
			_, err := put(h.user+"/to_dir/a/b", "x", url.Values{"parents": {"1"}})
			return err
		}},
		{"make_dir", func(h hostileDir) error { return makeRequest(url.Values{"path": {h.user + "/to_dir/a"}}) }},
		{"remove", func(h hostileDir) error { return removePath(t.Context(), h.user+"/to_dir/secret", true) }},
		{"rename_from", func(h hostileDir) error { return renamePath(h.user+"/to_dir/secret", h.user+"/x") }},
		{"rename_to", func(h hostileDir) error { return renamePath(h.user+"/dir/file", h.user+"/to_dir/file") }},
		{"chmod", func(h hostileDir) error { return chmodPath(h.user+"/to_dir/secret", 0o777) }},
		{"stat", func(h hostileDir) error { _, err := statPath(h.user + "/to_dir/secret"); return err }},
		{"list", func(h hostileDir) error { _, err := listPath(h.user+"/to_dir/.", 9); return err }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			h := setupHostile(t)
			err := tt.call(h)
			want := fault.Denied
			if tt.name == "list" { // "/." is cleaned away: the link is the last part
				want = fault.NotFound
			}
			if !fault.Is(err, want) {
				t.Errorf("got %v (%v), want %v", err, fault.KindOf(err), want)
			}
			h.untouched(t)
		})
	}
}

func TestSystemLinksAreFollowed(t *testing.T) {
	t.Parallel()
	require.Root(t)
	base := t.TempDir()
	if err := errors.Join(os.Mkdir(base+"/real", 0o755), os.Symlink("real", base+"/link"), os.Symlink(base+"/link", base+"/absolute")); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"link", "absolute"} {
		if _, err := put(base+"/"+dir+"/f", dir, nil); err != nil {
			t.Error(err)
		}
		if b, _ := os.ReadFile(base + "/real/f"); string(b) != dir {
			t.Errorf("through %s: file holds %q", dir, b)
		}
	}
	if err := os.Symlink("loop", base+"/loop"); err != nil {
		t.Fatal(err)
	}
	if _, err := put(base+"/loop/f", "x", nil); !fault.Is(err, fault.Invalid) {
		t.Errorf("a link to itself gives %v", err)
	}
}

func TestRootsLinkInAUsersDirectoryIsDenied(t *testing.T) {
	t.Parallel()
	h := setupHostile(t)
	// As a hard link of a link of root's would look.
	if err := os.Symlink(h.root, h.user+"/roots"); err != nil {
		t.Fatal(err)
	}
	if _, err := put(h.user+"/roots/f", "x", nil); !fault.Is(err, fault.Denied) {
		t.Errorf("got %v", err)
	}
	h.untouched(t)
}

func TestWriteLeavesNothingOfAFailure(t *testing.T) {
	t.Parallel()
	h := setupHostile(t)
	if _, err := putUpTo(h.user+"/big", "12345678", nil, 7); !fault.Is(err, fault.Exhausted) {
		t.Errorf("above the cap: %v", err)
	}
	if _, err := putUpTo(h.user+"/fits", "1234567", nil, 7); err != nil {
		t.Errorf("at the cap: %v", err)
	}
	r := httptest.NewRequest(http.MethodPut, guest.PathFile+"?path="+h.user+"/cut", io.MultiReader(strings.NewReader("half"), brokenReader{}))
	if _, err := writeRequest(r, guest.MaxFile); err == nil {
		t.Error("a cut body was taken for a whole one")
	}
	if _, err := put(h.user+"/dir", "x", nil); !fault.Is(err, fault.Conflict) {
		t.Errorf("in place of a directory: %v", err)
	}
	if _, err := put(h.user+"/none/f", "x", nil); !fault.Is(err, fault.NotFound) {
		t.Errorf("without its directory: %v", err)
	}
	got := map[string]bool{}
	list, err := listPath(h.user, 100)
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range list {
		got[i.Name] = true
	}
	want := map[string]bool{"dir": true, "fifo": true, "fits": true, "socket": true, "to_dir": true, "to_file": true}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, errors.New("broken") }

func TestMakeParentsGivesThemTheirOwner(t *testing.T) {
	t.Parallel()
	h := setupHostile(t)
	if _, err := put(h.user+"/a/b/c", "x", url.Values{"parents": {"1"}, "mode": {"600"}}); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name string
		mode uint32
	}{{"a", 0o755}, {"a/b", 0o755}, {"a/b/c", 0o600}} {
		var st unix.Stat_t
		if err := unix.Stat(h.user+"/"+tt.name, &st); err != nil || st.Uid != userID || st.Mode&0o7777 != tt.mode {
			t.Errorf("%s: %v, uid %d, mode %o", tt.name, err, st.Uid, st.Mode)
		}
	}
	if err := makeRequest(url.Values{"path": {h.user + "/a/b"}}); !fault.Is(err, fault.Conflict) {
		t.Errorf("make a directory that is there: %v", err)
	}
	if err := makeRequest(url.Values{"path": {h.user + "/a/b"}, "parents": {"1"}, "mode": {"700"}}); err != nil {
		t.Error(err)
	}
	if st, _ := os.Stat(h.user + "/a/b"); st.Mode().Perm() != 0o755 {
		t.Errorf("a directory that was there has mode %v", st.Mode())
	}
}

func get(h func(http.ResponseWriter, *http.Request), path string, q url.Values) *http.Response {
	w := httptest.NewRecorder()
	q.Set("path", path)
	h(w, httptest.NewRequest(http.MethodGet, "/?"+q.Encode(), nil))
	return w.Result()
}

func TestReadGivesRegularFilesOnly(t *testing.T) {
	t.Parallel()
	h := setupHostile(t)
	var d daemon
	for _, name := range []string{h.user + "/fifo", h.user + "/socket", h.user + "/to_file", h.user + "/dir", "/dev/zero", "/proc/self/status"} {
		if got := get(d.readFile, name, url.Values{}).StatusCode; got != http.StatusBadRequest {
			t.Errorf("%s: status %d", name, got)
		}
	}
	if err := chmodPath(h.user+"/fifo", 0o600); !fault.Is(err, fault.Invalid) {
		t.Errorf("chmod of a FIFO: %v", err)
	}
	for _, tt := range []struct {
		q    url.Values
		want string
	}{
		{url.Values{}, "user's"},
		{url.Values{"offset": {"4"}}, "'s"},
		{url.Values{"offset": {"1"}, "length": {"3"}}, "ser"},
		{url.Values{"offset": {"99"}}, ""},
	} {
		resp := get(d.readFile, h.user+"/dir/file", tt.q)
		b, _ := io.ReadAll(resp.Body)
		if string(b) != tt.want || resp.Trailer.Get(guest.TrailerEnd) != "ok" {
			t.Errorf("%v: %q, end %q", tt.q, b, resp.Trailer.Get(guest.TrailerEnd))
		}
	}
	if got := get(d.readFile, h.user+"/dir/file", url.Values{"offset": {"-1"}}).StatusCode; got != http.StatusBadRequest {
		t.Errorf("negative offset: status %d", got)
	}
}

func TestRemoveDoesNotFollowLinks(t *testing.T) {
	t.Parallel()
	h := setupHostile(t)
	if err := removePath(t.Context(), h.user, false); !fault.Is(err, fault.Conflict) {
		t.Errorf("a full directory, not recursive: %v", err)
	}
	if err := removePath(t.Context(), h.user+"/to_dir", true); err != nil {
		t.Error(err)
	}
	h.untouched(t)
	if err := removePath(t.Context(), h.user, true); err != nil {
		t.Error(err)
	}
	h.untouched(t)
	if _, err := os.Lstat(h.user); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the tree is still there: %v", err)
	}
	if err := removePath(t.Context(), h.user, true); !fault.Is(err, fault.NotFound) {
		t.Errorf("what is not there: %v", err)
	}
	if err := removePath(t.Context(), "/", true); !fault.Is(err, fault.Invalid) {
		t.Errorf("the root: %v", err)
	}
}

func TestListSaysWhatThereIs(t *testing.T) {
	t.Parallel()
	h := setupHostile(t)
	list, err := listPath(h.user, 5)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, i := range list {
		got[i.Name] = string(i.Type) + " " + i.LinkTarget
	}
	want := map[string]string{
		"dir": "dir ", "fifo": "other ", "socket": "other ", "to_dir": "symlink " + h.root, "to_file": "symlink " + h.root + "/secret",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if _, err := listPath(h.user, 4); !fault.Is(err, fault.Exhausted) {
		t.Errorf("beyond the bound: %v", err)
	}
}

func TestPathsMustBeAbsolute(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"", "x", "./x", "/a\x00b", "/" + string(bytes.Repeat([]byte("a/"), maxPath))} {
		if _, err := statPath(name); !fault.Is(err, fault.Invalid) {
			t.Errorf("%.20q: %v", name, err)
		}
	}
}

func TestChmodRefusesRootsFileUnderASecondName(t *testing.T) {
	t.Parallel()
	h := setupHostile(t)
	if err := os.Link(h.root+"/secret", h.user+"/second"); err != nil {
		t.Fatal(err)
	}
	if err := chmodPath(h.user+"/second", 0o666); !fault.Is(err, fault.Denied) {
		t.Errorf("got %v", err)
	}
	h.untouched(t)
	if err := chmodPath(h.user+"/dir/file", 0o600); err != nil {
		t.Error(err)
	}
	if err := chmodPath(h.user+"/to_file", 0o600); !fault.Is(err, fault.Invalid) {
		t.Errorf("a link: %v", err)
	}
}
