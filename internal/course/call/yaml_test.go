package call

import (
	"strings"
	"testing"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/google/go-cmp/cmp"

	"assay/internal/course"
	"assay/internal/course/tagged"
)

func mapping(text string) (m *ast.MappingNode) {
	defer func() {
		if recover() != nil { // the parser gives up on some malformed documents
			m = nil
		}
	}()
	f, err := parser.ParseBytes([]byte(text), 0)
	if err != nil || len(f.Docs) != 1 {
		return nil
	}
	m, _ = f.Docs[0].Body.(*ast.MappingNode)
	return m
}

func TestParseTest(t *testing.T) {
	t.Parallel()
	six, zero, out := tagged.OfInt(6), tagged.OfInt(0), "x\n"
	for text, want := range map[string]course.CallTest{
		"call: gcd\nargs: [12, 18]\nvalue: 6": {Steps: []course.CallStep{
			{Call: "gcd", Args: []tagged.Value{tagged.OfInt(12), tagged.OfInt(18)}, Value: &six},
		}},
		"call: f\nkwargs: {a: 0}\nraises: {class: ValueError, text: bad}": {Steps: []course.CallStep{
			{Call: "f", Kwargs: []course.CallKeyword{{Name: "a", Value: zero}}, Raises: "ValueError", RaisesText: "bad"},
		}},
		"get: VERSION\nvalue: null": {Steps: []course.CallStep{{Get: "VERSION", Value: &tagged.Value{}}}},
		"call: f\nstdin: 5\nstdout: \"x\\n\"\ntolerance: 1e-3\nunordered: true": {
			Steps: []course.CallStep{{Call: "f"}}, Stdin: "5", Stdout: &out, Tolerance: 1e-3, Unordered: true,
		},
		"new: Stack\nargs: [6]\nsteps:\n  - {call: pop, raises: IndexError}\n  - {call: f, args: [6], after: [0]}": {Steps: []course.CallStep{
			{New: "Stack", Args: []tagged.Value{six}},
			{Call: "pop", Raises: "IndexError"},
			{Call: "f", Args: []tagged.Value{six}, After: []tagged.Value{zero}},
		}},
		"steps:\n  - {call: f}\n  - {call: g, value: 0}": {Steps: []course.CallStep{{Call: "f"}, {Call: "g", Value: &zero}}, Stdin: ""},
	} {
		got, err := ParseTest(mapping(text))
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if d := cmp.Diff(want, *got); d != "" {
			t.Errorf("%s (-want +got):\n%s", text, d)
		}
	}
}

func TestParseTestRefuses(t *testing.T) {
	t.Parallel()
	for text, part := range map[string]string{
		"call: f\nargs: [1]":                    "line 1: the test compares nothing",
		"call: f\nvalue: 1\nresult: 1":          `line 3: key "result" is not known`,
		"args: [1]\nvalue: 1":                   "line 1: one of call, new and get",
		"call: f\nnew: C\nvalue: 1":             "one of call, new and get",
		"call: f\nvalue: 1\nargs: 5":            "line 3: args is a list",
		"call: f\nvalue: 1\nraises: E":          "not both",
		"call: f\nargs: [1]\nafter: [1, 2]":     "after has 2 values and args 1",
		"call: f\nvalue: 1\nsteps: [{call: g}]": "steps stand beside new",
		"new: C\nvalue: 1\nsteps: [{call: g}]":  "no value to compare",
		"new: C\nsteps: [{call: g, size: 1}]":   `line 2: key "size"`,
		"new: C\nsteps: 5":                      "list of calls",
		"call: f\nvalue: !point [1]":            "line 2: the tag",
		"call: f\nvalue: 1\ntolerance: -1":      "line 3: tolerance",
		"call: f\nvalue: 1\nunordered: 3":       "line 3: unordered",
		"get: X\nargs: [1]\nvalue: 1":           "get has no arguments",
		"call: f\nraises: {text: a}":            "needs a class",
		"call: f\nkwargs: [1]\nvalue: 1":        "line 2: kwargs",
	} {
		m := mapping(text)
		if m == nil {
			t.Fatalf("not a mapping: %s", text)
		}
		got, err := ParseTest(m)
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%q: %v, %v; want an error with %q", text, got, err, part)
		}
	}
}

func TestParseRules(t *testing.T) {
	t.Parallel()
	got, err := ParseRules(mapping("module: a.py\nfiles: [words.txt, \"*.h\"]"))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(course.CallRules{Module: "a.py", Files: []string{"words.txt", "*.h"}}, got); d != "" {
		t.Error(d)
	}
	if _, err := ParseRules(mapping("module: a.py\nfile: b")); err == nil || !strings.Contains(err.Error(), `line 2: key "file"`) {
		t.Errorf("an unknown key: %v", err)
	}
}

func FuzzParseTest(f *testing.F) {
	for _, s := range []string{
		"call: f\nargs: [1]\nvalue: 2", "new: C\nsteps: [{call: g, raises: {class: E}}]", "get: X\nvalue: !set [1]", "call: f\nkwargs: {a: 1}\nafter: []",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		m := mapping(text)
		if m == nil {
			return
		}
		test, err := ParseTest(m)
		if err == nil && len(test.Steps) == 0 {
			t.Errorf("%q: a test without a step", text)
		}
	})
}
