package cli

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestParsePlace(t *testing.T) {
	t.Parallel()
	for arg, want := range map[string]place{
		"abcd:/tmp/x":  {"abcd", "/tmp/x"},
		"abcd:x:y":     {"abcd", "x:y"},
		"abcd:":        {"abcd", ""},
		"./a:b":        {"", "./a:b"},
		"/tmp/a:b":     {"", "/tmp/a:b"},
		"a.txt:b":      {"", "a.txt:b"},
		"plain":        {"", "plain"},
		":no-sandbox":  {"", ":no-sandbox"},
		"dir/sub:file": {"", "dir/sub:file"},
	} {
		if got := parsePlace(arg); got != want {
			t.Errorf("parsePlace(%q) = %+v, want %+v", arg, got, want)
		}
	}
}

func TestStaysInside(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, target string
		want         bool
	}{
		{"a", "b", true},
		{"d/a", "../b", true},
		{"d/a", "./../b", true},
		{"d/e/a", "../../b", true},
		{"a", ".", true},
		{"a", "..", false},
		{"d/a", "../..", false},
		{"d/a", "x/../../../y", false},
		{"d/a", "x/../y", false}, // x may be a link to elsewhere
		{"a", "/etc/passwd", false},
		{"a", "", false},
		{"a", "b\x00c", false},
	}
	for _, tt := range tests {
		if got := staysInside(tt.name, tt.target); got != tt.want {
			t.Errorf("staysInside(%q, %q) = %v, want %v", tt.name, tt.target, got, tt.want)
		}
	}
}

func TestPutFileFollowsNoLink(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	outside := filepath.Join(dir, "outside")
	if err := os.WriteFile(outside, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	tree := filepath.Join(dir, "tree")
	if err := os.Mkdir(tree, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]string{"file": "../outside", "sub": ".."} {
		if err := os.Symlink(target, filepath.Join(tree, name)); err != nil {
			t.Fatal(err)
		}
	}
	root, err := os.OpenRoot(tree)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if err := putFile(root, "file", 0o644, strings.NewReader("theirs")); err != nil {
		t.Fatal(err)
	}
	if err := putFile(root, "sub/outside", 0o644, strings.NewReader("theirs")); err == nil {
		t.Error("a file was written through a link out of the tree")
	}
	if b, err := os.ReadFile(outside); err != nil || string(b) != "mine" {
		t.Errorf("outside holds %q, %v; want it untouched", b, err)
	}
	if b, err := os.ReadFile(filepath.Join(tree, "file")); err != nil || string(b) != "theirs" {
		t.Errorf("file holds %q, %v; want the copy", b, err)
	}
}

func TestPutFileLeavesNoPart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	broken := io.MultiReader(strings.NewReader("half"), readerFunc(func([]byte) (int, error) { return 0, syscall.EIO }))
	if err := putFile(root, "file", 0o644, broken); !errors.Is(err, syscall.EIO) {
		t.Errorf("got %v, want the source's failure", err)
	}
	left, err := fs.ReadDir(root.FS(), ".")
	if err != nil || len(left) > 0 {
		t.Errorf("left %v, %v; want nothing", left, err)
	}
}

func TestTypeInto(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, in, want string
		keys, leave    bool
	}{
		{"plain", "ls\n", "ls\n", true, false},
		{"pipe_ends_with_end_key", "ls\n", "ls\n\x04", false, false},
		{"pipe_has_no_keys", "\x1dd", "\x1dd\x04", false, false},
		{"detach", "ab\x1ddcd", "", true, true},
		{"escape_twice", "a\x1d\x1db", "a\x1db", true, false},
		{"escape_and_another", "a\x1dx", "a\x1dx", true, false},
		{"escape_then_detach", "\x1d\x1d\x1dd", "", true, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			leave := typeInto(&out, strings.NewReader(tt.in), tt.keys)
			if leave != tt.leave || !leave && out.String() != tt.want {
				t.Errorf("typed %q, leave %v; want %q, %v", out.String(), leave, tt.want, tt.leave)
			}
		})
	}
}
