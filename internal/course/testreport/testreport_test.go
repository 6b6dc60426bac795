package testreport

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"assay/internal/course"
	"assay/internal/fault"
	"assay/internal/judge"
)

var update = flag.Bool("update", false, "write the golden files anew")

var samples = map[string]string{
	"junit": "junit.xml", "ctrf": "ctrf.json", "tap": "tap.txt", "pytest-json": "pytest.json", "go-test-json": "gotest.json",
}

func sample(t testing.TB, format string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", samples[format]))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestParse(t *testing.T) {
	t.Parallel()
	want := map[string][]Test{
		"junit": {
			{"tests.test_stack.test_push", course.Passed, "", 250 * time.Millisecond},
			{"tests.test_stack.test_pop", course.Failed, "1 != 2\nat line 3 <pop>", 1000500 * time.Millisecond},
			{"alone", course.Skipped, "", 0},
			{"c.odd \uFFFD\uFFFD[2J", course.Errored, "s\nboom\na ]]&gt; b", 0},
		},
		"ctrf": {
			{"math > sums > adds", course.Passed, "", 12 * time.Millisecond},
			{"text > adds", course.Failed, "no\nline 1", time.Millisecond},
			{"later", course.Skipped, "", 0},
			{"strange", course.Errored, "", 0},
		},
		"tap": {
			{"opens", course.Passed, "", 0},
			{"reads # an odd description", course.Failed, "---\nmessage: 'got 1'\n...\nok 1 - a subtest", 0},
			{"writes", course.Failed, "# expected 3", 0},
			{"seeks", course.Skipped, "no disk", 0},
			{"truncates", course.Skipped, "later", 0},
			{"test 6", course.Passed, "", 0},
		},
		"pytest-json": {
			{"t.py::test_a", course.Passed, "", 2 * time.Second},
			{"t.py::test_b", course.Failed, "assert 1 == 2", 0},
			{"t.py::test_c", course.Errored, "no fixture", 0},
			{"t.py::test_d", course.Skipped, "", 0},
			{"t.py::test_e", course.Passed, "", 0},
		},
		"go-test-json": {
			{"example.org/sum.TestSum/zero", course.Failed, "sum_test.go:9: got 1\n", 500 * time.Millisecond},
			{"example.org/sum.TestSum", course.Failed, "", 500 * time.Millisecond},
			{"example.org/sum.TestNet", course.Skipped, "", 0},
			{"example.org/sum.TestHangs", course.Errored, "the test did not end", 0},
		},
	}
	for _, format := range Formats() {
		t.Run(format, func(t *testing.T) {
			t.Parallel()
			got, err := Parse(format, sample(t, format))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want[format], got.Tests); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	many := func(head, one, tail string) string { return head + strings.Repeat(one, MaxTests+1) + tail }
	tests := []struct{ name, format, data, want string }{
		{"unknown_format", "csv", "x", "no report format"},
		{"empty", "junit", " \n", "empty"},
		{"large", "tap", strings.Repeat("x", MaxBytes+1), "larger"},
		{"doctype", "junit", `<!DOCTYPE x [<!ENTITY a "b">]><testsuites/>`, "document type"},
		{"entity", "junit", `<testsuite><testcase name="&a;"/></testsuite>`, "entity"},
		{"other_root", "junit", `<html></html>`, "root"},
		{"nameless", "junit", `<testsuite><testcase/></testsuite>`, "no name"},
		{"nested_cases", "junit", `<testsuite><testcase name="a"><testcase name="b"/></testcase></testsuite>`, "in a testcase"},
		{"deep", "junit", strings.Repeat("<testsuite>", 40), "too deep"},
		{"cut", "junit", `<testsuite><testcase name="a">`, "EOF"},
		{"other_charset", "junit", `<?xml version="1.0" encoding="utf-7"?><testsuite/>`, "utf-7"},
		{"too_many_junit", "junit", many("<testsuite>", `<testcase name="a"/>`, "</testsuite>"), "more than"},
		{"too_many_tap", "tap", many("", "ok\n", ""), "more than"},
		{"two_plans", "tap", "1..1\nok 1\n1..1\n", "two plans"},
		{"no_tap", "tap", "hello\n", "neither"},
		{"nan", "ctrf", `{"results":{"tests":[{"name":"a","status":"passed","duration":NaN}]}}`, "invalid"},
		{"status", "ctrf", `{"results":{"tests":[{"name":"a","status":"great","duration":1}]}}`, "great"},
		{"twice", "ctrf", `{"results":{"tests":[]}}{"results":{"tests":[]}}`, "follows"},
		{"no_results", "ctrf", `{"tests":[]}`, "results"},
		{"no_tests", "pytest-json", `{}`, "tests"},
		{"outcome", "pytest-json", `{"tests":[{"nodeid":"a","outcome":"ok"}]}`, "unknown outcome"},
		{"no_go_test", "go-test-json", `{"Action":"start"}`, "no event"},
		{"bad_line", "go-test-json", `{"Action":`, "line 1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := Parse(tt.format, []byte(tt.data))
			if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want one with %q", err, tt.want)
			}
		})
	}
}

