package tagged

import (
	"math"
	"strings"
	"testing"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/google/go-cmp/cmp"
)

// yamlNode is the value of the key v of a document "v: TEXT".
func yamlNode(text string) (n ast.Node, ok bool) {
	defer func() {
		if recover() != nil { // the parser gives up on some malformed documents
			n, ok = nil, false
		}
	}()
	f, err := parser.ParseBytes([]byte("v: "+text+"\n"), 0)
	if err != nil || len(f.Docs) != 1 {
		return nil, false
	}
	switch b := f.Docs[0].Body.(type) {
	case *ast.MappingNode:
		return b.Values[0].Value, len(b.Values) == 1
	case *ast.MappingValueNode:
		return b.Value, true
	}
	return nil, false
}

func fromText(t *testing.T, text string) Value {
	t.Helper()
	n, ok := yamlNode(text)
	if !ok {
		t.Fatalf("not YAML: %s", text)
	}
	v, err := FromYAML(n)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return v
}

// TestForms shows every kind as a teacher writes it, on the wire, and for people.
func TestForms(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ yaml, wire, shown string }{
		{"null", "null", "None"},
		{"true", "true", "True"},
		{"3", "3", "3"},
		{"-9007199254740992", "-9007199254740992", "-9007199254740992"},
		{"9007199254740993", `{"i":"9007199254740993"}`, "9007199254740993"},
		{"123456789012345678901234567890", `{"i":"123456789012345678901234567890"}`, "123456789012345678901234567890"},
		{"2.5", `{"f":"2.5"}`, "2.5"},
		{"1e20", `{"f":"1e+20"}`, "1e+20"},
		{".nan", `{"f":"nan"}`, "nan"},
		{"-.inf", `{"f":"-inf"}`, "-inf"},
		{"!float 3", `{"f":"3.0"}`, "3.0"},
		{"!float -0.0", `{"f":"-0.0"}`, "-0.0"},
		{"it's", `"it's"`, `'it\'s'`},
		{`"a\nb"`, `"a\nb"`, `'a\nb'`},
		{"!!str 5", `"5"`, "'5'"},
		{`!bytes "h\x00\xff"`, `{"b":"aAD/"}`, `b'h\x00\xff'`},
		{"!!binary aGk=", `{"b":"aGk="}`, "b'hi'"},
		{"[1, [a]]", `{"l":[1,{"l":["a"]}]}`, "[1, ['a']]"},
		{"!tuple [1]", `{"t":[1]}`, "(1,)"},
		{"!set []", `{"s":[]}`, "set()"},
		{"!frozenset [1, 2]", `{"z":[1,2]}`, "frozenset({1, 2})"},
		{"{a: 1, 2: [x]}", `{"d":[["a",1],[2,{"l":["x"]}]]}`, "{'a': 1, 2: ['x']}"},
		{"!dict [[!tuple [0, 1], w]]", `{"d":[[{"t":[0,1]},"w"]]}`, "{(0, 1): 'w'}"},
		{"!range [0, 10]", `{"range":[0,10,1]}`, "range(0, 10, 1)"},
		{"!complex [1, -2.5]", `{"c":["1.0","-2.5"]}`, "complex(1.0, -2.5)"},
		{`!decimal "1.50"`, `{"dec":"1.50"}`, "Decimal('1.50')"},
		{"!fraction 1/3", `{"frac":["1","3"]}`, "Fraction(1, 3)"},
		{"!date 2026-01-02", `{"date":"2026-01-02"}`, "date('2026-01-02')"},
		{"!datetime 2026-01-02T10:00:00+01:00", `{"dt":"2026-01-02T10:00:00+01:00"}`, "datetime('2026-01-02T10:00:00+01:00')"},
		{"!time \"10:00:00\"", `{"tm":"10:00:00"}`, "time('10:00:00')"},
		{"!timedelta [1, 3600, 0]", `{"td":[1,3600,0]}`, "timedelta(1, 3600, 0)"},
		{
			"!array {dtype: int64, values: [[1, 2]]}",
			`{"np":{"dtype":"\u003ci8","shape":[1,2],"data":"AQAAAAAAAAACAAAAAAAAAA=="}}`, "numpy array of <i8 (1, 2) [1, 2]",
		},
	} {
		v := fromText(t, c.yaml)
		wire, err := v.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		if string(wire) != c.wire || v.String() != c.shown {
			t.Errorf("%s is %s and %s, want %s and %s", c.yaml, wire, v, c.wire, c.shown)
		}
		back, err := Decode(wire)
		if err != nil {
			t.Fatalf("%s: %v", wire, err)
		}
		if d := Diff(v, back, Rules{}); d != "" {
			t.Errorf("%s comes back as another value: %s", c.yaml, d)
		}
	}
}

