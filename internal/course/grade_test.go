package course

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"assay/internal/judge"
)

func points(text string) judge.Score {
	s, err := judge.ParseScore(text)
	if err != nil {
		panic(err)
	}
	return s
}

func sample() *Assignment {
	return &Assignment{
		Name: "a", Title: "A", Version: "sha256:1", Mode: Pytest, Points: points("10"),
		Tests: []Test{
			{ID: "one", Name: "One", Points: points("2"), Visibility: Visible, Message: "Look at one."},
			{ID: "two", Name: "Two", Points: points("8"), Visibility: Hidden, Message: "Look at two."},
			{ID: "more", Name: "More", Points: points("1"), Visibility: Visible, Bonus: true},
		},
	}
}

// TestDecide: whatever a report says, points are the assignment's.
func TestDecide(t *testing.T) {
	t.Parallel()
	pass := func(ids ...string) (list []Finding) {
		for _, id := range ids {
			list = append(list, Finding{Test: id, Status: Passed})
		}
		return list
	}
	tests := []struct {
		name       string
		report     Report
		score      string
		statuses   []Status
		suspicious []string
	}{
		{"all", Report{Findings: pass("one", "two", "more")}, "11", []Status{Passed, Passed, Passed}, nil},
		{"none", Report{}, "0", []Status{Missing, Missing, Missing}, nil},
		{"one is missing", Report{Findings: pass("one", "more")}, "3", []Status{Passed, Missing, Passed}, nil},
		{"a test too many", Report{Findings: pass("one", "extra")}, "2", []Status{Passed, Missing, Missing}, []string{"extra_test"}},
		{"one twice", Report{Findings: pass("one", "two", "two")}, "2", []Status{Passed, Errored, Missing}, []string{"invalid_result"}},
		{"a fail and a pass of one", Report{Findings: append(pass("two"), Finding{Test: "two", Status: Failed})}, "0", []Status{Missing, Errored, Missing}, []string{"invalid_result"}},
		{"skipped", Report{Findings: []Finding{{Test: "two", Status: Skipped}}}, "0", []Status{Missing, Skipped, Missing}, nil},
		{"half", Report{Findings: []Finding{{Test: "two", Status: Partial, Share: points("0.5")}}}, "4", []Status{Missing, Partial, Missing}, nil},
		{"more than all", Report{Findings: []Finding{{Test: "two", Status: Partial, Share: points("1.5")}}}, "0", []Status{Missing, Partial, Missing}, nil},
		{"less than none", Report{Findings: []Finding{{Test: "two", Status: Partial, Share: points("-1")}}}, "0", []Status{Missing, Partial, Missing}, nil},
		{"a status that is not known", Report{Findings: []Finding{{Test: "two", Status: "excellent"}}}, "0", []Status{Missing, "excellent", Missing}, nil},
		{"flagged by the mode", Report{Suspicions: []Suspicion{{"early_exit", "it ended early"}}, Findings: pass("one")}, "2", []Status{Passed, Missing, Missing}, []string{"early_exit"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			g := Decide(sample(), Submission{ID: "s"}, tt.report)
			if g.Score.String() != tt.score || g.Points.String() != "10" {
				t.Errorf("%s of %s, want %s of 10", g.Score, g.Points, tt.score)
			}
			var statuses []Status
			for _, r := range g.Tests {
				statuses = append(statuses, r.Status)
			}
			if d := cmp.Diff(tt.statuses, statuses); d != "" {
				t.Error(d)
			}
			var kinds []string
			for _, s := range g.Suspicious {
				kinds = append(kinds, s.Kind)
			}
			if d := cmp.Diff(tt.suspicious, kinds); d != "" {
				t.Error(d)
			}
		})
	}
}

// TestStudentSeesNothingHidden looks for every word of a hidden test in all that
// a student gets.
func TestStudentSeesNothingHidden(t *testing.T) {
	t.Parallel()
	a := sample()
	a.Tests[1].Name = "SECRETNAME"
	a.Tests[1].Message = "SECRETMESSAGE"
	a.Tests[1].Details = true
	a.Tests[0].Details = true
	r := Report{
		Log: "SECRETLOG", Suspicions: []Suspicion{{"early_exit", "SECRETREASON"}},
		Findings: []Finding{
			{Test: "one", Status: Failed, Detail: "1 is not 2", Stdout: "visible words"},
			{Test: "two", Status: Failed, Detail: "SECRETINPUT", Stdout: "SECRETOUT", Stderr: "SECRETERR"},
		},
	}
	g := Decide(a, Submission{ID: "s"}, r)
	for _, release := range []Release{{}, {AfterDue: true}, {AfterDue: true, Published: true}} {
		seen := g.ForStudent(release, Visible)
		data, err := json.Marshal(seen)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(data, []byte("SECRET")) {
			t.Errorf("%+v: the student sees %s", release, data)
		}
		if !seen.HiddenRemain || seen.Score != nil || seen.Points != nil || len(seen.Tests) != 2 {
			t.Errorf("%+v: total %v of %v, %d tests", release, seen.Score, seen.Points, len(seen.Tests))
		}
		if first := seen.Tests[0]; first.Detail != "1 is not 2" || first.Stdout != "visible words" || first.Message != "Look at one." {
			t.Errorf("the visible test shows %+v", first)
		}
	}
	a.Tests[1].Visibility = AfterPublished
	g = Decide(a, Submission{ID: "s"}, r)
	if seen := g.ForStudent(Release{AfterDue: true}, Hidden); seen.Score != nil || len(seen.Tests) != 2 {
		t.Errorf("before marks are published: total %v, %d tests", seen.Score, len(seen.Tests))
	}
	seen := g.ForStudent(Release{AfterDue: true, Published: true}, Hidden)
	if seen.Score == nil || len(seen.Tests) != 3 || seen.HiddenRemain {
		t.Errorf("after marks are published: total %v, %d tests", seen.Score, len(seen.Tests))
	}
	for _, test := range seen.Tests {
		if test.Stdout != "" {
			t.Errorf("output %q is shown, and it is hidden", test.Stdout)
		}
	}
}

