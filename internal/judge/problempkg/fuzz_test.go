package problempkg

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"assay/internal/fault"
	"assay/internal/judge"
)

func memoryTree(files map[string]string) (*tree, error) {
	raw := rawTree{}
	for name, text := range files {
		err := raw.add(name, rawEntry{kind: isFile, size: int64(len(text)), open: func() (io.ReadCloser, error) {
			return io.NopCloser(strings.NewReader(text)), nil
		}})
		if err != nil {
			return nil, err
		}
	}
	return raw.resolve()
}

func wantKind(t *testing.T, err error) {
	t.Helper()
	if k := fault.KindOf(err); err != nil && k != fault.Invalid && k != fault.Unsupported {
		t.Errorf("%v has kind %v, want Invalid or Unsupported", err, k)
	}
}

func FuzzMetadata(f *testing.F) {
	for _, s := range []string{
		"", "name: x\n", "name: {en: x}\nlimits:\n  memory: 1.5\n", "name: &a [*a]\n", "? a\n: b\n", "a: |\n  x\n", "limits: {memory: .inf}\n", "\xef\xbb\xbfname: x", "name: \"\\xff\"\n",
		"---\n...\n---\n", "- - - -", "\t", "name: x\r\nlimits:\r\n memory: 3", "{a: {b: {c: d}}}", "validator_flags: float_tolerance 1e-6 case_sensitive\n", "<<: {a: b}\n", "!!map {a: b}",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		tree, err := memoryTree(map[string]string{"problem.yaml": text, "data/testdata.yaml": text})
		if err != nil {
			t.Fatal(err)
		}
		langs, err := judge.DefaultLanguages()
		if err != nil {
			t.Fatal(err)
		}
		m, err := readMetadata(tree, langs)
		wantKind(t, err)
		if err == nil && (m.limits.Memory < 0 || m.limits.CPU < 0 || m.limits.Output < 0) {
			t.Errorf("negative limits from %q", text)
		}
		r := &reader{t: tree, pkg: &Package{}}
		_, err = r.testdata("data", testdata{})
		wantKind(t, err)
	})
}

func FuzzSideFiles(f *testing.F) {
	f.Add("2\n", "timelimit='1.5'\n")
	f.Add("1e9", "[s]\n;c\nshort-name = \"a\"\n=\n")
	f.Add("\x00", "special_run=x")
	f.Fuzz(func(t *testing.T, limit, ini string) {
		tree, err := memoryTree(map[string]string{".timelimit": limit, "domjudge-problem.ini": ini})
		if err != nil {
			t.Fatal(err)
		}
		s, err := readSideFiles(tree)
		wantKind(t, err)
		if err == nil && (s.dotTimeLimit <= 0 || s.iniTimeLimit < 0) {
			t.Errorf("time limits %v %v", s.dotTimeLimit, s.iniTimeLimit)
		}
	})
}

func FuzzZip(f *testing.F) {
	add := func(files map[string]string) {
		var t testing.T
		f.Add(zipBytes(&t, "", files))
		f.Add(zipBytes(&t, "top/", files))
	}
	add(good())
	add(with("data/secret/b", "-> a", "x", "-> ../x"))
	f.Add([]byte("PK\x05\x06"))
	f.Fuzz(func(t *testing.T, data []byte) {
		raw, err := readZip(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			wantKind(t, err)
			return
		}
		for name := range raw {
			if strings.HasPrefix(name, "/") || strings.Contains("/"+name+"/", "/../") {
				t.Errorf("entry %q climbs out", name)
			}
		}
		var total int64
		for _, e := range raw {
			total += e.size
		}
		if total > 64<<20 {
			t.Skip("large, and allowed")
		}
		_, err = Options{}.read(raw, "fuzz")
		wantKind(t, err)
	})
}

func FuzzTag(f *testing.F) {
	f.Add([]byte("// @EXPECTED_RESULTS@: WA, TLE"))
	f.Add([]byte("@EXPECTED_RESULTS@"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if words, ok := findTag(data, resultsTag); ok {
			e, unknown := tagExpectation(words)
			if unknown == "" && e.Label == "" {
				t.Error("an expectation without a label")
			}
		}
	})
}