func TestYAMLRefuses(t *testing.T) {
	t.Parallel()
	for text, part := range map[string]string{
		"!tuple 3":        "written as a list",
		"!point [1, 2]":   "tag !point is not known",
		"!float x":        "no float",
		"!bytes ж":        "one byte a character",
		"!fraction 1/0":   "1/3",
		"!date yesterday": "no date",
		"!range [1, a]":   "3 numbers",
		"!dict [1]":       "pairs",
		"!array [1]":      "dtype",
		"&a [1]":          "anchors",
		"[[1], *a]":       "anchors",
		"!array {dtype: int32, values: [[1], [2, 3]]}": "uneven",
	} {
		n, ok := yamlNode(text)
		if !ok {
			t.Fatalf("not YAML: %s", text)
		}
		v, err := FromYAML(n)
		if err == nil || !strings.Contains(err.Error(), part) || !strings.HasPrefix(err.Error(), "line 1: ") {
			t.Errorf("%s: %v, %v; want an error with %q", text, v, err, part)
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat(`{"l":[`, MaxDepth+2) + strings.Repeat(`]}`, MaxDepth+2)
	many := `{"l":[` + strings.Repeat("0,", MaxValues) + `0]}`
	for _, text := range []string{
		"", "[1]", "1 2", "1.5", "1e3", "-0", "{}", `{"l":[1],"t":[1]}`, `{"l":[1],"l":[1]}`, `{"l":1}`, `{"l":[1}`, `{"q":1}`,
		`{"i":"01"}`, `{"i":"1_0"}`, `{"i":5}`, `{"f":"0x1p3"}`, `{"f":"infinity"}`, `{"f":1.5}`, `{"f":"1e999"}`,
		`{"b":"a"}`, `{"c":["1.0"]}`, `{"d":[[1]]}`, `{"d":[[1,2,3]]}`, `{"range":[1,2]}`, `{"range":["a",2,3]}`, `{"frac":[1,2]}`,
		`{"date":"2026-1-2"}`, `{"dec":"1.5 "}`, `{"h":{"id":1}}`,
		`{"np":{"dtype":"|O","shape":[1],"data":"AAAAAAAAAAA="}}`, `{"np":{"dtype":"<i8","shape":[2],"data":"AAAAAAAAAAA="}}`,
		`{"np":{"dtype":"<i8","shape":[-1],"data":""}}`, `{"nps":{"dtype":"<i8","shape":[],"data":"AAAAAAAAAAA="}}`,
		`{"np":{"dtype":"<i8","shape":[4294967296,4294967296],"data":""}}`,
		deep, many,
	} {
		if v, err := Decode([]byte(text)); err == nil {
			t.Errorf("%.60s is taken as %s", text, v)
		}
	}
}

func TestDiff(t *testing.T) {
	t.Parallel()
	loose, near, any := Rules{Loose: true}, Rules{Tolerance: 1e-6}, Rules{Unordered: true}
	for _, c := range []struct {
		want, got string
		rules     Rules
		diff      string
	}{
		{"1", "1", Rules{}, ""},
		{"1", "!float 1", Rules{}, "value: int 1 wanted, got float 1.0"},
		{"1", "true", Rules{}, "value: int 1 wanted, got bool True"},
		{"1", "true", loose, "value: int 1 wanted, got bool True"},
		{"1", "!float 1", loose, ""},
		{"!float 1", "1", loose, ""},
		{"!float 1.5", "1", loose, "value: 1.5 wanted, got 1"},
		{"[1, 2]", "!tuple [1, 2]", Rules{}, "value: list [1, 2] wanted, got tuple (1, 2)"},
		{"[1, 2]", "!tuple [1, 2]", loose, ""},
		{".nan", ".nan", Rules{}, ""},
		{".nan", "1.0", near, "value: nan wanted, got 1.0"},
		{".inf", "1e308", near, "value: inf wanted, got 1e+308"},
		{"0.3", "0.30000000000000004", Rules{}, "value: 0.3 wanted, got 0.30000000000000004"},
		{"0.3", "0.30000000000000004", near, ""},
		{"1000000.0", "1000000.5", near, ""},
		{"0.0", "-0.0", Rules{}, ""},
		{"!float -0.0", "0.0", Rules{}, "value: -0.0 wanted, got 0.0"},
		{"[1, 2, 3]", "[3, 1, 2]", Rules{}, "value[0]: 1 wanted, got 3"},
		{"[1, 2, 3]", "[3, 1, 2]", any, ""},
		{"[1, 1, 3]", "[3, 1, 3]", any, "value[1]: 1 wanted, got 3"},
		{"[[1, 2]]", "[[2, 1]]", any, "value[0][0]: 1 wanted, got 2"},
		{"[0.1, 20.0]", "[20.00000001, 0.1]", Rules{Unordered: true, Tolerance: 1e-6}, ""},
		{"[1]", "[1, 2]", Rules{}, "value: 1 items wanted, got 2"},
		{"!set [1, 2, 10]", "!set [10, 2, 1]", Rules{}, ""},
		{"!set [1]", "!frozenset [1]", Rules{}, "value: set {1} wanted, got frozenset frozenset({1})"},
		{"{a: 1, b: [2.0]}", "{b: [2.0], a: 1}", Rules{}, ""},
		{"{a: 1, b: [2.0]}", "{b: [3.0], a: 1}", Rules{}, "value['b'][0]: 2.0 wanted, got 3.0"},
		{"{a: 1}", "{b: 1}", Rules{}, "value key: 'a' wanted, got 'b'"},
		{"!array {dtype: float64, values: [1, 2]}", "!array {dtype: float64, values: [1, 2.0000001]}", near, ""},
		{"!array {dtype: float64, values: [1, 2]}", "!array {dtype: float64, values: [1, 3]}", near, "value[flat 1]: 2.0 wanted, got 3.0"},
		{"!array {dtype: float64, values: [1, 2]}", "!array {dtype: float64, values: [[1, 2]]}", near, "value: numpy array of <f8 (2) wanted, got numpy array of <f8 (1, 2)"},
		{`!decimal "1.5"`, `!decimal "1.50"`, Rules{}, "value: Decimal('1.5') wanted, got Decimal('1.50')"},
	} {
		want, got := fromText(t, c.want), fromText(t, c.got)
		if d := cmp.Diff(c.diff, Diff(want, got, c.rules)); d != "" {
			t.Errorf("%s and %s (-want +got):\n%s", c.want, c.got, d)
		}
	}
}

// TestShownShort holds that no value is shown at length, whatever it is.
func TestShownShort(t *testing.T) {
	t.Parallel()
	long := OfString(strings.Repeat("x", 1<<20))
	wide := Value{Kind: List, Items: make([]Value, 100_000)}
	for _, v := range []Value{long, wide, Of(List, long, long, long), Of(Dict, long, wide), {Kind: Int, Text: strings.Repeat("9", 50_000)}} {
		if n := len(v.String()); n > 4*maxShown {
			t.Errorf("a %s is shown with %d bytes", v.Kind, n)
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, s := range []string{
		`null`, `{"l":[1,{"f":"1.5"},{"d":[["a",{"t":[]}]]}]}`, `{"np":{"dtype":"<i8","shape":[1],"data":"AQAAAAAAAAA="}}`,
		`{"c":["nan","-inf"]}`, `{"u":"7aCA"}`, `{"s":[{"i":"9007199254740993"}]}`, `{"td":[1,2,3]}`, `{"nps":{"dtype":"<f8","data":"AAAAAAAAAAA="}}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := Decode(data)
		if err != nil {
			return
		}
		wire, err := v.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		back, err := Decode(wire)
		if err != nil {
			t.Fatalf("%s became %s: %v", data, wire, err)
		}
		if d := Diff(v, back, Rules{}); d != "" {
			t.Fatalf("%s became %s: %s", data, wire, d)
		}
		_ = v.String()
		Diff(back, Value{Kind: List}, Rules{Unordered: true, Tolerance: math.Inf(1), Loose: true})
	})
}

func FuzzFromYAML(f *testing.F) {
	for _, s := range []string{
		"1", "[1, {a: !set [1]}]", "!dict [[1, 2]]", "!array {dtype: int32, values: [[1], [2]]}", "!bytes \"\\xff\"", "!complex [1, 2]", "!!binary aGk=", "? [1]\n: 2", "|\n  a",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		n, ok := yamlNode(text)
		if !ok {
			return
		}
		v, err := FromYAML(n)
		if err != nil {
			return
		}
		wire, err := v.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Decode(wire); err != nil {
			t.Fatalf("%q became %s: %v", text, wire, err)
		}
	})
}
