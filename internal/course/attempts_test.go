package course

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"assay/internal/judge"
)

func TestAttemptRule(t *testing.T) {
	t.Parallel()
	at := func(texts ...string) []Try {
		var tries []Try
		for _, text := range texts {
			tries = append(tries, Try{Received: instant(t, text)})
		}
		return tries
	}
	failed := at("2026-05-01T10:00:00Z", "2026-05-01T10:01:00Z", "2026-05-01T10:02:00Z")
	failed[0].Unused = true
	tests := []struct {
		name  string
		rule  AttemptRule
		tries []Try
		want  []Refusal
	}{
		{"no_limit", AttemptRule{}, at("2026-05-01T10:00:00Z", "2026-05-01T10:00:00Z"), []Refusal{Accepted, Accepted}},
		{"max", AttemptRule{Max: 2}, at("2026-05-01T10:00:00Z", "2026-05-01T11:00:00Z", "2026-05-02T10:00:00Z"), []Refusal{Accepted, Accepted, TooMany}},
		{"our_failure_costs_nothing", AttemptRule{Max: 1}, failed, []Refusal{Accepted, Accepted, TooMany}},
		{"our_failure_starts_no_interval", AttemptRule{Interval: time.Hour}, failed, []Refusal{Accepted, Accepted, TooSoon}},
		{
			"interval_is_counted_from_what_was_accepted",
			AttemptRule{Interval: 10 * time.Minute},
			at("2026-05-01T10:00:00Z", "2026-05-01T10:09:59Z", "2026-05-01T10:10:00Z"),
			[]Refusal{Accepted, TooSoon, Accepted},
		},
		{
			// Midnight in Warsaw is 22:00 in UTC.
			"a_day_is_one_of_the_zone",
			AttemptRule{PerDay: 1},
			at("2026-05-01T20:00:00Z", "2026-05-01T21:59:59Z", "2026-05-01T22:00:00Z", "2026-05-02T21:00:00Z"),
			[]Refusal{Accepted, TooManyToday, Accepted, TooManyToday},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tt.want, tt.rule.Check(tt.tries, zone(t, "Europe/Warsaw"))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestRegradeKeepsAttempts holds that what was said of an attempt never changes
// because of a later one.
func TestRegradeKeepsAttempts(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		rule := AttemptRule{
			Max:      rapid.IntRange(0, 4).Draw(t, "max"),
			Interval: time.Duration(rapid.IntRange(0, 600).Draw(t, "interval")) * time.Minute,
			PerDay:   rapid.IntRange(0, 3).Draw(t, "per_day"),
		}
		now := time.Unix(1_750_000_000, 0)
		var tries []Try
		for _, minutes := range rapid.SliceOf(rapid.IntRange(0, 2000)).Draw(t, "gaps") {
			now = now.Add(time.Duration(minutes) * time.Minute)
			tries = append(tries, Try{Received: now, Unused: rapid.Bool().Draw(t, "unused")})
		}
		all := rule.Check(tries, zone(t, "Europe/Warsaw"))
		cut := rapid.IntRange(0, len(tries)).Draw(t, "cut")
		if diff := cmp.Diff(all[:cut], rule.Check(tries[:cut], zone(t, "Europe/Warsaw"))); diff != "" {
			t.Fatalf("(-all +first %d):\n%s", cut, diff)
		}
	})
}

func TestWhichAttemptCounts(t *testing.T) {
	t.Parallel()
	scores := []judge.Score{judge.IntScore(5), judge.IntScore(8), judge.IntScore(8), judge.IntScore(3)}
	for counting, want := range map[Counting]int{CountFirst: 0, CountBest: 1, CountLast: 3, "": 3} {
		if got := counting.Choose(scores); got != want {
			t.Errorf("%q counts %d, want %d", counting, got, want)
		}
		if got := counting.Choose(nil); got != -1 {
			t.Errorf("%q of none counts %d", counting, got)
		}
	}
}
