package class

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"assay/internal/course"
	"assay/internal/judge"
)

func local(t rapid.TB, text string) course.LocalTime {
	l, err := course.ParseLocalTime(text)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func points(t rapid.TB, text string) judge.Score {
	s, err := judge.ParseScore(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func when(t rapid.TB, text string) time.Time {
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// lab is a state with four students and one assignment of 10 points, due when
// clocks in Warsaw go back in the following night; each late day costs 1 point.
func lab(t rapid.TB) State {
	return State{
		Course: Course{ID: "c", Zone: "Europe/Warsaw", Key: []byte("key")},
		People: []Person{
			{ID: "ada", Name: "Ada", StudentID: "1", Role: Student},
			{ID: "bo", Name: "Bo", StudentID: "2", Role: Student},
			{ID: "cy", Name: "Cy", StudentID: "3", Role: Student},
			{ID: "tee", Name: "Tee", Role: Staff},
			{ID: "old", Name: "Old", Role: Student, Removed: when(t, "2026-01-01T00:00:00Z")},
		},
		Assignments: []Assignment{{
			Name: "lab", Points: points(t, "10"), Version: "v1", Due: local(t, "2026-10-24T12:00"),
			Late: course.LateRule{PerDay: points(t, "10"), Of: course.OfPoints, MaxDays: 3},
		}},
	}
}

// hand adds an attempt.
func (s *State) hand(t rapid.TB, who, group, received, score string) *Attempt {
	at := Attempt{
		ID: fmt.Sprint("t", len(s.Attempts)+1), Assignment: "lab", Person: who, Group: group, Received: when(t, received),
		Run: Run{Version: "v1", Score: points(t, score), Points: points(t, "10")},
	}
	s.Attempts = append(s.Attempts, at)
	return &s.Attempts[len(s.Attempts)-1]
}

func TestMarks(t *testing.T) {
	t.Parallel()
	const inTime, day1, day2, day4 = "2026-10-24T10:00:00Z", "2026-10-25T11:00:00Z", "2026-10-25T11:00:01Z", "2026-10-28T11:00:00Z"
	group := func(s *State, name string, people ...string) {
		for _, p := range people {
			s.Members = append(s.Members, Member{"lab", p, name})
		}
	}
	adjust := func(s *State, who, pts string, set bool) *Adjustment {
		s.Adjustments = append(s.Adjustments, Adjustment{Assignment: "lab", Person: who, Points: points(t, pts), Set: set})
		return &s.Adjustments[len(s.Adjustments)-1]
	}
	tests := []struct {
		name  string
		setup func(s *State)
		want  []string // "who: attempt earned-penalty+adjustment=score", and what else is to be said
	}{
		{"nothing", func(*State) {}, []string{"ada: none", "bo: none", "cy: none"}},
		{"in_time", func(s *State) { s.hand(t, "ada", "", inTime, "8") }, []string{"ada: t1 8-0+0=8", "bo: none", "cy: none"}},
		{"a_day_of_25_hours", func(s *State) { s.hand(t, "ada", "", day1, "8"); s.hand(t, "bo", "", day2, "8") }, []string{"ada: t1 8-1+0=7", "bo: t2 8-2+0=6", "cy: none"}},
		{"too_late", func(s *State) { s.hand(t, "ada", "", day4, "8") }, []string{"ada: none, 1 refused", "bo: none", "cy: none"}},
		{"last_counts", func(s *State) { s.hand(t, "ada", "", inTime, "8"); s.hand(t, "ada", "", inTime, "3") }, []string{"ada: t2 3-0+0=3", "bo: none", "cy: none"}},
		{"last_that_is_not_refused_counts", func(s *State) { s.hand(t, "ada", "", inTime, "8"); s.hand(t, "ada", "", day4, "10") }, []string{"ada: t1 8-0+0=8, 1 refused", "bo: none", "cy: none"}},
		{"best_is_taken_after_the_penalty", func(s *State) {
			s.Assignments[0].Attempts.Counts = course.CountBest
			s.hand(t, "ada", "", inTime, "8")
			s.hand(t, "ada", "", day2, "9")
		}, []string{"ada: t1 8-0+0=8", "bo: none", "cy: none"}},
		{"attempts_are_limited", func(s *State) {
			s.Assignments[0].Attempts.Max = 1
			s.hand(t, "ada", "", inTime, "3")
			s.hand(t, "ada", "", inTime, "8")
		}, []string{"ada: t1 3-0+0=3, 1 refused", "bo: none", "cy: none"}},
		{"our_failure_costs_no_attempt", func(s *State) {
			s.Assignments[0].Attempts.Max = 1
			s.hand(t, "ada", "", inTime, "0").Run.Failed = true
			s.hand(t, "ada", "", inTime, "8")
		}, []string{"ada: t2 8-0+0=8, 1 failed", "bo: none", "cy: none"}},
		{"our_failure_is_no_mark", func(s *State) { s.hand(t, "ada", "", inTime, "0").Run.Failed = true }, []string{"ada: none, 1 failed", "bo: none", "cy: none"}},
		{"group", func(s *State) {
			group(s, "red", "ada", "bo")
			s.hand(t, "bo", "red", inTime, "8")
		}, []string{"ada: t1 8-0+0=8", "bo: t1 8-0+0=8", "cy: none"}},
		{"group_made_after_handing_in", func(s *State) {
			s.hand(t, "bo", "", inTime, "8")
			group(s, "red", "ada", "bo")
		}, []string{"ada: t1 8-0+0=8", "bo: t1 8-0+0=8", "cy: none"}},
		{"who_leaves_a_group_leaves_its_work", func(s *State) {
			s.hand(t, "bo", "red", inTime, "8")
			group(s, "red", "ada")
		}, []string{"ada: t1 8-0+0=8", "bo: none", "cy: none"}},
		{"a_group_shares_its_attempts", func(s *State) {
			s.Assignments[0].Attempts.Max = 1
			group(s, "red", "ada", "bo")
			s.hand(t, "bo", "red", inTime, "8")
			s.hand(t, "ada", "red", inTime, "9")
		}, []string{"ada: t1 8-0+0=8, 1 refused", "bo: t1 8-0+0=8, 1 refused", "cy: none"}},
		{"extension_by_days", func(s *State) {
			s.hand(t, "ada", "", day2, "8")
			s.Extensions = []Extension{{Assignment: "lab", Person: "ada", Days: 1}}
		}, []string{"ada: t1 8-1+0=7", "bo: none", "cy: none"}},
		{"extension_to_a_time", func(s *State) {
			s.hand(t, "ada", "", day4, "8")
			s.Extensions = []Extension{{Assignment: "lab", Person: "ada", Due: local(t, "2026-10-28T12:00")}}
		}, []string{"ada: t1 8-0+0=8", "bo: none", "cy: none"}},
		{"extension_that_was_revoked", func(s *State) {
			s.hand(t, "ada", "", day2, "8")
			s.Extensions = []Extension{{Assignment: "lab", Person: "ada", Days: 9, Revoked: &Note{}}}
		}, []string{"ada: t1 8-2+0=6", "bo: none", "cy: none"}},
		{"the_last_extension_holds", func(s *State) {
			s.hand(t, "ada", "", day2, "8")
			s.Extensions = []Extension{{Assignment: "lab", Person: "ada", Days: 9}, {Assignment: "lab", Person: "ada", Days: 1}}
		}, []string{"ada: t1 8-1+0=7", "bo: none", "cy: none"}},
		{"one_of_a_group_has_more_time", func(s *State) {
			group(s, "red", "ada", "bo")
			s.hand(t, "bo", "red", day1, "8")
			s.Extensions = []Extension{{Assignment: "lab", Person: "ada", Days: 1}}
		}, []string{"ada: t1 8-0+0=8", "bo: t1 8-1+0=7", "cy: none"}},
		{"extension_of_a_group", func(s *State) {
			group(s, "red", "ada", "bo")
			s.hand(t, "bo", "red", day1, "8")
			s.hand(t, "cy", "", day1, "8")
			s.Extensions = []Extension{{Assignment: "lab", Group: "red", Days: 1}}
		}, []string{"ada: t1 8-0+0=8", "bo: t1 8-0+0=8", "cy: t2 8-1+0=7"}},
		{"an_extension_is_of_one_assignment", func(s *State) {
			s.hand(t, "ada", "", day1, "8")
			s.Extensions = []Extension{{Assignment: "other", Person: "ada", Days: 1}}
		}, []string{"ada: t1 8-1+0=7", "bo: none", "cy: none"}},
		{"adjusted_after_the_penalty", func(s *State) {
			s.hand(t, "ada", "", day1, "8")
			adjust(s, "ada", "-2.5", false)
		}, []string{"ada: t1 8-1+-2.5=4.5", "bo: none", "cy: none"}},
		{"set_and_then_added", func(s *State) {
			s.hand(t, "ada", "", inTime, "8")
			adjust(s, "ada", "1", false)
			adjust(s, "ada", "5", true)
			adjust(s, "ada", "2", false)
		}, []string{"ada: t1 8-0+-1=7", "bo: none", "cy: none"}},
		{"revoked_adjustment", func(s *State) {
			s.hand(t, "ada", "", inTime, "8")
			adjust(s, "ada", "1", false).Revoked = &Note{}
		}, []string{"ada: t1 8-0+0=8", "bo: none", "cy: none"}},
		{"never_below_zero", func(s *State) {
			s.hand(t, "ada", "", inTime, "3")
			adjust(s, "ada", "-5", false)
		}, []string{"ada: t1 3-0+-3=0", "bo: none", "cy: none"}},
		{"set_without_an_attempt", func(s *State) { adjust(s, "bo", "0", true) }, []string{"ada: none", "bo:  0-0+0=0", "cy: none"}},
		{"only_one_of_a_group_is_adjusted", func(s *State) {
			group(s, "red", "ada", "bo")
			s.hand(t, "bo", "red", inTime, "8")
			adjust(s, "bo", "1", false)
		}, []string{"ada: t1 8-0+0=8", "bo: t1 8-0+1=9", "cy: none"}},
		{"outdated_and_suspicious", func(s *State) {
			s.hand(t, "ada", "", inTime, "8").Run.Suspicious = true
			s.Assignments[0].Version = "v2"
		}, []string{"ada: t1 8-0+0=8, suspicious, outdated", "bo: none", "cy: none"}},
		{"no_due_time", func(s *State) {
			s.Assignments[0].Due = course.LocalTime{}
			s.hand(t, "ada", "", day4, "8")
		}, []string{"ada: t1 8-0+0=8", "bo: none", "cy: none"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := lab(t)
			tt.setup(&s)
			marks, err := s.Marks(s.Assignments[0])
			if err != nil {
				t.Fatal(err)
			}
			if len(marks) != 3 {
				t.Errorf("%d marks; staff and those who left have none", len(marks))
			}
			var got []string
			for _, who := range []string{"ada", "bo", "cy"} {
				m := marks[who]
				text := fmt.Sprintf("%s: %s %s-%s+%s=%s", who, m.Attempt, m.Earned, m.Penalty, m.Adjustment, m.Score)
				if m.None {
					text = who + ": none"
				}
				if m.Refused > 0 {
					text += fmt.Sprintf(", %d refused", m.Refused)
				}
				if m.Failed > 0 {
					text += fmt.Sprintf(", %d failed", m.Failed)
				}
				if m.Suspicious {
					text += ", suspicious"
				}
				if m.Outdated {
					text += ", outdated"
				}
				got = append(got, text)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestMarkLaws holds for every rule: a mark is what its parts add up to, more
// time never costs anything, and handing in the same work later never gives more.
func TestMarkLaws(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := lab(t)
		a := &s.Assignments[0]
		a.Late.MaxDays = rapid.IntRange(course.AnyDays, 5).Draw(t, "days")
		a.Late.Grace = time.Duration(rapid.IntRange(0, 100).Draw(t, "grace")) * time.Minute
		a.Late.PerDay = judge.IntScore(rapid.Int64Range(0, 100).Draw(t, "percent"))
		a.Attempts.Counts = course.CountBest
		due := when(t, "2026-10-24T10:00:00Z")
		n := rapid.IntRange(1, 5).Draw(t, "attempts")
		for i := range n {
			at := s.hand(t, "ada", "", "2026-10-24T10:00:00Z", "0")
			at.Received = due.Add(time.Duration(i*500+rapid.IntRange(-3000, 3000).Draw(t, "minutes")) * time.Minute)
			at.Run.Score = judge.IntScore(rapid.Int64Range(0, 10).Draw(t, "score"))
		}
		mark := func(s State) Mark {
			marks, err := s.Marks(s.Assignments[0])
			if err != nil {
				t.Fatal(err)
			}
			return marks["ada"]
		}
		before := mark(s)
		if sum := before.Earned.Sub(before.Penalty).Add(before.Adjustment); sum.Cmp(before.Score) != 0 || before.Score.Sign() < 0 {
			t.Fatalf("%+v does not add up", before)
		}
		longer := s
		longer.Extensions = []Extension{{Assignment: "lab", Person: "ada", Days: rapid.IntRange(1, 9).Draw(t, "more")}}
		if after := mark(longer); after.Score.Cmp(before.Score) < 0 {
			t.Fatalf("%s points, with an extension %s", before.Score, after.Score)
		}
		later := s
		later.Attempts = append([]Attempt{}, s.Attempts...)
		delay := time.Duration(rapid.IntRange(0, 9000).Draw(t, "delay")) * time.Minute
		for i := range later.Attempts {
			later.Attempts[i].Received = later.Attempts[i].Received.Add(delay)
		}
		if after := mark(later); after.Score.Cmp(before.Score) > 0 {
			t.Fatalf("%s points, all %s later %s", before.Score, delay, after.Score)
		}
	})
}

func TestPseudonyms(t *testing.T) {
	t.Parallel()
	c, other := Course{Key: []byte("one")}, Course{Key: []byte("two")}
	seen := map[string]string{}
	for _, name := range []string{"lab1", "lab2"} {
		for i := range 500 {
			person := fmt.Sprint("p", i)
			p := c.Pseudonym(name, person)
			if p != c.Pseudonym(name, person) || p == other.Pseudonym(name, person) {
				t.Errorf("%s of %s in %s is not stable or does not depend on the key", p, person, name)
			}
			if who, taken := seen[p]; taken {
				t.Errorf("%s is %s and %s in %s", p, who, person, name)
			}
			seen[p] = person + " in " + name
		}
	}
}

func TestSpread(t *testing.T) {
	t.Parallel()
	scores := func(list ...string) (out []judge.Score) {
		for _, s := range list {
			out = append(out, points(t, s))
		}
		return out
	}
	tests := []struct {
		name   string
		scores []judge.Score
		want   Statistics
		bins   []int
	}{
		{"none", nil, Statistics{}, []int{0, 0, 0, 0, 0, 0, 0, 0, 0, 0}},
		{"one", scores("7"), Statistics{1, 7, 7, [2]float64{7, 7}, 7, 7, 0}, []int{0, 0, 0, 0, 0, 0, 0, 1, 0, 0}},
		{
			"some", scores("10", "0", "4", "3.99", "12"),
			Statistics{5, 5.998, 4, [2]float64{3.99, 10}, 0, 12, 4.383},
			[]int{1, 0, 0, 1, 1, 0, 0, 0, 0, 2},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tt.want, Spread(tt.scores)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			var bins []int
			for _, b := range Histogram(tt.scores, points(t, "10")) {
				bins = append(bins, b.Count)
			}
			if diff := cmp.Diff(tt.bins, bins); diff != "" {
				t.Errorf("bins (-want +got):\n%s", diff)
			}
		})
	}
}
