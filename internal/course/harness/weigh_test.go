package harness

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"assay/internal/course"
	"assay/internal/judge"
)

func points(text string) judge.Score {
	s, err := judge.ParseScore(text)
	if err != nil {
		panic(err)
	}
	return s
}

func pinned(id, max string) course.Test {
	return course.Test{ID: id, Name: id, Points: points(max), Pinned: &course.HarnessPin{Max: points(max)}}
}

// TestWeigh grades results of Gradescope's form against three pinned tests.
func TestWeigh(t *testing.T) {
	t.Parallel()
	tests := []course.Test{pinned("a", "2"), pinned("b", "3"), pinned("1.1) c", "0.5")}
	tests[1].Pinned.Above = true
	for _, tt := range []struct{ name, data, want, kinds string }{
		{"full", `{"tests":[{"name":"a","score":2,"max_score":2},{"name":"b","score":4,"max_score":3},{"name":"c","number":"1.1","score":0.5,"max_score":0.5}]}`, "2 3 0.5", ""},
		{"partial", `{"tests":[{"name":"a","score":0.67,"max_score":2},{"name":"b","score":1},{"name":"c","number":1.1,"status":"passed"}]}`, "0.67 1 0.5", ""},
		{"above_its_maximum", `{"tests":[{"name":"a","score":200,"max_score":2},{"name":"b","score":0},{"name":"c","number":"1.1","score":0}]}`, "2 0 0", "invalid_result"},
		{"other_maximum", `{"tests":[{"name":"a","score":20,"max_score":20},{"name":"b","score":3,"max_score":3},{"name":"c","number":"1.1","score":0}]}`, "0 3 0", "changed_maximum"},
		{"other_tests", `{"score":20,"tests":[{"name":"t","score":20,"max_score":20}]}`, "0 0 0", "extra_test"},
		{"nothing_ran", `{"score":0,"tests":[{"name":"_FailedTest","output":"no module"}]}`, "0 0 0", ""},
		{"twice", `{"tests":[{"name":"a","score":2},{"name":"a","score":0},{"name":"b","score":0},{"name":"c","number":"1.1","score":0}]}`, "0 0 0", "missing_test extra_test"},
		{"negative", `{"tests":[{"name":"a","score":-2},{"name":"b","score":0},{"name":"c","number":"1.1","score":0}]}`, "0 0 0", ""},
		// Half of the sum was taken off as a whole.
		{"deduction", `{"score":2.5,"tests":[{"name":"a","score":2},{"name":"b","score":3},{"name":"c","number":"1.1","score":0}]}`, "1 1.5 0", ""},
		{"whole_above_sum", `{"score":90,"tests":[{"name":"a","score":1},{"name":"b","score":0},{"name":"c","number":"1.1","score":0}]}`, "1 0 0", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r, err := readGradescope([]byte(tt.data))
			if err != nil {
				t.Fatal(err)
			}
			got, kinds := graded(tests, r)
			if got != tt.want || kinds != tt.kinds {
				t.Errorf("scores %q, suspicions %q; want %q, %q", got, kinds, tt.want, tt.kinds)
			}
		})
	}
}

// graded decides and gives scores and kinds of suspicion in one line each.
func graded(tests []course.Test, r result) (scores, kinds string) {
	findings, suspicions := weigh(tests, r)
	g := course.Decide(&course.Assignment{Mode: course.Harness, Tests: tests}, course.Submission{}, course.Report{Findings: findings, Suspicions: suspicions})
	var s, k []string
	for _, t := range g.Tests {
		s = append(s, t.Score.String())
	}
	for _, x := range g.Suspicious {
		k = append(k, x.Kind)
	}
	return strings.Join(s, " "), strings.Join(k, " ")
}

// TestWhole has a solution whose score is not the sum of its tests.
func TestWhole(t *testing.T) {
	t.Parallel()
	r, err := readGradescope([]byte(`{"score": 8, "tests": [{"name": "a", "score": 1, "max_score": 1}]}`))
	if err != nil || !r.whole() {
		t.Fatalf("%v, whole %v", err, r.whole())
	}
	tests := []course.Test{pinned(wholeID, "8"), pinned("a", "0")}
	for data, want := range map[string]string{
		`{"score": 4, "tests": [{"name": "a", "score": 0, "max_score": 1}]}`: "4 0",
		`{"score": 8, "tests": [{"name": "a", "score": 8, "max_score": 8}]}`: "8 0",
		`{"tests": [{"name": "a", "score": 8, "max_score": 8}]}`:             "0 0",
	} {
		r, err := readGradescope([]byte(data))
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := graded(tests, r); got != want {
			t.Errorf("%s: %s, want %s", data, got, want)
		}
	}
}

