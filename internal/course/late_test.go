package course

import (
	"testing"
	"time"
	_ "time/tzdata" // the zones of the tests, whatever the host has

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"assay/internal/fault"
	"assay/internal/judge"
)

func zone(t rapid.TB, name string) *time.Location {
	z, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return z
}

func local(t testing.TB, text string) LocalTime {
	l, err := ParseLocalTime(text)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func instant(t testing.TB, text string) time.Time {
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

func score(t testing.TB, text string) judge.Score {
	s, err := judge.ParseScore(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestParseLocalTime(t *testing.T) {
	t.Parallel()
	tests := []struct{ in, want, hint string }{
		{in: "2026-03-29T23:59", want: "2026-03-29T23:59"},
		{in: "2026-03-29 23:59", want: "2026-03-29T23:59"},
		{in: "2026-03-29T23:59:59", want: "2026-03-29T23:59:59"},
		{in: "2026-03-29T23:59:00", want: "2026-03-29T23:59"},
		{in: "2026-03-29", hint: "write the time too, as in 2026-03-29T23:59"},
		{in: "2026-03-29T23:59:00+02:00", hint: "leave the zone out: it is the course's, as in 2026-03-29T23:59"},
		{in: "2026-03-29T23:59:00Z", hint: "leave the zone out: it is the course's, as in 2026-03-29T23:59"},
		{in: "2026-02-30T10:00", hint: "write it as in 2026-03-29T23:59"},
		{in: "2026-03-29T24:00", hint: "write it as in 2026-03-29T23:59"},
		{in: "2026-03-29T23:59:59.5", hint: "write it as in 2026-03-29T23:59"},
		{in: "0001-01-01T00:00", hint: "write it as in 2026-03-29T23:59"},
		{in: "", hint: "write it as in 2026-03-29T23:59"},
	}
	for _, tt := range tests {
		got, err := ParseLocalTime(tt.in)
		if got.String() != tt.want || fault.HintOf(err) != tt.hint || (err != nil && fault.KindOf(err) != fault.Invalid) {
			t.Errorf("%q: got %q, %v, hint %q; want %q, hint %q", tt.in, got, err, fault.HintOf(err), tt.want, tt.hint)
		}
	}
}

func TestLocalTimeIn(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, zone, in, want string }{
		{"winter", "Europe/Warsaw", "2026-01-15T23:59", "2026-01-15T22:59:00Z"},
		{"summer", "Europe/Warsaw", "2026-07-15T23:59", "2026-07-15T21:59:00Z"},
		{"never_shown", "Europe/Warsaw", "2026-03-29T02:30", "2026-03-29T01:30:00Z"},
		{"first_after_gap", "Europe/Warsaw", "2026-03-29T03:00", "2026-03-29T01:00:00Z"},
		{"shown_twice", "Europe/Warsaw", "2026-10-25T02:30", "2026-10-25T01:30:00Z"},
		{"just_before_twice", "Europe/Warsaw", "2026-10-25T01:59", "2026-10-24T23:59:00Z"},
		{"new_york_gap", "America/New_York", "2026-03-08T02:30", "2026-03-08T07:30:00Z"},
		{"new_york_twice", "America/New_York", "2026-11-01T01:30", "2026-11-01T06:30:00Z"},
		{"half_hour_gap", "Australia/Lord_Howe", "2026-10-04T02:10", "2026-10-03T15:40:00Z"},
		{"half_hour_twice", "Australia/Lord_Howe", "2026-04-05T01:45", "2026-04-04T15:15:00Z"},
		{"south", "America/Santiago", "2026-07-01T12:00", "2026-07-01T16:00:00Z"},
		{"midnight_gap", "Africa/Cairo", "2026-04-24T00:30", "2026-04-23T22:30:00Z"},
		{"a_whole_day_is_missing", "Pacific/Apia", "2011-12-30T23:59", "2011-12-31T09:59:00Z"},
		{"far_east", "Pacific/Kiritimati", "2026-05-01T00:00", "2026-04-30T10:00:00Z"},
		{"utc", "UTC", "2026-05-01T00:00", "2026-05-01T00:00:00Z"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := local(t, tt.in).In(zone(t, tt.zone)).UTC().Format(time.RFC3339)
			if got != tt.want {
				t.Errorf("%s in %s is %s, want %s", tt.in, tt.zone, got, tt.want)
			}
		})
	}
}

func TestLateness(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, zone, due string
		rule            LateRule
		received        string
		days            int
		refused         bool
	}{
		{name: "in_time", zone: "UTC", due: "2026-05-01T12:00", received: "2026-05-01T12:00:00Z"},
		{name: "a_second_late", zone: "UTC", due: "2026-05-01T12:00", rule: LateRule{MaxDays: 3}, received: "2026-05-01T12:00:01Z", days: 1},
		{name: "no_late_work", zone: "UTC", due: "2026-05-01T12:00", received: "2026-05-01T12:00:01Z", days: 1, refused: true},
		{name: "grace", zone: "UTC", due: "2026-05-01T12:00", rule: LateRule{Grace: 10 * time.Minute}, received: "2026-05-01T12:10:00Z"},
		{name: "after_grace", zone: "UTC", due: "2026-05-01T12:00", rule: LateRule{Grace: 10 * time.Minute}, received: "2026-05-01T12:10:01Z", days: 1, refused: true},
		{name: "grace_of_a_day", zone: "UTC", due: "2026-05-01T12:00", rule: LateRule{Grace: 10 * time.Minute, MaxDays: 1}, received: "2026-05-02T12:10:00Z", days: 1},
		{name: "grace_of_weeks", zone: "UTC", due: "2026-05-01T12:00", rule: LateRule{Grace: 500 * time.Hour, MaxDays: 9}, received: "2026-05-22T12:10:00Z", days: 1},
		{name: "too_many_days", zone: "UTC", due: "2026-05-01T12:00", rule: LateRule{MaxDays: 1}, received: "2026-05-02T12:00:01Z", days: 2, refused: true},
		{name: "any_days", zone: "UTC", due: "2026-05-01T12:00", rule: LateRule{MaxDays: AnyDays}, received: "2027-05-01T12:00:00Z", days: 365},
		{name: "closed", zone: "UTC", due: "2026-05-01T12:00", rule: LateRule{MaxDays: AnyDays, Close: local(t, "2026-05-03T00:00")}, received: "2026-05-03T00:00:01Z", days: 2, refused: true},
		{name: "closed_without_due", zone: "UTC", rule: LateRule{Close: local(t, "2026-05-03T00:00")}, received: "2026-05-03T00:00:01Z", refused: true},
		// The day of the change has 23 hours: 24 hours later is two days late.
		{name: "day_of_23h", zone: "Europe/Warsaw", due: "2026-03-28T23:59", rule: LateRule{MaxDays: 5}, received: "2026-03-29T21:59:00Z", days: 1},
		{name: "day_of_23h_over", zone: "Europe/Warsaw", due: "2026-03-28T23:59", rule: LateRule{MaxDays: 5}, received: "2026-03-29T21:59:01Z", days: 2},
		// The day of the change has 25 hours: 24 hours and a half later is one day late.
		{name: "day_of_25h", zone: "Europe/Warsaw", due: "2026-10-24T23:59", rule: LateRule{MaxDays: 5}, received: "2026-10-25T22:59:00Z", days: 1},
		{name: "day_of_25h_over", zone: "Europe/Warsaw", due: "2026-10-24T23:59", rule: LateRule{MaxDays: 5}, received: "2026-10-25T22:59:01Z", days: 2},
		{name: "new_york_23h", zone: "America/New_York", due: "2026-03-07T17:00", rule: LateRule{MaxDays: 5}, received: "2026-03-08T21:00:01Z", days: 2},
		{name: "new_york_25h", zone: "America/New_York", due: "2026-10-31T17:00", rule: LateRule{MaxDays: 5}, received: "2026-11-01T22:00:00Z", days: 1},
		{name: "lord_howe_24h30", zone: "Australia/Lord_Howe", due: "2026-04-04T12:00", rule: LateRule{MaxDays: 5}, received: "2026-04-05T01:30:00Z", days: 1},
		{name: "a_week_over_a_change", zone: "Europe/Warsaw", due: "2026-10-20T12:00", rule: LateRule{MaxDays: 9}, received: "2026-10-27T11:00:00Z", days: 7},
		{name: "due_in_the_gap", zone: "Europe/Warsaw", due: "2026-03-29T02:30", rule: LateRule{MaxDays: 5}, received: "2026-03-30T00:30:01Z", days: 2},
		{name: "unknown_time", zone: "UTC", due: "2026-05-01T12:00"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := Schedule{Rule: tt.rule, Zone: zone(t, tt.zone)}
			if tt.due != "" {
				s.Due = local(t, tt.due)
			}
			var received time.Time
			if tt.received != "" {
				received = instant(t, tt.received)
			}
			got := s.Lateness(received)
			if got.Days != tt.days || got.Refused != tt.refused {
				t.Errorf("got %+v; want %d days, refused %t", got, tt.days, tt.refused)
			}
		})
	}
}

