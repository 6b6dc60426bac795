package judge

import (
	"strings"
	"testing"
)

func points(t *testing.T, text string) *Score {
	t.Helper()
	if text == "" {
		return nil
	}
	s, err := ParseScore(text)
	if err != nil {
		t.Fatal(err)
	}
	return &s
}

// list reads "AC 5, WA 0".
func list(t *testing.T, text string) []member {
	t.Helper()
	var ms []member
	for part := range strings.SplitSeq(text, ",") {
		if w := strings.Fields(part); len(w) == 2 {
			ms = append(ms, member{Verdict(w[0]), *points(t, w[1])})
		}
	}
	return ms
}

func TestDefaultGrader(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		flags   GraderFlags
		members string
		want    string
	}{
		"empty_is_accepted_zero":      {members: "", want: "AC 0"},
		"sum_is_the_default":          {members: "AC 0.1,AC 0.1,AC 0.1", want: "AC 0.3"},
		"avg":                         {flags: GraderFlags{Score: AvgScore}, members: "AC 1,AC 0,AC 0", want: "AC 0.333333333"},
		"min":                         {flags: GraderFlags{Score: MinScore}, members: "AC 13,AC 7,AC 9", want: "AC 7"},
		"max":                         {flags: GraderFlags{Score: MaxScore}, members: "AC 13,AC 27,AC 9", want: "AC 27"},
		"negative_scores":             {flags: GraderFlags{Score: MaxScore}, members: "AC -3,AC -2", want: "AC -2"},
		"worst_error":                 {members: "WA 0,TLE 0,RE 0,AC 1", want: "RE 1"},
		"worst_of_time_and_memory":    {members: "TLE 0,MLE 0", want: "MLE 0"},
		"worst_of_output_and_wrong":   {members: "WA 0,OLE 0", want: "OLE 0"},
		"first_error":                 {flags: GraderFlags{Verdict: FirstError}, members: "AC 1,WA 0,RE 0", want: "WA 1"},
		"always_accept":               {flags: GraderFlags{Verdict: AlwaysAccept}, members: "WA 0,RE 2", want: "AC 2"},
		"any_accepted":                {flags: GraderFlags{AcceptIfAnyAccepted: true}, members: "WA 0,AC 5", want: "AC 5"},
		"any_accepted_but_none_is":    {flags: GraderFlags{AcceptIfAnyAccepted: true, Verdict: FirstError}, members: "WA 0,TLE 0", want: "WA 0"},
		"ignore_sample":               {flags: GraderFlags{IgnoreSample: true}, members: "WA 50,AC 40", want: "AC 40"},
		"ignore_sample_alone_is_kept": {flags: GraderFlags{IgnoreSample: true}, members: "AC 40", want: "AC 40"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := defaultGrade(tt.flags, list(t, tt.members))
			if text := string(got.verdict) + " " + got.score.String(); text != tt.want {
				t.Errorf("defaultGrade = %s, want %s", text, tt.want)
			}
		})
	}
}

func TestRuledGroup(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		rules   GroupRules
		members string
		missing bool
		want    string
		fails   string
	}{
		"pass_fail_all":           {rules: GroupRules{Aggregation: PassFail, Max: points(t, "40")}, members: "AC 0,AC 0", want: "AC 40"},
		"pass_fail_is_default":    {rules: GroupRules{Max: points(t, "40")}, members: "AC 0", want: "AC 40"},
		"pass_fail_one_wrong":     {rules: GroupRules{Max: points(t, "40")}, members: "AC 0,WA 0", want: "WA 0"},
		"pass_fail_not_all_run":   {rules: GroupRules{Max: points(t, "40")}, members: "AC 0", missing: true, want: "SK 0"},
		"pass_fail_without_score": {rules: GroupRules{}, members: "AC 0", want: "AC 0"},
		"sum":                     {rules: GroupRules{Aggregation: SumScore, Max: points(t, "10")}, members: "AC 2.5,TLE 0,AC 2.5", want: "TLE 5"},
		"min":                     {rules: GroupRules{Aggregation: MinScore, Max: points(t, "10")}, members: "AC 10,AC 2.5", want: "AC 2.5"},
		"min_not_all_run":         {rules: GroupRules{Aggregation: MinScore, Max: points(t, "10")}, members: "AC 10", missing: true, want: "SK 0"},
		"min_unbounded":           {rules: GroupRules{Aggregation: MinScore}, members: "AC 1e9,AC 2e9", want: "AC 1000000000"},
		"above_the_maximum":       {rules: GroupRules{Aggregation: SumScore, Max: points(t, "10")}, members: "AC 6,AC 6", fails: "above"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := ruled(tt.rules, list(t, tt.members), tt.missing)
			if tt.fails != "" {
				if err == nil || !strings.Contains(err.Error(), tt.fails) {
					t.Fatalf("ruled = %v, %v, want an error with %q", got, err, tt.fails)
				}
				return
			}
			if text := string(got.verdict) + " " + got.score.String(); err != nil || text != tt.want {
				t.Errorf("ruled = %s, %v, want %s", text, err, tt.want)
			}
		})
	}
}