// TestTwice finds that a test with two outcomes is not made one.
func TestTwice(t *testing.T) {
	t.Parallel()
	for format, data := range map[string]string{
		"junit":        `<testsuite><testcase name="a"/><testcase name="a"><failure/></testcase></testsuite>`,
		"go-test-json": `{"Action":"pass","Test":"a"}` + "\n" + `{"Action":"fail","Test":"a"}`,
		"tap":          "ok 1 - a\nnot ok 2 - a\n",
	} {
		r, err := Parse(format, []byte(data))
		if err != nil || len(r.Tests) != 2 || r.Tests[0].Status == r.Tests[1].Status {
			t.Errorf("%s: %v, %v", format, r, err)
		}
	}
}

func TestWriteCTRF(t *testing.T) {
	t.Parallel()
	began := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	g := course.Grade{
		Submission: "s1", Digest: "sha256:1", Assignment: "sums", Version: "sha256:2", Score: judge.IntScore(2), Points: judge.IntScore(4),
		Suspicious: []course.Suspicion{{Kind: "early_exit", Text: "The harness ended early."}},
		Tests: []course.TestResult{
			{Name: "adds", Status: course.Passed, Score: judge.IntScore(2), Points: judge.IntScore(2), Visibility: course.Visible},
			{Name: "<subtracts>", Status: course.Errored, Points: judge.IntScore(1), Cause: course.TimeLimit, Message: "look at minus", Detail: "1 != 2", Stdout: "a\nb\n"},
			{Name: "divides", Status: course.Skipped, Points: judge.IntScore(1)},
		},
		Run: course.RunFacts{Began: began, Finished: began.Add(1500 * time.Millisecond), Tests: []course.TestUsage{{TimeUS: 12_345}}},
	}
	var got bytes.Buffer
	if err := WriteCTRF(&got, g); err != nil {
		t.Fatal(err)
	}
	golden := filepath.Join("testdata", "grade.ctrf.json")
	if *update {
		if err := os.WriteFile(golden, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Error(diff)
	}
	r, err := Parse("ctrf", got.Bytes())
	if err != nil || len(r.Tests) != 3 || r.Tests[1].Status != course.Failed {
		t.Errorf("read again: %v, %v", r, err)
	}
}

func FuzzParse(f *testing.F) {
	for _, format := range Formats() {
		f.Add(format, sample(f, format))
	}
	f.Add("junit", []byte("<testsuite><testcase name='\xff&#xD800;'><failure>]]></failure></testcase></testsuite>"))
	f.Fuzz(func(t *testing.T, format string, data []byte) {
		r, err := Parse(format, data)
		if err != nil {
			return
		}
		if len(r.Tests) > MaxTests {
			t.Fatalf("%d tests", len(r.Tests))
		}
		for _, x := range r.Tests {
			if x.Name == "" || len(x.Name) > maxName+3 || len(x.Message) > maxMessage+3 || x.Time < 0 || course.Clean(x.Name+x.Message) != x.Name+x.Message {
				t.Fatalf("%q %d %v", x.Name, len(x.Message), x.Time)
			}
		}
	})
}
