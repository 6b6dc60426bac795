package class

import (
	"testing"

	"assay/internal/course"
	"assay/internal/fault"
)

func TestAdmit(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		rule     course.AttemptRule
		person   string
		received string
		change   func(s *State)
		waiting  []string
		refused  course.Refusal
		used     int
		text     string
	}{
		{name: "in_time", person: "ada", received: "2026-10-24T09:00:00Z"},
		{name: "three_days_late", person: "ada", received: "2026-10-27T10:59:00Z"},
		{name: "too_late", person: "ada", received: "2026-10-27T11:01:00Z", text: "it is too late: due 2026-10-24 12:00 CEST, late work is accepted for 3 days, each day costs 10% of the points"},
		{
			name: "used_up", rule: course.AttemptRule{Max: 1}, person: "ada", received: "2026-10-24T09:00:00Z",
			change:  func(s *State) { s.hand(t, "ada", "", "2026-10-23T09:00:00Z", "3") },
			refused: course.TooMany, used: 1, text: "all 1 attempts are used",
		},
		{name: "waiting_counts", rule: course.AttemptRule{Max: 1}, person: "ada", received: "2026-10-24T09:00:00Z", waiting: []string{"ada"}, refused: course.TooMany, used: 1, text: "all 1 attempts are used"},
		{name: "anothers_does_not", rule: course.AttemptRule{Max: 1}, person: "ada", received: "2026-10-24T09:00:00Z", waiting: []string{"bo"}},
		{
			name: "our_failure_does_not", rule: course.AttemptRule{Max: 1}, person: "ada", received: "2026-10-24T09:00:00Z",
			change: func(s *State) { s.hand(t, "ada", "", "2026-10-23T09:00:00Z", "0").Run.Failed = true },
		},
		{
			name: "the_groups_does", rule: course.AttemptRule{Max: 1}, person: "ada", received: "2026-10-24T09:00:00Z",
			change: func(s *State) {
				s.Members = []Member{{"lab", "ada", "red"}, {"lab", "bo", "red"}}
				s.hand(t, "bo", "red", "2026-10-23T09:00:00Z", "3")
			},
			refused: course.TooMany, used: 1, text: "all 1 attempts are used",
		},
		{
			name: "extended", person: "ada", received: "2026-10-30T09:00:00Z",
			change: func(s *State) { s.Extensions = []Extension{{Assignment: "lab", Person: "ada", Days: 7}} },
		},
		{
			name: "too_soon_at_one_instant", rule: course.AttemptRule{Interval: 1}, person: "ada", received: "2026-10-24T09:00:00Z",
			change:  func(s *State) { s.hand(t, "ada", "", "2026-10-24T09:00:00Z", "3") },
			refused: course.TooSoon, used: 1, text: "less than 1ns after the attempt before",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := lab(t)
			s.Assignments[0].Attempts = tt.rule
			if tt.change != nil {
				tt.change(&s)
			}
			var waiting []Attempt
			for _, who := range tt.waiting {
				waiting = append(waiting, Attempt{ID: "waits", Assignment: "lab", Person: who, Received: when(t, "2026-10-23T10:00:00Z")})
			}
			got, err := s.Admit("lab", tt.person, when(t, tt.received), waiting)
			if err != nil {
				t.Fatal(err)
			}
			if got.Refused != tt.refused || got.Used != tt.used || got.Text() != tt.text {
				t.Errorf("got %q, %d used, %q; want %q, %d, %q", got.Refused, got.Used, got.Text(), tt.refused, tt.used, tt.text)
			}
		})
	}
}

func TestAdmitRefusesWhoIsNoStudent(t *testing.T) {
	t.Parallel()
	s := lab(t)
	for who, kind := range map[string]fault.Kind{"tee": fault.Conflict, "old": fault.NotFound, "nobody": fault.NotFound} {
		if _, err := s.Admit("lab", who, when(t, "2026-10-24T09:00:00Z"), nil); !fault.Is(err, kind) {
			t.Errorf("%s: got %v, want %s", who, err, kind)
		}
	}
	if _, err := s.Admit("other", "ada", when(t, "2026-10-24T09:00:00Z"), nil); !fault.Is(err, fault.NotFound) {
		t.Errorf("got %v, want not found", err)
	}
}