// TestEveryCauseHasAText: a student must never read a word of ours.
func TestEveryCauseHasAText(t *testing.T) {
	t.Parallel()
	for _, c := range []Cause{
		TimeLimit, MemoryLimit, OutputLimit, ProcessLimit, DiskLimit, EndedTest, Crashed, NotCompiled, NotImported, MissingFile, RefusedFiles,
		NoResult, InvalidResult, OurFailure,
	} {
		if text, ok := causeTexts[c]; !ok || c.Text() != text {
			t.Errorf("cause %q has no text", c)
		}
	}
}

func TestClean(t *testing.T) {
	t.Parallel()
	tests := []struct{ text, want string }{
		{"plain\ttext\n", "plain\ttext\n"},
		{"nul \x00 escape \x1b[2J bell \a", "nul \uFFFD escape \uFFFD[2J bell \uFFFD"},
		{"line\r\nend", "line\nend"},
		{"broken \xff\xfe", "broken \uFFFD\uFFFD"},
		{"surrogate \xed\xa0\x80", "surrogate \uFFFD\uFFFD\uFFFD"},
		{"turned \u202e around", "turned \uFFFD around"},
		{"<b>&</b>", "<b>&</b>"},
		{"größer 漢字", "größer 漢字"},
	}
	for _, tt := range tests {
		if got := Clean(tt.text); got != tt.want {
			t.Errorf("Clean(%q) = %q, want %q", tt.text, got, tt.want)
		}
	}
}

func TestPin(t *testing.T) {
	t.Parallel()
	run := []Test{{ID: "t.py::a", Name: "t.py::a"}, {ID: "t.py::b[1]", Name: "t.py::b[1]"}, {ID: "t.py::b[2]", Name: "t.py::b[2]"}}
	a := &Assignment{Name: "a", Mode: Pytest, Visibility: Visible, Pytest: PytestRules{Points: points("1")}}
	a.Tests = []Test{{ID: "t.py::b*", Name: "t.py::b*", Points: points("3"), Visibility: Hidden, Message: "b"}}
	if err := a.Pin(run); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range a.Tests {
		got = append(got, strings.Join([]string{p.Name, p.Points.String(), string(p.Visibility), p.Message}, " "))
	}
	want := []string{"t.py::a 1 visible ", "t.py::b[1] 3 hidden b", "t.py::b[2] 3 hidden b"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if a.Points.String() != "7" {
		t.Errorf("%s points, want 7", a.Points)
	}
	a.Tests = []Test{{ID: "t.py::c", Name: "c"}}
	if err := a.Pin(run); err == nil || !strings.Contains(err.Error(), `"t.py::c"`) {
		t.Errorf("a rule for a test that is not there: %v", err)
	}
}

func TestCompare(t *testing.T) {
	t.Parallel()
	grade := func(version string, score int64, status Status, cause Cause) Grade {
		return Grade{
			Submission: "s", Version: version, Score: judge.IntScore(score), Points: judge.IntScore(2), Cause: cause,
			Tests: []TestResult{{Name: "t", Status: status, Score: judge.IntScore(score), Points: judge.IntScore(2)}},
		}
	}
	old := grade("1", 2, Passed, NoCause)
	tests := []struct {
		name    string
		next    Grade
		changed bool
		failed  bool
		score   string
		why     string
	}{
		{"the same", grade("1", 2, Passed, NoCause), false, false, "2", ""},
		{"another version, same marks", grade("2", 2, Passed, NoCause), false, false, "2", ""},
		{"a test fails now", grade("2", 0, Failed, NoCause), true, false, "0", "passed → failed"},
		{"why", grade("2", 0, Failed, NoCause), true, false, "0", "version 1 → 2"},
		{"our failure keeps the mark", grade("2", 0, Missing, OurFailure), false, true, "2", "the old mark stays"},
	}
	for _, tt := range tests {
		d := Compare(old, tt.next)
		if d.Changed != tt.changed || d.Failed != tt.failed || d.New.String() != tt.score || !strings.Contains(strings.Join(d.Why, "; "), tt.why) {
			t.Errorf("%s: %+v", tt.name, d)
		}
	}
}