func TestPenalty(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name           string
		rule           LateRule
		late           Lateness
		earned, points string
		want           string
	}{
		{name: "in_time", rule: LateRule{PerDay: score(t, "10"), Of: OfPoints}, earned: "8", points: "10", want: "0"},
		{name: "of_points", rule: LateRule{PerDay: score(t, "10"), Of: OfPoints}, late: Lateness{Days: 2}, earned: "8", points: "10", want: "2"},
		{name: "of_earned", rule: LateRule{PerDay: score(t, "10"), Of: OfEarned}, late: Lateness{Days: 2}, earned: "8", points: "10", want: "1.6"},
		{name: "never_below_zero", rule: LateRule{PerDay: score(t, "50"), Of: OfPoints}, late: Lateness{Days: 3}, earned: "8", points: "10", want: "8"},
		{name: "refused", late: Lateness{Days: 1, Refused: true}, earned: "8", points: "10", want: "8"},
		{name: "thirds_are_exact", rule: LateRule{PerDay: score(t, "0.1"), Of: OfPoints}, late: Lateness{Days: 1}, earned: "1", points: "1", want: "0.001"},
		{name: "nothing_earned", rule: LateRule{PerDay: score(t, "50"), Of: OfPoints}, late: Lateness{Days: 3}, earned: "0", points: "10", want: "0"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := tt.rule.Penalty(tt.late, score(t, tt.earned), score(t, tt.points)).String(); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

var lawZones = []string{"UTC", "Europe/Warsaw", "America/New_York", "Australia/Lord_Howe", "Pacific/Apia", "Africa/Casablanca", "America/Santiago"}

func drawSchedule(t *rapid.T) Schedule {
	s := Schedule{
		Zone: zone(t, rapid.SampledFrom(lawZones).Draw(t, "zone")),
		Due:  LocalTime{time.Unix(rapid.Int64Range(1_290_000_000, 1_900_000_000).Draw(t, "due")/60*60, 0).UTC()},
		Rule: LateRule{
			Grace:   time.Duration(rapid.IntRange(0, 3000).Draw(t, "grace")) * time.Minute,
			PerDay:  judge.IntScore(rapid.Int64Range(0, 100).Draw(t, "percent")),
			Of:      rapid.SampledFrom([]LateShare{OfPoints, OfEarned}).Draw(t, "of"),
			MaxDays: rapid.IntRange(AnyDays, 20).Draw(t, "days"),
		},
	}
	if rapid.Bool().Draw(t, "closes") {
		s.Rule.Close = s.Due.add(time.Duration(rapid.IntRange(0, 40000).Draw(t, "close")) * time.Minute)
	}
	return s
}

func TestLaterNeverScoresMore(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := drawSchedule(t)
		points := judge.IntScore(100)
		earned := judge.IntScore(rapid.Int64Range(0, 120).Draw(t, "earned"))
		due := s.Due.In(s.Zone)
		first := due.Add(time.Duration(rapid.IntRange(-100_000, 3_000_000).Draw(t, "first")) * time.Second)
		second := first.Add(time.Duration(rapid.IntRange(0, 3_000_000).Draw(t, "later")) * time.Second)
		a, b := s.Lateness(first), s.Lateness(second)
		pa, pb := s.Rule.Penalty(a, earned, points), s.Rule.Penalty(b, earned, points)
		if pa.Cmp(pb) > 0 || a.Days > b.Days || (a.Refused && !b.Refused) {
			t.Fatalf("%s: %+v costs %s, %s: %+v costs %s", first, a, pa, second, b, pb)
		}
		if pb.Sign() < 0 || pb.Cmp(earned) > 0 {
			t.Fatalf("penalty %s of %s", pb, earned)
		}
		if end := s.LastDue(); !end.IsZero() && second.After(end) != b.Refused {
			t.Fatalf("last due %s, but %s is refused: %t", end, second, b.Refused)
		}
	})
}

