package call

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"assay/internal/course"
	"assay/internal/course/tagged"
)

// found is the part of a finding that tests look at.
type found struct {
	Status course.Status
	Cause  course.Cause
	Detail string
}

// TestDecide gives programs' claims to a test of two steps: a call that returns
// 6, then one that raises.
func TestDecide(t *testing.T) {
	t.Parallel()
	six := tagged.OfInt(6)
	test := course.Test{ID: "t", Call: &course.CallTest{Steps: []course.CallStep{
		{Call: "f", Args: []tagged.Value{tagged.OfInt(2)}, Value: &six},
		{Call: "g", Raises: "LookupError", RaisesText: "no"},
	}}}
	ok, key := `{"value":6}`, `{"raised":{"class":"KeyError","above":"KeyError","text":"no x"}}`
	own := `{"raised":{"class":"Lost","above":"LookupError","text":"no x"}}`
	for name, c := range map[string]struct {
		results string
		want    found
	}{
		"right":       {ok + "," + key, found{course.Passed, "", ""}},
		"own class":   {ok + "," + own, found{course.Passed, "", ""}},
		"other value": {`{"value":7},` + key, found{course.Failed, "", "f(2)\nvalue: 6 wanted, got 7"}},
		"other type":  {`{"value":{"f":"6.0"}},` + key, found{course.Failed, "", "f(2)\nvalue: int 6 wanted, got float 6.0"}},
		"raised":      {`{"raised":{"class":"E","above":"Exception","text":"bad","trace":"a.py, line 1, in f"}}`, found{course.Failed, "", "f(2)\nraised E: bad\na.py, line 1, in f"}},
		"exit":        {`{"raised":{"class":"SystemExit","above":"SystemExit","text":"0"}}`, found{course.Errored, course.EndedTest, "f(2)\nraised SystemExit: 0"}},
		"not there":   {`{"missing":"f"}`, found{course.Failed, "", "f(2)\nthe program has no f"}},
		"unplain":     {`{"unplain":"a P"}`, found{course.Failed, "", "f(2)\nthe value cannot be compared: a P"}},
		"one result":  {ok, found{course.Errored, course.NoResult, "f(2)\ng()\nno result came"}},
		"empty":       {`{}`, found{course.Failed, "", "f(2)\nno value came"}},
		"not raised":  {ok + `,{"value":1}`, found{course.Failed, "", "f(2)\ng()\nraises: LookupError wanted, got the value 1"}},
		"other class": {ok + `,{"raised":{"class":"E","above":"ValueError","text":""}}`, found{course.Failed, "", "f(2)\ng()\nraises: LookupError wanted, got E"}},
		"other text":  {ok + `,{"raised":{"class":"KeyError","above":"KeyError","text":"x"}}`, found{course.Failed, "", "f(2)\ng()\nraises: a message with 'no' wanted, got KeyError: x"}},
		// A program can claim no more than two classes.
		"many classes": {ok + `,{"raised":{"class":"ValueError LookupError","above":"x LookupError","text":"no"}}`, found{course.Failed, "", "f(2)\ng()\nraises: LookupError wanted, got ValueError LookupError: no"}},
		"forged":       {`{"status":"passed"}`, found{course.Errored, course.InvalidResult, "f(2)\ng()\nresults: json: unknown field \"status\""}},
		"handle":       {`{"value":{"h":{}}}`, found{course.Errored, course.InvalidResult, "f(2)\ng()\nresult 1: tagged value: an object of the program's own, not a plain value"}},
	} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			f := decide(test, claimed([]byte("["+c.results+"]")), python)
			if d := cmp.Diff(c.want, found{f.Status, f.Cause, f.Detail}); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

func TestDecideOutput(t *testing.T) {
	t.Parallel()
	want := "a  \nb\n"
	test := course.Test{Call: &course.CallTest{Steps: []course.CallStep{{Call: "f"}}, Stdout: &want}}
	for out, status := range map[string]course.Status{"a\nb": course.Passed, "a\nb \n\n": course.Passed, "a b\n": course.Failed, "": course.Failed} {
		o := claimed([]byte(`[{"value":null}]`))
		o.Stdout = output{Data: []byte(out), Size: int64(len(out))}
		if f := decide(test, o, python); f.Status != status {
			t.Errorf("%q: %s, want %s", out, f.Status, status)
		}
	}
}

// TestShown holds that a finding keeps both ends of a long output.
func TestShown(t *testing.T) {
	t.Parallel()
	long := "begin" + strings.Repeat("ж", course.MaxShownOutput) + "end"
	text, cut := shown(output{Data: []byte(long), Size: int64(len(long))})
	if !cut || len(text) > course.MaxShownOutput+20 || !strings.HasPrefix(text, "begin") || !strings.HasSuffix(text, "end") {
		t.Errorf("cut %v, %d bytes", cut, len(text))
	}
}

func TestInOrder(t *testing.T) {
	t.Parallel()
	tests := []course.Test{{Visibility: course.Hidden}, {Visibility: course.Visible}, {Visibility: course.AfterDue}, {Visibility: course.Visible}}
	if d := cmp.Diff([]int{1, 3, 2, 0}, inOrder(tests)); d != "" {
		t.Error(d)
	}
}

func FuzzParseResults(f *testing.F) {
	for _, s := range []string{`[]`, `[{"value":6}]`, `[{"raised":{"class":"E"},"after":[1,{"l":[]}]}]`, `[{"unplain":"x"},{"missing":"f"}]`} {
		f.Add([]byte(s))
	}
	six := tagged.OfInt(6)
	test := course.Test{Call: &course.CallTest{Steps: []course.CallStep{{Call: "f", Value: &six}, {Call: "g", Raises: "E"}}}}
	f.Fuzz(func(t *testing.T, data []byte) {
		if fd := decide(test, claimed(data), python); fd.Status == course.Passed && !strings.Contains(string(data), "6") {
			t.Errorf("%q passes", data)
		}
	})
}

func FuzzInbox(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x02{}"), 3)
	f.Add([]byte("\xff\xff\xff\xff"), 1)
	f.Add([]byte("\x00\x00\x00\x01a\x00\x00\x00\x01b\x00\x00\x00\x01c"), 7)
	f.Fuzz(func(t *testing.T, data []byte, piece int) {
		b := newInbox()
		for rest := data; len(rest) > 0; {
			n := min(max(piece, 1), len(rest))
			if m, err := b.Write(rest[:n]); m != n || err != nil {
				t.Fatal(m, err)
			}
			rest = rest[n:]
		}
		total := 0
		for range 2 {
			select {
			case m := <-b.answers:
				total += len(m)
			default:
			}
		}
		if total > len(data) {
			t.Errorf("%d bytes of answers in %d", total, len(data))
		}
	})
}