func TestNumbered(t *testing.T) {
	t.Parallel()
	var got []string
	for _, c := range numbered([]claim{{id: "a"}, {id: "b"}, {id: "a"}}) {
		got = append(got, c.id)
	}
	if diff := cmp.Diff([]string{"a · 1 of 2", "b", "a · 2 of 2"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestReaders(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		read func([]byte) (result, error)
		data string
		want string // "id score/max, …" or a part of the error
	}{
		{"gradescope_nameless", readGradescope, `{"execution_time":"1","tests":[{"score":"1.0","max_score":1},{"score":0,"max_score":1}]}`, "Test 1 1/1, Test 2 0/1"},
		{"gradescope_score_only", readGradescope, `{"score": 7.25, "output": "x"}`, "(score) 7.25/-"},
		{"gradescope_long_float", readGradescope, `{"tests":[{"name":"a","score":0.30000000000000004123,"max_score":1}]}`, "a 0.3/1"},
		{"gradescope_nan", readGradescope, `{"score": NaN}`, "invalid character"},
		{"gradescope_infinity", readGradescope, `{"tests":[{"score":1e999,"max_score":1}]}`, "exponent"},
		{"gradescope_nothing", readGradescope, `{}`, "neither"},
		{"gradescope_not_utf8", readGradescope, "{\"tests\":[{\"name\":\"\xff\\ud800\",\"score\":1}]}", "\uFFFD\uFFFD 1/-"},
		{"gradescope_many", readGradescope, `{"tests":[` + strings.Repeat(`{"score":1},`, maxTests) + `{"score":1}]}`, "more than"},
		{"prairielearn", readPrairieLearn, `{"score":0.5,"tests":[{"name":"a","points":1,"max_points":2}]}`, "a 1/2"},
		{"prairielearn_no_points", readPrairieLearn, `{"score":0.5,"tests":[{"name":"a","points":1,"max_points":2},{"name":"b"}]}`, "(score) 0.5/1, a 0/0, b 0/0"},
		{"prairielearn_ungradable", readPrairieLearn, `{"gradable":false,"format_errors":["no file"]}`, ""},
		{"prairielearn_no_score", readPrairieLearn, `{"tests":[]}`, "no \"score\""},
		{"autolab", readAutolab, "hello\n{\"scores\": {\"P2\": 5, \"P1\": 10.5}}\n\n", "P1 10.5/-, P2 5/-"},
		{"autolab_not_last", readAutolab, "{\"scores\": {\"P1\": 10}}\nhello\n", "last line"},
		{"autolab_two", readAutolab, "{\"scores\": {\"P1\": 10}}\n{\"scores\": {\"P1\": 0}}\n", "more than one"},
		{"autolab_none", readAutolab, "hello", "last line"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r, err := tt.read([]byte(tt.data))
			got := ""
			if err != nil {
				got = err.Error()
			} else {
				var parts []string
				for _, c := range r.marks(r.whole()) {
					parts = append(parts, c.id+" "+text(c.score)+"/"+text(c.max))
				}
				got = strings.Join(parts, ", ")
			}
			if got != tt.want && (err == nil || !strings.Contains(got, tt.want)) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func text(s *judge.Score) string {
	if s == nil {
		return "-"
	}
	return s.String()
}

func FuzzReaders(f *testing.F) {
	f.Add([]byte(`{"score": 2, "tests": [{"name": "a", "score": 1, "max_score": 1, "number": "1.1", "status": "passed"}]}`))
	f.Add([]byte("x\n{\"scores\": {\"P1\": 10}}\n"))
	f.Add([]byte(`{"score": 0.5, "format_errors": "x", "tests": [{"name": "a", "points": 1, "max_points": 2, "output": {}}]}`))
	tests := []course.Test{pinned("a", "2"), pinned("P1", "10")}
	most := points("12")
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, read := range []func([]byte) (result, error){readGradescope, readPrairieLearn, readAutolab} {
			r, err := read(data)
			if err != nil {
				continue
			}
			findings, suspicions := weigh(tests, r)
			g := course.Decide(&course.Assignment{Mode: course.Harness, Tests: tests}, course.Submission{}, course.Report{Findings: findings, Suspicions: suspicions})
			if g.Score.Cmp(most) > 0 || g.Score.Sign() < 0 {
				t.Fatalf("score %v", g.Score)
			}
		}
	})
}

func TestParseEvents(t *testing.T) {
	t.Parallel()
	e := parseEvents("start 7\nstart 9\nread /a\nread /a\nwrite /b c\nnoise\nend 7\nend 8\nhung 7\nexit 300 x\nexit 1 2\n")
	want := events{exit: 1, left: 2, started: 2, ended: 1, hung: 1, touched: []string{"read /a", "write /b c"}}
	if diff := cmp.Diff(want, e, cmp.AllowUnexported(events{})); diff != "" {
		t.Error(diff)
	}
	if got := e.beyond([]string{"read /a"}); !cmp.Equal(got, []string{"write /b c"}) {
		t.Errorf("beyond: %v", got)
	}
	if e := parseEvents(""); e.exit != -1 {
		t.Errorf("exit %d without a line", e.exit)
	}
}