func TestExtensionNeverCosts(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := drawSchedule(t)
		longer := s.Extend(s.Due.AddDays(rapid.IntRange(0, 30).Draw(t, "more")))
		received := s.Due.In(s.Zone).Add(time.Duration(rapid.IntRange(-100_000, 6_000_000).Draw(t, "received")) * time.Second)
		before, after := s.Lateness(received), longer.Lateness(received)
		if after.Days > before.Days || (after.Refused && !before.Refused) {
			t.Fatalf("%+v without, %+v with", before, after)
		}
	})
}

func TestRuleYAML(t *testing.T) {
	t.Parallel()
	type file struct {
		Due      LocalTime   `yaml:"due"`
		Late     LateRule    `yaml:"late"`
		Attempts AttemptRule `yaml:"attempts"`
	}
	tests := []struct {
		name, in string
		want     file
		err      string
	}{
		{name: "nothing", in: "{}"},
		{
			name: "everything", in: "due: 2026-03-29T23:59\nlate:\n  grace: 10m\n  per_day: 12.5%\n  of: earned\n  max_days: 3\n  close: 2026-04-05 12:00\nattempts:\n  max: 5\n  interval: 10m\n  per_day: 2\n  counts: best\n",
			want: file{
				Due:      local(t, "2026-03-29T23:59"),
				Late:     LateRule{Grace: 10 * time.Minute, PerDay: score(t, "12.5"), Of: OfEarned, MaxDays: 3, Close: local(t, "2026-04-05T12:00")},
				Attempts: AttemptRule{Max: 5, Interval: 10 * time.Minute, PerDay: 2, Counts: CountBest},
			},
		},
		{name: "any_days", in: "late: {per_day: 10%, max_days: any}", want: file{Late: LateRule{PerDay: score(t, "10"), Of: OfPoints, MaxDays: AnyDays}}},
		{name: "close_is_enough", in: "late: {close: 2026-04-05T12:00}", want: file{Late: LateRule{Of: OfPoints, MaxDays: AnyDays, Close: local(t, "2026-04-05T12:00")}}},
		{name: "grace_alone_accepts_no_day", in: "late: {grace: 5m}", want: file{Late: LateRule{Of: OfPoints, Grace: 5 * time.Minute}}},
		{name: "day_without_time", in: "due: 2026-03-29", err: `line 1: "2026-03-29" is not a date and time`},
		{name: "no_end", in: "late:\n  per_day: 10%", err: "line 2: per_day without max_days: nobody knows when late work ends"},
		{name: "unknown_key", in: "late:\n  per_hour: 10%", err: "line 2: per_hour: the key is not known"},
		{name: "percent_without_sign", in: "late: {per_day: 10, max_days: 1}", err: `line 1: per_day: "10" is not a percentage from 0% to 100%`},
		{name: "too_much", in: "late: {per_day: 101%, max_days: 1}", err: `line 1: per_day: "101%" is not a percentage from 0% to 100%`},
		{name: "grace_without_unit", in: "late: {grace: 10}", err: `line 1: grace: "10" is not a span of time`},
		{name: "not_a_mapping", in: "late: [1]", err: "line 1: keys and values are needed here (key: value)"},
		{name: "a_mapping_as_value", in: "late: {grace: {a: 1}}", err: "line 1: grace: one word or number is needed here"},
		{name: "no_attempts", in: "attempts: {max: 0}", err: `line 1: max: "0" is not a whole number from 1 to 10000`},
		{name: "counting", in: "attempts: {counts: worst}", err: `line 1: counts: "worst" is none of last, best, first`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var got file
			err := yaml.Unmarshal([]byte(tt.in), &got)
			if tt.err != "" {
				if err == nil || err.Error() != tt.err || fault.KindOf(err) != fault.Invalid {
					t.Errorf("error %q (%v), want %q", err, fault.KindOf(err), tt.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			same := cmp.Comparer(func(a, b judge.Score) bool { return a.Cmp(b) == 0 })
			if diff := cmp.Diff(tt.want, got, same, cmp.Comparer(func(a, b LocalTime) bool { return a == b })); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func FuzzRuleYAML(f *testing.F) {
	f.Add([]byte("grace: 10m\nper_day: 10%\nmax_days: 3\nclose: 2026-04-05T12:00"))
	f.Add([]byte("max: 5\ninterval: 10m\nper_day: 2\ncounts: best"))
	f.Add([]byte("2026-03-29T23:59"))
	f.Add([]byte("{grace: 1e999h}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		var due LocalTime
		if yaml.Unmarshal(data, &due) == nil && !due.IsZero() {
			if again, err := ParseLocalTime(due.String()); err != nil || again != due {
				t.Errorf("%s reads as %s, %v", due, again, err)
			}
		}
		var late LateRule
		if yaml.Unmarshal(data, &late) == nil && (late.Grace < 0 || late.PerDay.Sign() < 0 || late.MaxDays < AnyDays) {
			t.Errorf("rule %+v", late)
		}
		var attempts AttemptRule
		if yaml.Unmarshal(data, &attempts) == nil && (attempts.Max < 0 || attempts.Interval < 0 || attempts.PerDay < 0) {
			t.Errorf("rule %+v", attempts)
		}
	})
}

func TestLateRuleInWords(t *testing.T) {
	t.Parallel()
	tests := []struct {
		rule LateRule
		want string
	}{
		{LateRule{}, "no late work"},
		{LateRule{Grace: 10 * time.Minute}, "no late work, 10 minutes of grace"},
		{LateRule{MaxDays: 1, PerDay: score(t, "12.5"), Of: OfEarned}, "late work is accepted for 1 day, each day costs 12.5% of the score"},
		{LateRule{MaxDays: AnyDays, Close: local(t, "2026-04-05T12:00")}, "late work is accepted, closed after 2026-04-05T12:00"},
	}
	for _, tt := range tests {
		if got := tt.rule.String(); got != tt.want {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
}

func TestExtensionMovesTheTimeOfClosing(t *testing.T) {
	t.Parallel()
	s := Schedule{Due: local(t, "2026-05-01T12:00"), Rule: LateRule{MaxDays: AnyDays, Close: local(t, "2026-05-03T10:00")}, Zone: time.UTC}
	longer := s.Extend(local(t, "2026-05-08T14:00"))
	if got, want := longer.Rule.Close.String(), "2026-05-10T12:00"; got != want {
		t.Errorf("closed at %s, want %s", got, want)
	}
	for received, refused := range map[string]bool{"2026-05-10T12:00:00Z": false, "2026-05-10T12:00:01Z": true} {
		if got := longer.Lateness(instant(t, received)); got.Refused != refused || got.Days != 2 {
			t.Errorf("%s: %+v, want refused %t after 2 days", received, got, refused)
		}
	}
	if s.Rule.Close.String() != "2026-05-03T10:00" {
		t.Error("the rule itself was changed")
	}
}
