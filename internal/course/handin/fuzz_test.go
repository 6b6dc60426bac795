package handin

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"errors"
	"io"
	"path"
	"strings"
	"testing"

	"golang.org/x/text/unicode/norm"

	"assay/internal/fault"
)

// readBytes reads what is handed in as a file of this content.
func readBytes(data []byte) (map[string]string, error) {
	g := newGathering(Options{})
	s, err := g.finish("x", g.file("x", bytes.NewReader(data), int64(len(data)), false))
	if err != nil {
		return nil, err
	}
	return contents(s), nil
}

// checkTaken holds for whatever is taken.
func checkTaken(t *testing.T, files map[string]string, err error) {
	t.Helper()
	if err != nil {
		if !fault.Is(err, fault.Invalid) || fault.HintOf(err) == "" {
			t.Errorf("%v has kind %v and hint %q", err, fault.KindOf(err), fault.HintOf(err))
		}
		return
	}
	seen := map[string]bool{}
	for name := range files {
		name = strings.TrimSuffix(name, "*")
		if path.IsAbs(name) || path.Clean(name) != name || strings.HasPrefix(name, "..") || strings.ContainsAny(name, "\\\x00") || !norm.NFC.IsNormalString(name) {
			t.Errorf("took the name %q", name)
		}
		if key := strings.ToLower(name); seen[key] {
			t.Errorf("took twins of %q", name)
		} else {
			seen[key] = true
		}
	}
}

// FuzzZip wants that what is taken is what the standard library reads too.
func FuzzZip(f *testing.F) {
	f.Add(zipOf([]item{{name: "calc.py", data: "x = 1\n", deflate: true, mode: 0o100755}, {name: "src/", mode: 0o040755}, {name: "src/b", data: "y"}}))
	f.Add(zipOf([]item{{name: "a", data: "x", descriptor: true}, {name: "top/._a"}}))
	f.Add(zipOf([]item{{name: "a.py", data: "abc", size: 1<<32 - 1, packed: 1<<32 - 1, extra: zip64Field(3, 3), localExtra: zip64Field(3, 3)}}))
	f.Add(zipOf([]item{{name: "caf\x82.py", extra: unicodeField("caf\x82.py", "café.py")}}))
	f.Add(overlapping())
	f.Add(zipOf(nil))
	f.Fuzz(func(t *testing.T, data []byte) {
		if sniff(bytes.NewReader(data), int64(len(data))) != zipped {
			return
		}
		files, err := readBytes(data)
		checkTaken(t, files, err)
		if err != nil {
			return
		}
		z, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
		if err != nil && !errors.Is(err, zip.ErrInsecurePath) {
			t.Fatalf("taken, but the library says: %v", err)
		}
		have := map[string]int{}
		for _, content := range files {
			have[content]++
		}
		for _, e := range z.File {
			if e.FileInfo().IsDir() || junk(strings.TrimPrefix(e.Name, "./")) != "" {
				continue
			}
			r, err := e.Open()
			if err != nil {
				t.Fatalf("%q: taken, but the library says: %v", e.Name, err)
			}
			content, err := io.ReadAll(r)
			if err != nil {
				t.Fatalf("%q: taken, but the library says: %v", e.Name, err)
			}
			have[string(content)]--
		}
		for content, n := range have {
			if n != 0 {
				t.Errorf("content %.40q: %d more than the library has", content, n)
			}
		}
	})
}

func FuzzTar(f *testing.F) {
	plain := tarOf(f, tar.Header{Name: "./a.py"}, tar.Header{Name: "b/", Typeflag: tar.TypeDir}, tar.Header{Name: "b/run", Mode: 0o755})
	f.Add(plain)
	f.Add(gzipOf(f, plain))
	f.Add(tarOf(f, tar.Header{Name: "x", Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd"}))
	f.Add(tarOf(f, tar.Header{Name: strings.Repeat("long/", 30) + "x", Format: tar.FormatPAX}))
	f.Add(tarOf(f, tar.Header{Name: "._x"}, tar.Header{Name: "caf\u00e9", Format: tar.FormatPAX}))
	f.Fuzz(func(t *testing.T, data []byte) {
		switch sniff(bytes.NewReader(data), int64(len(data))) {
		case tarred, gzipped:
			files, err := readBytes(data)
			checkTaken(t, files, err)
		}
	})
}

// FuzzName wants that a name that is taken stays inside and is taken again as
// it is.
func FuzzName(f *testing.F) {
	for _, n := range []string{"a/b.py", "./a", "../x", `a\b`, "C:x", "con.txt", "cafe\u0301", "a//b", "a\u202eb", "COM¹"} {
		f.Add(n)
	}
	f.Fuzz(func(t *testing.T, name string) {
		clean, err := cleanName(name)
		if err != nil || clean == "" {
			return
		}
		if again, err := cleanName(clean); err != nil || again != clean {
			t.Errorf("%q became %q, and that %q (%v)", name, clean, again, err)
		}
		if !strings.HasPrefix(path.Join("/root", clean), "/root/") {
			t.Errorf("%q leads out", clean)
		}
	})
}
