package bench

import (
	"strings"
	"testing"

	"assay/internal/judge"
)

func TestSummaryListsWhatChanged(t *testing.T) {
	t.Parallel()
	const ac, tle = judge.Accepted, judge.TimeLimitExceeded
	run := func(v judge.Verdict, us int64) judge.Run {
		return judge.Run{Verdict: v, TimeUS: us, Cases: []judge.CaseResult{{Disturbed: 1, KnifeEdge: v == tle}}}
	}
	all := []Judged{
		{Submission: "calm", Want: ac, language: "c"},
		{Submission: "changed", Want: ac, language: "c"},
		{Submission: "sure and wrong", Want: ac, language: "python3"},
	}
	var r StabilityReport
	for i, runs := range [][]judge.Run{
		{run(ac, 200), run(ac, 210), run(ac, 190)},
		{run(ac, 100), run(tle, 150), run(ac, 100)},
		{run(tle, 300), run(tle, 300), run(tle, 330)},
	} {
		for _, one := range runs {
			r.take(&all[i], one)
		}
	}
	r.summarize(all)
	if len(r.Changed) != 1 || r.Changed[0].Submission != "changed" {
		t.Errorf("changed: %+v", r.Changed)
	}
	if len(r.Unexpected) != 1 || r.Unexpected[0].Submission != "sure and wrong" {
		t.Errorf("unexpected: %+v", r.Unexpected)
	}
	if r.Repeated != 9 || r.KnifeEdge != 4 {
		t.Errorf("%d repeated, %d at the knife edge", r.Repeated, r.KnifeEdge)
	}
	want := []TimeSpread{
		{Language: "c", Submissions: 2, Runs: 6, P50US: 190, P99: 1.5, Worst: 1.5},
		{Language: "python3", Submissions: 1, Runs: 3, P50US: 300, P99: 1.1, Worst: 1.1},
	}
	for i, w := range want {
		if i >= len(r.Spread) || r.Spread[i] != w {
			t.Errorf("spread %+v, want %+v", r.Spread, w)
		}
	}
	if len(r.Kinds) != 2 || r.Kinds[0].Submissions != 2 || r.Kinds[0].Verdicts[ac] != 5 || r.Kinds[1].Verdicts[tle] != 3 {
		t.Errorf("kinds: %+v", r.Kinds)
	}
}

func TestRoundsTakeTheirShareOfTheLimit(t *testing.T) {
	t.Parallel()
	s := speed{baseUS: 20_000, eachUS: 0.1}
	for share, want := range map[float64]int64{0.2: 1_800_000, 0.5: 4_800_000, 1.3: 12_800_000, 0.02: 1, 0.01: 1} {
		if got := s.rounds(share); got != want {
			t.Errorf("share %v: %d rounds, want %d", share, got, want)
		}
	}
}

// Every kind has a program in every language, and no two submissions are equal.
func TestSubmissionsOfAllKinds(t *testing.T) {
	t.Parallel()
	languages, err := judge.DefaultLanguages()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for i, k := range kinds {
		for _, id := range StabilityLanguages {
			for range 2 {
				s := submissionOf(len(seen), id, k, 12345)
				text := string(s.Files[0].Data)
				if found, err := languages.Detect(s.Files); err != nil || found.ID != id {
					t.Errorf("%s: found %s, %v", s.Name, found.ID, err)
				}
				if k.then[id] == "" || !strings.Contains(text, k.then[id]) || !strings.Contains(text, "12345") || strings.Contains(text, "%!") {
					t.Errorf("kind %d in %s:\n%s", i, id, text)
				}
				if seen[s.Digest()] {
					t.Errorf("%s is made twice", s.Name)
				}
				seen[s.Digest()] = true
			}
		}
	}
}