// The list of judge errors of the 2025-09 format, and what is none.
func TestCaseScore(t *testing.T) {
	t.Parallel()
	accepted := func(score, multiplier string) Check {
		return Check{Outcome: CheckAccepted, Score: points(t, score), Multiplier: points(t, multiplier)}
	}
	rejected := func(score, multiplier string) Check {
		return Check{Outcome: CheckRejected, Score: points(t, score), Multiplier: points(t, multiplier)}
	}
	tests := map[string]struct {
		check  Check
		max    string
		scored bool
		want   string
		wrong  string
	}{
		"nothing_written":               {check: accepted("", ""), max: "7", scored: true, want: "7"},
		"score":                         {check: accepted("3.5", ""), max: "7", scored: true, want: "3.5"},
		"multiplier":                    {check: accepted("", "0.5"), max: "7", scored: true, want: "3.5"},
		"score_equal_to_maximum":        {check: accepted("7", ""), max: "7", scored: true, want: "7"},
		"unbounded":                     {check: accepted("123456", ""), scored: true, want: "123456"},
		"rejected":                      {check: rejected("", ""), max: "7", scored: true, want: "0"},
		"pass_fail_group":               {check: accepted("", ""), want: "0"},
		"rejected_with_score":           {check: rejected("0", ""), max: "7", scored: true, wrong: "did not accept"},
		"rejected_with_multiplier":      {check: rejected("", "0"), max: "7", scored: true, wrong: "did not accept"},
		"both":                          {check: accepted("1", "1"), max: "7", scored: true, wrong: "both"},
		"above_maximum":                 {check: accepted("7.000000001", ""), max: "7", scored: true, wrong: "at most 7"},
		"negative":                      {check: accepted("-1", ""), max: "7", scored: true, wrong: "out of range"},
		"multiplier_above_one":          {check: accepted("", "1.1"), max: "7", scored: true, wrong: "out of range"},
		"multiplier_negative":           {check: accepted("", "-0.1"), max: "7", scored: true, wrong: "out of range"},
		"multiplier_unbounded":          {check: accepted("", "0.5"), scored: true, wrong: "without a maximum"},
		"no_score_unbounded":            {check: accepted("", ""), scored: true, wrong: "no score.txt"},
		"score_in_pass_fail_group":      {check: accepted("1", ""), wrong: "pass-fail"},
		"multiplier_in_pass_fail_group": {check: accepted("", "1"), wrong: "pass-fail"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, wrong := caseScore(tt.check.Outcome == CheckAccepted, tt.check, points(t, tt.max), tt.scored)
			if tt.wrong != "" {
				if !strings.Contains(wrong, tt.wrong) {
					t.Errorf("caseScore says %q, want %q in it", wrong, tt.wrong)
				}
				return
			}
			if wrong != "" || got.String() != tt.want {
				t.Errorf("caseScore = %s %q, want %s", got, wrong, tt.want)
			}
		})
	}
}

