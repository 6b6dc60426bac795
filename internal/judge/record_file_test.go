package judge_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"assay/internal/fault"
	"assay/internal/judge"
	"assay/internal/sandbox"
)

// recorded is a record of a real run of the fake problem.
func recorded(t *testing.T, text string) (judge.Record, []byte) {
	t.Helper()
	b := setup(t)
	s := source(text)
	s.Files[0].Data = append(s.Files[0].Data, "\ncompile \xff\x00"...) // not UTF-8
	run, err := b.judge.Run(t.Context(), b.problem, s, nil)
	if err != nil {
		t.Fatal(err)
	}
	rec := judge.NewRecord(run, s, b.problem, "/problems/echo", judge.Options{Template: "tiny"})
	data, err := json.Marshal(rec)
	if err != nil {
		t.Fatal(err)
	}
	return rec, data
}

func TestRecordReadsBack(t *testing.T) {
	t.Parallel()
	rec, data := recorded(t, "echo\n")
	got, err := judge.ReadRecord(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(rec, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("record (-written +read):\n%s", diff)
	}
	if got.Submission().Digest() != rec.Run.Submission.Digest || got.TimeLimit() != time.Second || got.Template != "tiny" || got.AllCases {
		t.Errorf("submission, limit or options differ: %+v", got)
	}
}

func TestRecordKnowsThatARunWentOn(t *testing.T) {
	t.Parallel()
	b := setup(t)
	s := source("on a exit 1\necho\n")
	for _, all := range []bool{false, true} {
		run, err := b.judge.With(judge.Options{AllCases: all}).Run(t.Context(), b.problem, s, nil)
		if err != nil {
			t.Fatal(err)
		}
		// The options are those of the command; a label may have had it go on.
		if rec := judge.NewRecord(run, s, b.problem, "/p", judge.Options{}); rec.AllCases != all {
			t.Errorf("all cases: %v, want %v", rec.AllCases, all)
		}
	}
}

func TestReadRecordRefuses(t *testing.T) {
	t.Parallel()
	_, good := recorded(t, "echo\n")
	edit := func(old, next string) string {
		t.Helper()
		if !strings.Contains(string(good), old) {
			t.Fatalf("the record has no %s", old)
		}
		return strings.Replace(string(good), old, next, 1)
	}
	tests := []struct{ name, data, want string }{
		{"empty", "", "no record"},
		{"no_json", "verdict: AC", "no record"},
		{"cut", string(good[:len(good)/2]), "no record"},
		{"a_list", "[]", "no record"},
		{"another_file", `{"verdict": "AC"}`, "it has no format"},
		{"another_format", edit(`"format":1`, `"format":2`), "has format 2"},
		{"no_package", edit(`"package":"/problems/echo"`, `"package":""`), "lacks"},
		{"no_sources", edit(`"sources":[`, `"sauces":[`), "lacks"},
		{"unknown_verdict", edit(`"verdict":"AC"`, `"verdict":"OK"`), "lacks"},
		{"other_sources", edit(`"name":"main.fk"`, `"name":"main.fl"`), "have digest"},
		{"source_no_base64", edit(`"data":"`, `"data":"*`), "no record"},
		{"negative_limit", edit(`"time_limit_us":1000000`, `"time_limit_us":-1`), "lacks"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := judge.ReadRecord(strings.NewReader(tt.data))
			if err == nil || !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
		})
	}
}

func TestWhatChanged(t *testing.T) {
	t.Parallel()
	ten, nine := judge.IntScore(10), judge.IntScore(9)
	old := judge.Run{
		Verdict: judge.Accepted, Score: &ten, Groups: []judge.GroupResult{{Verdict: judge.Accepted}, {Name: "secret/1", Verdict: judge.Accepted, Score: &ten}},
		Machine: judge.MachineInfo{Sandbox: "one", TemplateDigest: "sha256:1", Shape: sandbox.Shape{VCPUs: 2}},
		Limits:  judge.LimitsInfo{CPUUS: 1}, Host: judge.HostInfo{Kernel: "6.1"},
	}
	next := old
	next.Machine.Sandbox = "two" // every run has another
	next.TimeUS = 5
	if list := append(old.Verdicts(next), old.Circumstances(next)...); len(list) > 0 {
		t.Errorf("nothing that matters differs: %v", list)
	}
	next.Verdict, next.Score = judge.WrongAnswer, &nine
	next.Groups = []judge.GroupResult{{Verdict: judge.WrongAnswer}, {Name: "secret/1", Verdict: judge.WrongAnswer, Score: &nine}}
	want := []judge.Change{{What: "verdict", Old: "AC", New: "WA"}, {What: "score", Old: "10", New: "9"}, {What: "group secret/1", Old: "AC 10", New: "WA 9"}}
	if diff := cmp.Diff(want, old.Verdicts(next)); diff != "" {
		t.Errorf("verdicts (-want +got):\n%s", diff)
	}
	next.Machine.TemplateDigest, next.Machine.Shape.VCPUs, next.Limits.CPUUS, next.Host.Kernel = "sha256:2", 4, 2, "6.2"
	want = []judge.Change{
		{What: "template digest", Old: "sha256:1", New: "sha256:2"},
		{What: "machine vcpus", Old: "2", New: "4"},
		{What: "host kernel", Old: "6.1", New: "6.2"},
		{What: "limit cpu_us", Old: "1", New: "2"},
	}
	if diff := cmp.Diff(want, old.Circumstances(next)); diff != "" {
		t.Errorf("circumstances (-want +got):\n%s", diff)
	}
}
