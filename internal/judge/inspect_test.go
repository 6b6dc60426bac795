package judge_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"assay/internal/fault"
	"assay/internal/judge"
)

func TestInferenceLimit(t *testing.T) {
	t.Parallel()
	legacy := judge.Inference{AcceptFactor: 5, RejectFactor: 2, Resolution: time.Second}
	rules := judge.Inference{AcceptFactor: 2, RejectFactor: 1.5, Resolution: 100 * time.Millisecond}
	tests := []struct {
		name    string
		rule    judge.Inference
		slowest time.Duration
		want    time.Duration
	}{
		{"legacy_at_least_one_second", legacy, 0, time.Second},
		{"legacy_short", legacy, 150 * time.Millisecond, time.Second},
		{"legacy_exact", legacy, 400 * time.Millisecond, 2 * time.Second},
		{"legacy_rounds_up", legacy, 401 * time.Millisecond, 3 * time.Second},
		{"rules_rounds_up", rules, 230 * time.Millisecond, 500 * time.Millisecond},
		{"rules_exact", rules, 250 * time.Millisecond, 500 * time.Millisecond},
		{"rules_at_least_one_step", rules, time.Millisecond, 100 * time.Millisecond},
		{"no_resolution_is_a_second", judge.Inference{AcceptFactor: 3}, 700 * time.Millisecond, 3 * time.Second},
		{"odd_factor", judge.Inference{AcceptFactor: 1.3, Resolution: time.Second}, 10 * time.Second, 13 * time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := tt.rule.Limit(tt.slowest); got != tt.want {
				t.Errorf("limit %v, want %v", got, tt.want)
			}
		})
	}
}

func TestTimeBoundSlowest(t *testing.T) {
	t.Parallel()
	p := judge.Problem{Limits: judge.ProblemLimits{CPU: time.Second}}
	run := judge.Run{
		Limits: judge.LimitsInfo{CPUUS: 2_000_000}, // the language has twice the time
		Cases: []judge.CaseResult{
			{TimeUS: 400_000, Verdict: judge.Accepted},
			{TimeUS: 2_000_000, TimeAtLeast: true, Verdict: judge.TimeLimitExceeded},
			{TimeUS: 600_000, Verdict: judge.WrongAnswer},
			{TimeUS: 10_000, Verdict: judge.TimeLimitExceeded}, // waits
		},
	}
	tests := []struct {
		name    string
		cases   []int
		want    time.Duration
		atLeast bool
	}{
		{"all", nil, time.Second, true},
		{"some", []int{0, 2}, 300 * time.Millisecond, false},
		{"waiting", []int{3}, 5 * time.Millisecond, true},
		{"none", []int{}, 0, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, atLeast := judge.TimeBound{Cases: tt.cases}.Slowest(p, run)
			if got != tt.want || atLeast != tt.atLeast {
				t.Errorf("%v %v, want %v %v", got, atLeast, tt.want, tt.atLeast)
			}
		})
	}
}

// bounded is a job whose name is its text.
func bounded(text string, upper bool) judge.Job {
	j := job(text)
	j.Submission.Name = text
	j.Bounds = []judge.TimeBound{{Upper: upper}}
	return j
}

func TestFindLimit(t *testing.T) {
	t.Parallel()
	rule := &judge.Inference{AcceptFactor: 2, RejectFactor: 1.5, Resolution: time.Second}
	tests := []struct {
		name string
		rule *judge.Inference
		jobs []judge.Job
		want judge.FoundLimit
		err  string
	}{
		{
			"slowest_counts", rule,
			[]judge.Job{bounded("cpu 20s", true), bounded("cpu 700ms\necho", false), job("cpu 9s"), bounded("on b cpu 1800ms\necho", false)},
			judge.FoundLimit{Limit: 4 * time.Second, Slowest: 1800 * time.Millisecond, By: "on b cpu 1800ms\necho", Used: 2},
			"",
		},
		{
			"one_that_does_not_compile_is_passed_over", rule,
			[]judge.Job{bounded("compile error", false), bounded("cpu 100ms\necho", false)},
			judge.FoundLimit{Limit: time.Second, Slowest: 100 * time.Millisecond, By: "cpu 100ms\necho", Used: 1},
			"",
		},
		{"endless", rule, []judge.Job{bounded("cpu 2m", false)}, judge.FoundLimit{}, "took more than 60.000 s"},
		{"nobody", rule, []judge.Job{bounded("cpu 2s", true), job("echo")}, judge.FoundLimit{}, "no submission to find it from"},
		{"none_judged", rule, []judge.Job{bounded("compile error", false)}, judge.FoundLimit{}, "none of the 1"},
		{"no_rule", nil, []judge.Job{bounded("echo", false)}, judge.FoundLimit{}, "has no time limit"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := setupMany(t)
			b.problem.Limits.CPU, b.problem.Inference = 0, tt.rule
			got, err := b.judge.FindLimit(t.Context(), b.problem, tt.jobs, time.Minute, judge.Many{
				AtOnce: 2,
				Observe: func(i int, _ judge.Event) {
					if bounds := tt.jobs[i].Bounds; len(bounds) == 0 || bounds[0].Upper {
						t.Errorf("job %d says nothing about the least limit, and is judged", i)
					}
				},
			})
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) || !fault.Is(err, fault.Invalid) {
					t.Errorf("error %v, want %q", err, tt.err)
				}
				return
			}
			if diff := cmp.Diff(tt.want, got); diff != "" || err != nil {
				t.Errorf("%v %s", err, diff)
			}
		})
	}
}

