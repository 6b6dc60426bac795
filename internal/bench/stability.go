package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"assay/internal/fault"
	"assay/internal/judge"
)

// StabilityOptions say how much to judge.
type StabilityOptions struct {
	// Submissions is how many are made, and Times how often each is judged; at
	// least 1 and 2. AtOnce is how many at the same time, at least 1.
	Submissions, Times, AtOnce int
	// Stage and Step are as in CalibrateOptions.
	Stage func(name string)
	Step  func(done, total int64)
}

// Judged is one submission and all its verdicts, in order.
type Judged struct {
	Submission string          `json:"submission"`
	Want       judge.Verdict   `json:"want"`
	Verdicts   []judge.Verdict `json:"verdicts"`
	Reasons    []string        `json:"reasons,omitempty"`
	// TimesUS are the times of the runs, in microseconds.
	TimesUS []float64 `json:"times_us"`

	language string
	kind     int
}

// KindCount counts the verdicts of the submissions of one kind and language.
type KindCount struct {
	Kind        string                `json:"kind"`
	Language    string                `json:"language"`
	Submissions int                   `json:"submissions"`
	Verdicts    map[judge.Verdict]int `json:"verdicts"`
	Want        judge.Verdict         `json:"want"`
}

// TimeSpread is how the times of the 200 ms programs of a language differ.
type TimeSpread struct {
	Language    string `json:"language"`
	Submissions int    `json:"submissions"`
	Runs        int    `json:"runs"`
	// P50US is the median of all runs, in microseconds.
	P50US float64 `json:"p50_us"`
	// P99 is the p99 of a run's time by the median of its submission; Worst is
	// the largest p99 / p50 that one submission has.
	P99   float64 `json:"p99"`
	Worst float64 `json:"worst"`
	// NativeRuns are as many runs of such a program on the host, as many at once,
	// turn by turn with the judge's; NativeP99 is their p99 by their median. Both
	// are 0 where the host has no compiler or interpreter for the language.
	NativeRuns int     `json:"native_runs,omitempty"`
	NativeP99  float64 `json:"native_p99,omitempty"`
}

// StabilityReport is what judging the same again and again gave.
type StabilityReport struct {
	Host        judge.HostInfo `json:"host"`
	Submissions int            `json:"submissions"`
	Times       int            `json:"times"`
	AtOnce      int            `json:"at_once"`
	TookUS      int64          `json:"took_us"`
	Kinds       []KindCount    `json:"kinds"`
	// Changed had more than one verdict. Unexpected had always the same, which is
	// not the one it was made for.
	Changed    []Judged     `json:"changed"`
	Unexpected []Judged     `json:"unexpected"`
	Spread     []TimeSpread `json:"spread"`
	// Repeated counts runs that the judge threw away as disturbed, KnifeEdge the
	// cases that it judged more than once for their time.
	Repeated  int `json:"repeated"`
	KnifeEdge int `json:"knife_edge"`
}

// Stability makes submissions whose verdict is known, judges all of them again
// and again side by side, and reports what changed. A verdict that changed is
// a result, not an error; errors are those of judge.Judge.Run, and Internal for
// a program of ours that is not accepted.
func Stability(ctx context.Context, j *judge.Judge, o StabilityOptions) (_ StabilityReport, err error) {
	stage := func(name string) {
		if o.Stage != nil {
			o.Stage(name)
		}
	}
	stage("find how fast this host is")
	speeds := map[string]speed{}
	for _, language := range StabilityLanguages {
		s, err := speedOf(ctx, j, language)
		if err != nil {
			return StabilityReport{}, err
		}
		speeds[language] = s
	}
	all := make([]Judged, o.Submissions)
	jobs := make([]judge.Job, o.Submissions)
	for i := range all {
		language := StabilityLanguages[i%len(StabilityLanguages)]
		at := i / len(StabilityLanguages) % len(kinds)
		jobs[i].Submission = submissionOf(i+1, language, kinds[at], speeds[language].rounds(kinds[at].share))
		all[i] = Judged{Submission: jobs[i].Submission.Name, Want: kinds[at].want, language: language, kind: at}
	}
	native, err := newNativeRuns(ctx, speeds)
	if err != nil {
		return StabilityReport{}, err
	}
	defer func() { err = errors.Join(err, native.close()) }()
	compared := 0 // submissions of one language whose times are compared
	for _, one := range all {
		if one.kind == spreadKind && one.language == StabilityLanguages[0] {
			compared++
		}
	}
	out := StabilityReport{Host: j.Options().Host, Submissions: o.Submissions, Times: o.Times, AtOnce: o.AtOnce}
	begin := time.Now()
	var done int64
	for round := range o.Times {
		stage(fmt.Sprintf("round %d of %d", round+1, o.Times))
		err := j.RunMany(ctx, double(stabilityLimit), jobs, judge.Many{AtOnce: o.AtOnce, Done: func(i int, r judge.Run) error {
			out.take(&all[i], r)
			if done++; o.Step != nil {
				o.Step(done, int64(o.Submissions)*int64(o.Times))
			}
			return nil
		}})
		if err == nil {
			err = native.run(ctx, compared, o.AtOnce)
		}
		if err != nil {
			return StabilityReport{}, err
		}
	}
	out.TookUS = time.Since(begin).Microseconds()
	out.summarize(all)
	for i, s := range out.Spread {
		out.Spread[i].NativeRuns, out.Spread[i].NativeP99 = native.spread(s.Language)
	}
	return out, nil
}

