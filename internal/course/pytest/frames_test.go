package pytest

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseStudent(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat("[", maxDepth)
	for _, c := range []struct {
		name, line string
		want       studentFrame
		refused    bool
	}{
		{name: "answer", line: `{"k":"answer","v":1}`, want: studentFrame{kind: kindAnswer}},
		{name: "printed", line: `{"k":"ask","out":[["o","a\n"],["e","b"]]}`, want: studentFrame{kind: kindAsk, out: []printed{{"a\n", false}, {"b", true}}}},
		{name: "error", line: `{"k":"answer","err":{"text":"T"}}`, want: studentFrame{kind: kindAnswer, failed: true, text: "T"}},
		{name: "error_without_text", line: `{"k":"answer","err":7}`, want: studentFrame{kind: kindAnswer, failed: true}},
		{name: "last_of_two", line: `{"k":"ask","k":"answer"}`, want: studentFrame{kind: kindAnswer}},
		{name: "other_case_does_not_count", line: `{"k":"answer","K":"ask"}`, want: studentFrame{kind: kindAnswer}},
		{name: "hosts_kind", line: `{"k":"dead"}`, refused: true},
		{name: "graders_kind", line: `{"k":"report","t":"done"}`, refused: true},
		{name: "no_kind", line: `{"v":1}`, refused: true},
		{name: "no_object", line: `[1]`, refused: true},
		{name: "null", line: `null`, refused: true},
		{name: "two_values", line: `{"k":"answer"} {"k":"ask"}`, refused: true},
		{name: "not_a_number", line: `{"k":"answer","v":NaN}`, refused: true},
		{name: "bad_output", line: `{"k":"out","out":[["x","a"]]}`, refused: true},
		{name: "bad_output_length", line: `{"k":"out","out":[["o"]]}`, refused: true},
		{name: "too_deep", line: `{"k":"answer","v":` + deep + strings.Repeat("]", maxDepth) + `}`, refused: true},
		{name: "brackets_in_text", line: `{"k":"answer","v":"` + deep + `\"` + deep + `"}`, want: studentFrame{kind: kindAnswer}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, err := parseStudent([]byte(c.line))
			if (err != nil) != c.refused {
				t.Fatalf("error %v, want refused %v", err, c.refused)
			}
			if c.refused {
				return
			}
			if diff := cmp.Diff(c.want, got, cmp.AllowUnexported(studentFrame{}, printed{})); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestSplitterCutsLines(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		writes []string
		want   []string
	}{
		{"two_in_one", []string{"a\nb\n"}, []string{"a", "b"}},
		{"one_in_two", []string{"a", "b\nc"}, []string{"ab"}},
		{"empty", []string{"\n"}, []string{""}},
		{"too_long", []string{strings.Repeat("x", maxFrame+1), "\nb\n"}, []string{"<too long>"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			lines := make(chan []byte, 10)
			s := &splitter{ctx: t.Context(), lines: lines}
			for _, w := range c.writes {
				if n, err := s.Write([]byte(w)); n != len(w) || err != nil {
					t.Fatalf("wrote %d, %v", n, err)
				}
			}
			close(lines)
			var got []string
			for l := range lines {
				if l == nil {
					l = []byte("<too long>")
				}
				got = append(got, string(l))
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// FuzzParseStudent wants that a frame that is let through is one JSON object of
// a kind that the student's machine may send, whatever else is in it.
func FuzzParseStudent(f *testing.F) {
	for _, seed := range []string{
		`{"k":"answer","v":{"l":[1,{"f":"nan"}]},"chg":[[0,{"l":[]}]]}`, `{"k":"ask","op":"call","o":3,"a":[],"out":[["o","x"]]}`,
		`{"k":"ready"}`, `{"k":"answer","err":{"c":{"r":"builtins:ValueError"},"args":["a"],"id":4,"text":"T"}}`, `{"k":"dead"}`, `{"k":"answer","v":"\ud800"}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		got, err := parseStudent(line)
		if err != nil {
			return
		}
		var fields map[string]any
		if err := json.Unmarshal(line, &fields); err != nil {
			t.Fatalf("%q was let through: %v", line, err)
		}
		if fields["k"] != got.kind || got.kind == kindDead || got.kind == kindReport {
			t.Errorf("%q is of kind %q", line, got.kind)
		}
		if deepest(line) > maxDepth {
			t.Errorf("%q is too deep", line)
		}
	})
}

// deepest walks the JSON as its reader does.
func deepest(line []byte) int {
	d := json.NewDecoder(bytes.NewReader(line))
	depth, most := 0, 0
	for {
		token, err := d.Token()
		if err != nil {
			return most
		}
		switch token {
		case json.Delim('['), json.Delim('{'):
			depth++
			most = max(most, depth)
		case json.Delim(']'), json.Delim('}'):
			depth--
		}
	}
}
