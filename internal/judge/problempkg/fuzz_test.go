package problempkg

import (
	"bytes"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/rogpeppe/go-internal/txtar"

	"assay/internal/fault"
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
		langs, err := languages()
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

// fuzzPackage reads a package in which one file is the fuzzer's: whatever it
// holds, the package is read or refused with a reason.
func fuzzPackage(f *testing.F, pkg, file string, seeds ...string) {
	a, err := txtar.ParseFile("testdata/packages/" + pkg + ".txtar")
	if err != nil {
		f.Fatal(err)
	}
	base := map[string]string{}
	for _, x := range a.Files {
		base[x.Name] = string(x.Data)
	}
	f.Add(base[file])
	for _, s := range seeds {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		files := maps.Clone(base)
		files[file] = text
		raw := rawTree{}
		for name, text := range files {
			err := raw.add(name, rawEntry{kind: isFile, size: int64(len(text)), open: func() (io.ReadCloser, error) {
				return io.NopCloser(strings.NewReader(text)), nil
			}})
			if err != nil {
				t.Fatal(err)
			}
		}
		p, err := Options{}.read(raw, "fuzz")
		wantKind(t, err)
		if err != nil {
			return
		}
		sound(t, p)
	})
}

// sound checks what holds of every package that was read.
func sound(t *testing.T, p *Package) {
	t.Helper()
	q := p.Problem
	for i, g := range q.Groups {
		if g.Parent >= i || i > 0 && g.Parent < 0 {
			t.Errorf("group %d has the parent %d", i, g.Parent)
		}
		if g.Rules != nil && slices.ContainsFunc(g.Rules.Require, func(r int) bool { return r < 1 || r >= i }) {
			t.Errorf("group %d requires %v", i, g.Rules.Require)
		}
	}
	for _, c := range q.Cases {
		if c.Group < 0 || c.Group > 0 && c.Group >= len(q.Groups) {
			t.Errorf("case %s has the group %d", c.Name, c.Group)
		}
	}
	for _, s := range p.Submissions {
		for _, part := range s.Expectation.Parts {
			if part.Group >= len(q.Groups) || slices.ContainsFunc(part.Cases, func(c int) bool { return c < 0 || c >= len(q.Cases) }) {
				t.Errorf("%s: part %+v", s.Path, part)
			}
		}
	}
	if !utf8.ValidString(q.Name) || !utf8.ValidString(describe(p)) {
		t.Errorf("invalid text in %q", describe(p))
	}
}

func FuzzProblemYAML(f *testing.F) {
	fuzzPackage(f, "rules_passes", "problem.yaml", "problem_format_version: 2025-09\ntype: scoring\nconstants: {a: {value: 1}}\n", "type: [scoring, interactive]\nlimits: {time_multipliers: {ac_to_time_limit: 1}}\n")
}

func FuzzTestGroup(f *testing.F) {
	fuzzPackage(f, "rules_scoring", "data/secret/b/test_group.yaml", "max_score: unbounded\nrequire_pass: [sample]\n", "static_validation_score: pass-fail\nargs: {{big}}\n", "input_validator_args: {check: [a, 1, .5]}\n")
}

func FuzzCaseYAML(f *testing.F) {
	fuzzPackage(f, "rules_scoring", "data/secret/b/1.yaml", "args: []\nhint: |\n  x\n", "output_validator_args: case_sensitive\n")
}

func FuzzTestdata(f *testing.F) {
	fuzzPackage(f, "legacy_scoring", "data/secret/1/testdata.yaml", "range: -inf 5\n", "range: [0, 1e60]\naccept_score: -1\n", "output_validator_flags: {name: a, flags: b}\n", "grading: custom\n")
}

func FuzzSubmissionsYAML(f *testing.F) {
	fuzzPackage(f, "rules_scoring", "submissions/submissions.yaml", "'{a,{b,c}}*/x{,}':\n  score: 1\n", "'*':\n  '*/*':\n    permitted: [AC]\n", "partly: {use_for_time_limit: upper, required: [AC]}\n")
}

func FuzzProblemXML(f *testing.F) {
	fuzzPackage(f, "polygon", "problem.xml", "<problem/>", "<!DOCTYPE a [<!ENTITY b \"c\">]><problem>&b;</problem>", "<a><b></a>", "\xef\xbb\xbf<?xml version=\"1.0\" encoding=\"koi8-r\"?><problem/>")
}

func FuzzGlob(f *testing.F) {
	f.Add("a/*{b,c{d,}}", "a/xb")
	f.Add("*a*b*c*", "aabbcc")
	f.Fuzz(func(t *testing.T, pattern, path string) {
		g, err := parseGlob(field{}, pattern)
		wantKind(t, err)
		if err != nil {
			return
		}
		if g.exactly(path) && !g.matches(path) {
			t.Errorf("%q matches %q exactly, but not at all", pattern, path)
		}
		if strings.Trim(pattern, "abc/") == "" && strings.Trim(path, "abc/") == "" && !strings.HasSuffix(pattern, "/") && g.matches(path) != (path == pattern || strings.HasPrefix(path, pattern+"/")) {
			t.Errorf("%q and %q: %v", pattern, path, g.matches(path))
		}
	})
}

func FuzzLineFeeds(f *testing.F) {
	f.Add([]byte("a\r\nb\r\r\n\r"), 1)
	f.Add(bytes.Repeat([]byte("\r\n"), 40_000), 7)
	f.Fuzz(func(t *testing.T, data []byte, step int) {
		l := &lineFeeds{r: io.NopCloser(&chunks{data: data, step: max(1, step)})}
		got, err := io.ReadAll(l)
		if want := bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n")); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%q: %q, %v, want %q", data, got, err, want)
		}
	})
}

// chunks gives a few bytes at each read.
type chunks struct {
	data []byte
	step int
}

func (c *chunks) Read(p []byte) (int, error) {
	if len(c.data) == 0 {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), c.step)], c.data)
	c.data = c.data[n:]
	return n, nil
}