// take adds a run to its submission.
func (s *StabilityReport) take(to *Judged, r judge.Run) {
	to.Verdicts = append(to.Verdicts, r.Verdict)
	to.Reasons = append(to.Reasons, r.Reason)
	to.TimesUS = append(to.TimesUS, float64(r.TimeUS))
	for _, c := range r.Cases {
		s.Repeated += c.Disturbed
		if c.KnifeEdge {
			s.KnifeEdge++
		}
	}
}

func (s *StabilityReport) summarize(all []Judged) {
	s.Kinds, s.Changed, s.Unexpected, s.Spread = []KindCount{}, []Judged{}, []Judged{}, []TimeSpread{}
	for at, k := range kinds {
		for _, language := range StabilityLanguages {
			row := KindCount{Kind: k.name, Language: language, Want: k.want, Verdicts: map[judge.Verdict]int{}}
			for _, one := range all {
				if one.kind == at && one.language == language {
					row.Submissions++
					for _, v := range one.Verdicts {
						row.Verdicts[v]++
					}
				}
			}
			if row.Submissions > 0 {
				s.Kinds = append(s.Kinds, row)
			}
		}
	}
	for _, one := range all {
		switch {
		case len(one.Verdicts) == 0:
		case slices.ContainsFunc(one.Verdicts, func(v judge.Verdict) bool { return v != one.Verdicts[0] }):
			s.Changed = append(s.Changed, one)
		case one.Verdicts[0] != one.Want:
			s.Unexpected = append(s.Unexpected, one)
		}
	}
	for _, language := range StabilityLanguages {
		if t := spreadOf(all, language); t.Runs > 0 {
			s.Spread = append(s.Spread, t)
		}
	}
}

// spreadOf compares the times of each short program with its own median.
func spreadOf(all []Judged, language string) TimeSpread {
	t := TimeSpread{Language: language}
	var times, relative []float64
	for _, one := range all {
		if one.kind != spreadKind || one.language != language || len(one.TimesUS) == 0 {
			continue
		}
		sorted := slices.Sorted(slices.Values(one.TimesUS))
		median := percentile(sorted, 0.50)
		t.Submissions++
		t.Worst = max(t.Worst, ratio(percentile(sorted, 0.99), median))
		for _, us := range sorted {
			times, relative = append(times, us), append(relative, ratio(us, median))
		}
	}
	slices.Sort(times)
	slices.Sort(relative)
	t.Runs, t.P50US, t.P99 = len(times), percentile(times, 0.50), percentile(relative, 0.99)
	return t
}

// speed is what a language's program costs by itself and for each round.
type speed struct{ baseUS, eachUS float64 }

// rounds are those that take a share of the limit.
func (s speed) rounds(share float64) int64 {
	return max(int64((share*float64(stabilityLimit.Microseconds())-s.baseUS)/s.eachUS), 1)
}

// probeTimes is how often a speed is measured; the fastest counts.
const probeTimes = 3

// speedOf measures how many rounds a program makes, in the judge's own machines.
func speedOf(ctx context.Context, j *judge.Judge, language string) (speed, error) {
	measure := func(rounds int64) (float64, error) {
		best := 0.0
		for range probeTimes {
			run, err := j.Run(ctx, double(60*time.Second), submissionOf(0, language, kinds[spreadKind], rounds), nil)
			if err == nil && run.Verdict != judge.Accepted {
				err = fault.Errorf(fault.Internal, "the %s program is judged %s: %s", language, run.Verdict, run.Reason)
			}
			if err != nil {
				return 0, err
			}
			if us := float64(run.TimeUS); best == 0 || us < best {
				best = us
			}
		}
		return best, nil
	}
	base, err := measure(1)
	if err != nil {
		return speed{}, err
	}
	rounds := int64(1_000_000)
	for { // until it is long enough to be told from the base
		us, err := measure(rounds)
		if err != nil {
			return speed{}, err
		}
		if each := (us - base) / float64(rounds); us-base > 100e3 {
			return speed{baseUS: base, eachUS: each}, nil
		}
		rounds *= 4
	}
}
