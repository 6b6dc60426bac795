package handin

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"assay/internal/course"
	"assay/internal/fault"
)

// contents gives names and contents; "*" marks what may be executed.
func contents(s course.Submission) map[string]string {
	m := map[string]string{}
	for _, f := range s.Files {
		name := f.Name
		if f.Executable {
			name += "*"
		}
		m[name] = string(f.Data)
	}
	return m
}

func TestReadTellsByContent(t *testing.T) {
	t.Parallel()
	twoFiles := []item{
		{name: "calc.py", data: "x = 1\n", deflate: true, mode: 0o100644},
		{name: "src/", mode: 0o040755},
		{name: "src/run.sh", data: "echo\n", mode: 0o100755, descriptor: true},
	}
	both := map[string]string{"calc.py": "x = 1\n", "src/run.sh*": "echo\n"}
	tarred := tarOf(t, tar.Header{Name: "./", Typeflag: tar.TypeDir}, tar.Header{Name: "./a.py"}, tar.Header{Name: "./b/c", Mode: 0o755})
	fromTar := map[string]string{"a.py": "./a.py", "b/c*": "./b/c"}
	var byLibrary bytes.Buffer
	z := zip.NewWriter(&byLibrary)
	for name, data := range map[string]string{"calc.py": "x = 1\n"} {
		w, err := z.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(data)); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.SetComment("handed in"); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name, file string
		data       []byte
		o          Options
		id         string
		want       map[string]string
	}{
		{"zip", "ada.zip", zipOf(twoFiles), Options{}, "ada", both},
		{"zip_called_txt", "ada.txt", zipOf(twoFiles), Options{}, "ada", both},
		{"zip_of_library", "ada.zip", byLibrary.Bytes(), Options{}, "ada", map[string]string{"calc.py": "x = 1\n"}},
		{"tar", "ada.v2.tar", tarred, Options{}, "ada.v2", fromTar},
		{"tar_gz", "ada.tar.gz", gzipOf(t, tarred), Options{}, "ada", fromTar},
		{"tgz", "ada.tgz", gzipOf(t, tarred), Options{}, "ada", fromTar},
		{"git_archive", "ada.tar", tarOf(t, tar.Header{Typeflag: tar.TypeXGlobalHeader, PAXRecords: map[string]string{"comment": "1"}}, tar.Header{Name: "a.py"}), Options{}, "ada", map[string]string{"a.py": "a.py"}},
		{"plain", "calc.py", []byte("x = 1\n"), Options{}, "calc", map[string]string{"calc.py": "x = 1\n"}},
		{"plain_called_zip", "calc.zip", []byte("x = 1\n"), Options{}, "calc", map[string]string{"calc.zip": "x = 1\n"}},
		{"jar_wanted", "calc.jar", zipOf(nil), Options{Expected: []course.ExpectedFile{{Pattern: "*.jar"}}}, "calc", map[string]string{"calc.jar": string(zipOf(nil))}},
		{"old_code_page_with_utf8_name", "a.zip", zipOf([]item{{name: "caf\x82.py", local: "caf\x82.py", extra: unicodeField("caf\x82.py", "café.py")}}), Options{}, "a", map[string]string{"café.py": ""}},
		{"letters_in_two_parts", "a.zip", zipOf([]item{{name: "cafe\u0301.py"}}), Options{}, "a", map[string]string{"caf\u00e9.py": ""}},
		{"no_read_bit", "a.zip", zipOf([]item{{name: "a.py", data: "x", mode: 0o100000}}), Options{}, "a", map[string]string{"a.py": "x"}},
		{"zip64_that_is_true", "a.zip", zipOf([]item{{name: "a.py", data: "abc", size: 1<<32 - 1, packed: 1<<32 - 1, extra: zip64Field(3, 3), localExtra: zip64Field(3, 3)}}), Options{}, "a", map[string]string{"a.py": "abc"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s, err := Read(place(t, tt.file, tt.data), tt.o)
			if err != nil {
				t.Fatal(err)
			}
			if s.ID != tt.id {
				t.Errorf("ID %q, want %q", s.ID, tt.id)
			}
			if diff := cmp.Diff(tt.want, contents(s)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestReadFolder(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "ada.lovelace")
	for name, data := range map[string]string{"calc.py": "x", "sub/run": "y", ".git/HEAD": "z", "sub/__pycache__/calc.pyc": "z", ".gitignore": "w"} {
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(data), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(filepath.Join(dir, "sub/run"), 0o700); err != nil {
		t.Fatal(err)
	}
	s, err := Read(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"calc.py": "x", "sub/run*": "y", ".gitignore": "w"}, contents(s)); diff != "" {
		t.Error(diff)
	}
	if want := []string{`dropped what tools left behind: ".git", "sub/__pycache__"`}; !slices.Equal(s.Notes, want) {
		t.Errorf("notes %q, want %q", s.Notes, want)
	}
	if s.ID != "ada.lovelace" {
		t.Errorf("ID %q", s.ID)
	}
}

func TestExpected(t *testing.T) {
	t.Parallel()
	files := func(names ...string) (items []item) {
		for _, n := range names {
			items = append(items, item{name: n, data: n})
		}
		return items
	}
	expect := func(patterns ...string) (list []course.ExpectedFile) {
		for _, p := range patterns {
			name, optional := strings.CutSuffix(p, "?")
			list = append(list, course.ExpectedFile{Pattern: name, Optional: optional})
		}
		return list
	}
	tests := []struct {
		name  string
		items []item
		o     Options
		want  []string // files
		notes []string
	}{
		{
			"top_folder_without_expectation", files("hw1/a.py", "hw1/b/c.py"),
			Options{},
			[]string{"a.py", "b/c.py"},
			[]string{`took the files out of the folder "hw1"`},
		},
		{
			"top_folder_helps", files("hw1/a.py", "__MACOSX/hw1/._a.py"),
			Options{Expected: expect("a.py")},
			[]string{"a.py"},
			[]string{`dropped what tools left behind: "__MACOSX"`, `took the files out of the folder "hw1"`},
		},
		{"top_folder_wanted", files("src/A.java"), Options{Expected: expect("src/*.java")}, []string{"src/A.java"}, nil},
		{"two_at_the_top", files("hw1/a.py", "b.py"), Options{}, []string{"b.py", "hw1/a.py"}, nil},
		{
			"missing", files("A.py", "b.py"),
			Options{Expected: expect("a.py", "b.py", "*.txt", "c.py?")},
			[]string{"A.py", "b.py"},
			[]string{
				`missing: "a.py" (there is "A.py": names and folders must be exactly as asked), "*.txt"`,
				`kept files that were not asked for: "A.py"`,
			},
		},
		{
			"extra_dropped", files("a.py", "conftest.py", "c.py"),
			Options{Expected: expect("a.py", "c.py?"), DropExtra: true},
			[]string{"a.py", "c.py"},
			[]string{`dropped files that were not asked for: "conftest.py"`},
		},
		{"letters_in_two_parts", files("cafe\u0301.py"), Options{Expected: expect("caf\u00e9.py")}, []string{"caf\u00e9.py"}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s, err := Read(place(t, "ada.zip", zipOf(tt.items)), tt.o)
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, f := range s.Files {
				names = append(names, f.Name)
			}
			if diff := cmp.Diff(tt.want, names); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(tt.notes, s.Notes); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestReadNotThere(t *testing.T) {
	t.Parallel()
	_, err := Read(filepath.Join(t.TempDir(), "nobody.zip"), Options{})
	if !fault.Is(err, fault.NotFound) {
		t.Errorf("got %v", err)
	}
}