func TestMargins(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		job   judge.Job
		found bool
		want  string
	}{
		{"fast", bounded("cpu 400ms\necho", false), false, ""},
		{"too_close_to_a_given_limit", bounded("cpu 600ms\necho", false), false, "false takes 0.600 s, which times 2 is more than the time limit of 1.000 s"},
		{"a_found_limit_is_made_of_it", bounded("cpu 600ms\necho", false), true, ""},
		{"far_over", bounded("on b cpu 9s\necho", true), true, ""},
		{"just_over_a_given_limit", bounded("on b cpu 1200ms\necho", true), false, "false ends within 1.500 s, 1.5 times the time limit"},
		{"just_over_a_found_limit", bounded("on b cpu 1200ms\necho", true), true, "true ends within 1.500 s, 1.5 times the time limit"},
		{"the_second_is_far_over", bounded("on a cpu 1200ms\non b cpu 9s\necho", true), true, ""},
		{"unbounded", job("cpu 990ms\necho"), true, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := setupMany(t)
			b.problem.Inference = &judge.Inference{AcceptFactor: 2, RejectFactor: 1.5, Resolution: time.Second}
			run, err := b.judge.With(judge.Options{AllCases: true}).Run(t.Context(), b.problem, tt.job.Submission, nil)
			if err != nil {
				t.Fatal(err)
			}
			found, err := b.judge.Margins(t.Context(), b.problem, tt.job, run, tt.found, nil)
			if err != nil {
				t.Fatal(err)
			}
			var text []string
			for _, f := range found {
				text = append(text, fmt.Sprintf("%v %s", f.Wrong, f.Text))
			}
			if got := strings.Join(text, "\n"); got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}

func TestMarginsOfSideBySide(t *testing.T) {
	t.Parallel()
	b := setupMany(t)
	b.problem.Inference = &judge.Inference{AcceptFactor: 2, RejectFactor: 1.5, Resolution: time.Second}
	jobs := []judge.Job{bounded("cpu 600ms\necho", false), bounded("cpu 9s", true), bounded("on a cpu 1200ms\necho", true), job("echo")}
	runs := map[int]judge.Run{}
	err := b.judge.RunMany(t.Context(), b.problem, jobs, judge.Many{AtOnce: 2, Done: func(i int, r judge.Run) error {
		if i < 3 {
			runs[i] = r
		}
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	found, err := b.judge.MarginsOf(t.Context(), b.problem, jobs, runs, false, judge.Many{AtOnce: 2})
	if err != nil || len(found) != 2 || found[0].Where != jobs[0].Submission.Name || found[1].Where != jobs[2].Submission.Name {
		t.Errorf("%v %+v", err, found)
	}
	if b.counted.live != 0 {
		t.Errorf("%d machines are left", b.counted.live)
	}
	b.machines.createErrs = []error{fault.Errorf(fault.NotFound, "no such template")}
	if _, err := b.judge.MarginsOf(t.Context(), b.problem, jobs, runs, false, judge.Many{AtOnce: 2}); !fault.Is(err, fault.NotFound) {
		t.Errorf("error %v", err)
	}
}

// TestInspectHere checks what needs no machine: the built-in checker and the
// shape of the data. Machines must not be made for it.
func TestInspectHere(t *testing.T) {
	t.Parallel()
	b := setupMany(t)
	b.problem.Cases[2].Input = b.problem.Cases[0].Input
	blob := func(name, text string) judge.Blob { return judge.BytesBlob(name, []byte(text)) }
	trial := func(kind judge.TrialKind, name, output string) judge.Trial {
		return judge.Trial{Kind: kind, Case: judge.Case{Name: name, Input: blob(name+".in", "1\n"), Answer: blob(name+".ans", "2\n")}, Output: blob(name+".out", output)}
	}
	found, err := b.judge.Inspect(t.Context(), b.problem, []judge.Trial{
		trial(judge.TrialValidOutput, "right", "2"), trial(judge.TrialValidOutput, "not_right", "3"),
		trial(judge.TrialInvalidOutput, "wrong", "3"), trial(judge.TrialInvalidOutput, "not_wrong", " 2 "),
		{Kind: judge.TrialInvalidInput, Case: judge.Case{Name: "bad", Input: blob("bad.in", "x")}},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range found {
		mark := "warning"
		if f.Wrong {
			mark = "wrong"
		}
		text, _, _ := strings.Cut(f.Text, ": ")
		got = append(got, mark+" "+f.Where+" "+text)
	}
	want := []string{
		"warning  the problem has no sample cases",
		"warning a.in the same input as a.in",
		"warning  no input validator checks the inputs",
		"wrong bad.in no input validator refuses it, and it is in invalid_input",
		"wrong not_right.out the default checker rejects it",
		"wrong not_wrong.out the checker accepts it, and it is in invalid_output",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
	if len(b.machines.made) > 0 {
		t.Errorf("%d machines were made", len(b.machines.made))
	}
}
