package harness

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"assay/internal/course"
	"assay/internal/fault"
)

// entry is one entry of an archive that a test makes.
type entry struct {
	name, data string
	mode       fs.FileMode
}

func zipOf(t testing.TB, entries ...entry) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, e := range entries {
		h := &zip.FileHeader{Name: e.name}
		h.SetMode(e.mode | 0o644)
		f, err := w.CreateHeader(h)
		if err == nil {
			_, err = f.Write([]byte(e.data))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func tarOf(t testing.TB, headers ...tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range headers {
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if h.Size > 0 {
			if _, err := w.Write(bytes.Repeat([]byte("x"), int(h.Size))); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func gzipOf(t testing.TB, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestUnpack(t *testing.T) {
	t.Parallel()
	regular := tar.Header{Typeflag: tar.TypeReg, Name: "./a/b.sh", Size: 3, Mode: 0o755}
	for _, tt := range []struct {
		name string
		data []byte
		want string // names, or a part of the error
	}{
		{"zip", zipOf(t, entry{"a.txt", "1", 0}, entry{"d/", "", fs.ModeDir}, entry{"__MACOSX/._a.txt", "", 0}, entry{"d/.DS_Store", "", 0}), "a.txt"},
		{"tar", tarOf(t, regular, tar.Header{Typeflag: tar.TypeDir, Name: "a/", Mode: 0o755}), "a/b.sh*"},
		{"tgz", gzipOf(t, tarOf(t, regular)), "a/b.sh*"},
		{"zip_outside", zipOf(t, entry{"../a", "1", 0}), `"../a" leads out`},
		{"zip_absolute", zipOf(t, entry{"/a", "1", 0}), `"/a" leads out`},
		{"zip_backslash", zipOf(t, entry{`a\..\b`, "1", 0}), "leads out"},
		{"zip_link", zipOf(t, entry{"a", "/etc/passwd", fs.ModeSymlink}), `"a" is not a regular file`},
		{"tar_link", tarOf(t, tar.Header{Typeflag: tar.TypeSymlink, Name: "a", Linkname: "/x"}), "not a regular file"},
		{"tar_hard_link", tarOf(t, tar.Header{Typeflag: tar.TypeLink, Name: "a", Linkname: "b"}), "not a regular file"},
		{"tar_device", tarOf(t, tar.Header{Typeflag: tar.TypeChar, Name: "a"}), "not a regular file"},
		{"empty", zipOf(t), "empty"},
		{"no_archive", []byte("hello"), "unexpected EOF"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			files, err := unpack(course.File{Data: tt.data})
			var names []string
			for _, f := range files {
				if f.Executable {
					f.Name += "*"
				}
				names = append(names, f.Name)
			}
			if got := strings.Join(names, " "); err == nil && got != tt.want || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %q, %v; want %q", got, err, tt.want)
			}
		})
	}
}

func FuzzUnpack(f *testing.F) {
	f.Add(zipOf(f, entry{"a.txt", "1", 0}))
	f.Add(tarOf(f, tar.Header{Typeflag: tar.TypeReg, Name: "a", Size: 3, Mode: 0o644}))
	f.Add(gzipOf(f, tarOf(f, tar.Header{Typeflag: tar.TypeSymlink, Name: "a", Linkname: "b"})))
	f.Fuzz(func(t *testing.T, data []byte) {
		files, err := unpack(course.File{Data: data})
		if err != nil {
			return
		}
		for _, f := range files {
			if !fs.ValidPath(f.Name) {
				t.Fatalf("name %q", f.Name)
			}
		}
	})
}

func TestGradescopeLayout(t *testing.T) {
	t.Parallel()
	files := []course.File{{Name: "autograder.zip", Data: zipOf(t,
		entry{"hw1/run_autograder", "#!/bin/sh\r\necho\r\n", 0}, entry{"hw1/setup.sh", "true\r\n", 0}, entry{"hw1/tests/a.py", "x\r\n", 0})}}
	l, err := layoutOf(&course.Assignment{Name: "hw", Template: "base", Files: files, Harness: course.HarnessRules{Format: Gradescope, Path: "autograder.zip"}})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range append(slices.Clone(l.setup.Files), l.files[0]) {
		got = append(got, f.Name+" "+string(f.Data))
	}
	want := []string{
		"autograder/source/run_autograder #!/bin/sh\necho\n", "autograder/source/setup.sh true\n", "autograder/source/tests/a.py x\r\n",
		"/autograder/run_autograder #!/bin/sh\necho\n",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	other := *l.setup
	other.Parent = "judge"
	if l.setup.Digest() == other.Digest() || !strings.HasPrefix(other.Digest(), "sha256:") {
		t.Errorf("digests %s and %s", l.setup.Digest(), other.Digest())
	}
}

func TestLayoutRefused(t *testing.T) {
	t.Parallel()
	files := []course.File{{Name: "h/run.sh", Data: []byte("x")}, {Name: "q/info.json", Data: []byte(`{}`)}, {Name: "bad.zip", Data: []byte("PKxx")}}
	for name, tt := range map[string]struct {
		rules course.HarnessRules
		want  string
	}{
		"format":       {course.HarnessRules{Format: "other", Path: "h"}, "no harness format"},
		"nothing":      {course.HarnessRules{Format: Gradescope, Path: "none"}, "is not there"},
		"archive":      {course.HarnessRules{Format: Gradescope, Path: "bad.zip"}, "bad.zip"},
		"gradescope":   {course.HarnessRules{Format: Gradescope, Path: "h"}, "run_autograder"},
		"prairielearn": {course.HarnessRules{Format: PrairieLearn, Path: "q"}, "entrypoint"},
		"autolab":      {course.HarnessRules{Format: Autolab, Path: "h"}, "autograde-Makefile"},
		"command":      {course.HarnessRules{Format: Command, Path: "h"}, "no command"},
		"report":       {course.HarnessRules{Format: Command, Path: "h", Command: []string{"x"}, ReportFormat: "odd"}, "report format"},
		"outside":      {course.HarnessRules{Format: Command, Path: "h", Command: []string{"x"}, ReportFormat: "tap", Report: "../x"}, "outside"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := layoutOf(&course.Assignment{Name: "hw", Files: files, Harness: tt.rules})
			if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), tt.want) || fault.HintOf(err) == "" && name != "archive" {
				t.Errorf("error %v (hint %q), want one with %q", err, fault.HintOf(err), tt.want)
			}
		})
	}
}

func TestHanded(t *testing.T) {
	t.Parallel()
	files := []course.File{{Name: "conftest.py"}, {Name: "sum.py"}}
	a := &course.Assignment{Expected: []course.ExpectedFile{{Pattern: "su*.py"}}, Harness: course.HarnessRules{Format: Autolab, BaseName: "handin.py"}}
	if got := handed(a, files); len(got) != 1 || got[0].Name != "handin.py" || files[1].Name != "sum.py" {
		t.Errorf("got %v of %v", got, files)
	}
	if got := handed(&course.Assignment{}, files); len(got) != 2 {
		t.Errorf("nothing expected: %v", got)
	}
}
