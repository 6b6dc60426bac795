package judge_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"assay/internal/judge"
)

// TestEmulatedProcessor: limits of time are wide enough for logic to be judged,
// those of the wall as those of the CPU, and the record says so.
func TestEmulatedProcessor(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, source, reason string
		wall                 time.Duration
		want                 judge.Verdict
	}{
		{"slow", "echo\ncpu 10s", "", 0, judge.Accepted},
		{"endless", "echo\ncpu 1h", "CPU time limit of 15.000 s", 0, judge.TimeLimitExceeded},
		{"waits", "echo\nwall 30s", "", 0, judge.Accepted},
		{"waits_for_ever", "echo\nwall 24h", "wall time limit of 31.000 s", 0, judge.TimeLimitExceeded},
		{"waits_below_own_limit", "echo\nwall 50s", "", 4 * time.Second, judge.Accepted},
		{"waits_beyond_own_limit", "echo\nwall 24h", "wall time limit of 60.000 s", 4 * time.Second, judge.TimeLimitExceeded},
		{"wrong", "print x", "", 0, judge.WrongAnswer},
		// The second machine must not have limits that are wide twice.
		{"lost_once", "first 1 lose\necho\ncpu 1h", "CPU time limit of 15.000 s", 0, judge.TimeLimitExceeded},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.machines.emulated = true
			b.problem.Limits.Wall = tt.wall
			run, err := b.judge.Run(t.Context(), b.problem, source(tt.source), nil)
			if err != nil {
				t.Fatal(err)
			}
			if run.Verdict != tt.want || !strings.Contains(run.Reason, tt.reason) {
				t.Errorf("%s %q, want %s %q", run.Verdict, run.Reason, tt.want, tt.reason)
			}
			if !slices.Equal(run.Warnings, []string{judge.EmulatedWarning}) || !run.Machine.Emulated {
				t.Errorf("warnings %q, machine %+v", run.Warnings, run.Machine)
			}
			if got := b.machines.made[0].specs[0].Limits; got.CPU != 15*time.Minute || got.Wall <= got.CPU {
				t.Errorf("the compiler has %v and %v", got.CPU, got.Wall)
			}
		})
	}
}