func TestCasePoints(t *testing.T) {
	t.Parallel()
	p := Problem{
		Groups: []Group{
			{Parent: -1},
			{Name: "secret/sum", Parent: 0, Static: &StaticCase{Score: points(t, "10")}, Rules: &GroupRules{Aggregation: SumScore, Max: points(t, "40")}},
			{Name: "secret/min", Parent: 0, Rules: &GroupRules{Aggregation: MinScore, Max: points(t, "60")}},
			{Name: "secret/all", Parent: 0, Rules: &GroupRules{Max: points(t, "5")}},
		},
		Cases: []Case{{Group: 1}, {Group: 1}, {Group: 1}, {Group: 2}, {Group: 3}, {Group: 1, Points: points(t, "3")}},
	}
	tree, err := newTree(p)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"7.5", "7.5", "7.5", "60", "unscored", "3"} {
		got, scored := tree.casePoints(p.Cases[i])
		text := "unscored"
		if scored {
			text = got.String()
		}
		if text != want {
			t.Errorf("case %d can get %s, want %s", i, text, want)
		}
	}
}

func TestNewTreeOrdersMembers(t *testing.T) {
	t.Parallel()
	p := Problem{
		Groups: []Group{{Parent: -1}, {Name: "sample", Parent: 0}, {Name: "secret", Parent: 0}, {Name: "secret/a", Parent: 2}, {Name: "secret/empty", Parent: 2}},
		Cases:  []Case{{Group: 1}, {Group: 2}, {Group: 3}, {Group: 2}},
	}
	tree, err := newTree(p)
	if err != nil {
		t.Fatal(err)
	}
	want := [][]int{{-2, -3}, {0}, {1, -4, 3, -5}, {2}, nil}
	for g := range want {
		if len(tree.members[g]) != len(want[g]) {
			t.Fatalf("members of %d are %v, want %v", g, tree.members[g], want[g])
		}
		for i := range want[g] {
			if tree.members[g][i] != want[g][i] {
				t.Errorf("members of %d are %v, want %v", g, tree.members[g], want[g])
			}
		}
	}
	for name, groups := range map[string][]Group{
		"parent_after_child": {{Parent: -1}, {Parent: 2}, {Parent: 0}},
		"two_roots":          {{Parent: -1}, {Parent: -1}},
		"requires_itself":    {{Parent: -1}, {Parent: 0, Rules: &GroupRules{Require: []int{1}}}},
		"requires_nothing":   {{Parent: -1}, {Parent: 0, Rules: &GroupRules{Require: []int{7}}}},
	} {
		if _, err := newTree(Problem{Groups: groups}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestParseGrade(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"AC 12.5\n": "AC 12.5", " RTE 0 ": "RE 0", "WA -3": "WA -3", "MLE 0": "MLE 0",
		"": "", "AC": "", "XX 1": "", "AC 1\nAC 2": "", "AC one": "", "AC 1 2": "", "AC 1e999": "",
	} {
		got, err := parseGrade(text)
		if want == "" {
			if err == nil {
				t.Errorf("parseGrade(%q) = %v, want an error", text, got)
			}
			continue
		}
		if s := string(got.verdict) + " " + got.score.String(); err != nil || s != want {
			t.Errorf("parseGrade(%q) = %s, %v, want %s", text, s, err, want)
		}
	}
}

func TestScoreText(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"100": "100", "0.10": "0.1", "-0": "0", ".5": "0.5", "5.": "5", "1e2": "100", "1.5E-2": "0.015", "+3": "3",
		"1e61": "", "nan": "", "inf": "", "0x10": "", "1_000": "", "1e": "", "": "", " 1": "", "1/3": "", strings.Repeat("9", 65): "",
	} {
		got, err := ParseScore(text)
		if (err != nil) != (want == "") || err == nil && got.String() != want {
			t.Errorf("ParseScore(%q) = %s, %v, want %q", text, got, err, want)
		}
	}
	third := IntScore(1).Over(3)
	if sum := third.Add(third).Add(third); sum.Cmp(IntScore(1)) != 0 {
		t.Errorf("three thirds are %s", sum)
	}
}

func FuzzParseScore(f *testing.F) {
	for _, s := range []string{"1", "-0.5", "1e60", ".5", "5.", "1e-60", "9999999999999999"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := ParseScore(text)
		if err != nil {
			return
		}
		again, err := ParseScore(s.String())
		if err != nil {
			t.Skip("more digits than are written")
		}
		if d := again.Sub(s); d.Mul(d).Cmp(IntScore(1)) >= 0 {
			t.Errorf("%q reads back as %s", text, again)
		}
	})
}
