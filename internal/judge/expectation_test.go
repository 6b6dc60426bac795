package judge_test

import (
	"strings"
	"testing"

	"assay/internal/judge"
)

func TestExpectation(t *testing.T) {
	t.Parallel()
	const (
		ac, wa, tle, re, ce, je = judge.Accepted, judge.WrongAnswer, judge.TimeLimitExceeded, judge.RunTimeError, judge.CompileError, judge.JudgeError
	)
	type list = []judge.Verdict
	accepted := judge.Expectation{Permitted: list{ac}, Required: list{ac}}
	slow := judge.Expectation{Permitted: list{ac, wa, tle}, Required: list{tle}}
	rejected := judge.Expectation{Required: list{wa, tle, re, ce}}
	final := judge.Expectation{Final: list{tle, re}}
	tests := map[string]struct {
		e     judge.Expectation
		final judge.Verdict
		cases string
		met   bool
	}{
		"accepted":            {accepted, ac, "AC AC", true},
		"accepted_fails":      {accepted, wa, "AC WA SK", false},
		"accepted_no_compile": {accepted, ce, "", false},
		"accepted_je":         {accepted, je, "JE SK", false},
		"slow":                {slow, tle, "AC TLE SK", true},
		"slow_wrong_first":    {slow, wa, "WA SK SK", false},
		"slow_wrong_then_all": {slow, wa, "WA TLE AC", true},
		"slow_crashes":        {slow, re, "TLE RE", false},
		"slow_je":             {slow, je, "TLE JE", false},
		"rejected_any":        {rejected, re, "RE SK", true},
		"rejected_ce":         {rejected, ce, "", true},
		"rejected_not":        {rejected, ac, "AC", false},
		"final_one":           {final, re, "AC RE SK", true},
		"final_other":         {final, wa, "WA", false},
		"nothing_said":        {judge.Expectation{}, wa, "WA", true},
		"nothing_said_je":     {judge.Expectation{}, je, "", false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := judge.Run{Verdict: tt.final}
			for i, v := range strings.Fields(tt.cases) {
				r.Cases = append(r.Cases, judge.CaseResult{Number: i + 1, Verdict: judge.Verdict(v)})
			}
			c := tt.e.Compare(r)
			if tt.e.Met(r) != tt.met || c.Met != tt.met || (c.Mismatch == "") != tt.met {
				t.Errorf("met = %v (%q), want %v", c.Met, c.Mismatch, tt.met)
			}
		})
	}
	if accepted.NeedsAllCases() || !slow.NeedsAllCases() || final.NeedsAllCases() {
		t.Error("only the slow one can be hidden by stopping early")
	}
	if got, want := slow.Text(), "TLE, else AC WA"; got != want {
		t.Errorf("Text = %q, want %q", got, want)
	}
}
