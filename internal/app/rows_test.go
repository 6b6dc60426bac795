package app

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"assay/internal/judge"
	"assay/internal/judge/checker"
)

// The rows of other judges' faults that are about figures, not only verdicts;
// those about verdicts are packages in testdata/rows.

// rowJudge gives a judge and a problem whose output is to be "ok".
func rowJudge(t *testing.T, limits judge.ProblemLimits) (*judge.Judge, judge.Problem) {
	t.Helper()
	j, err := withJudge(t).Judge(judge.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return j, judge.Problem{
		ShortName: "rows", Name: "Rows", Version: "sha256:rows", Checker: checker.Default{}, Limits: limits,
		Cases: []judge.Case{{Name: "secret/1", Input: judge.BytesBlob("1.in", nil), Answer: judge.BytesBlob("1.ans", []byte("ok\n"))}},
	}
}

func cSource(text string) judge.Submission {
	return judge.Submission{Name: "row.c", Language: "c", Files: []judge.SourceFile{{Name: "row.c", Data: []byte(text)}}}
}

// Row 7: a limit that is not a whole number of seconds is kept as it is.
func TestRowTimeLimitOfOneAndAHalf(t *testing.T) {
	const limit = 1500 * time.Millisecond
	j, p := rowJudge(t, judge.ProblemLimits{CPU: limit})
	run, err := j.Run(t.Context(), p, cSource("int main(void) { for (volatile int i = 0;; i++); }"), nil)
	if err != nil {
		t.Fatal(err)
	}
	c := run.Cases[0]
	if run.Verdict != judge.TimeLimitExceeded || c.TimeUS != limit.Microseconds() || !c.TimeAtLeast {
		t.Errorf("%s after %d us, want TLE at %v", run.Verdict, c.TimeUS, limit)
	}
	// A run at the edge is measured a tenth beyond the limit, and no further
	// than one look of the host's.
	if most := limit*11/10 + 200*time.Millisecond; c.Usage.Counted < limit || c.Usage.Counted > most {
		t.Errorf("ended at %v, want %v to %v", c.Usage.Counted, limit, most)
	}
}

// Row 67: the same program takes the same memory, where it holds it for longer
// than the watch looks away. Which metric that is stands in docs/fairness.md.
func TestRowMemoryOfTheSameProgram(t *testing.T) {
	j, p := rowJudge(t, judge.ProblemLimits{CPU: 2 * time.Second})
	for i := range 19 {
		c := p.Cases[0]
		c.Name = fmt.Sprintf("secret/%d", i+2)
		p.Cases = append(p.Cases, c)
	}
	const source = `#include <stdio.h>
#include <stdlib.h>
int main(void) {
    int n = 32 << 20;
    volatile char *p = malloc(n);
    for (int i = 0; i < n; i += 512) p[i] = 1;
    for (volatile int i = 0; i < 60000000; i++);
    puts("ok");
    return 0;
}`
	run, err := j.Run(t.Context(), p, cSource(source), nil)
	if err != nil || run.Verdict != judge.Accepted {
		t.Fatalf("%s %s, %v", run.Verdict, run.Reason, err)
	}
	var all []int64
	for _, c := range run.Cases {
		all = append(all, c.MemoryBytes)
	}
	least, most := slices.Min(all), slices.Max(all)
	if most-least > least/20 || least < 32<<20 || most > 36<<20 {
		t.Errorf("20 runs took %d to %d bytes, want 32 MiB and a little, all within 5 %%", least, most)
	}
}

// Row 70: files are written and run at the same time without "text file busy".
func TestRowManyCompileAtOnce(t *testing.T) {
	j, p := rowJudge(t, judge.ProblemLimits{CPU: 5 * time.Second})
	jobs := make([]judge.Job, 24)
	for i := range jobs {
		jobs[i].Submission = cSource(fmt.Sprintf("#include <stdio.h>\n// %d\nint main(void) { puts(\"ok\"); return 0; }\n", i))
	}
	var mu sync.Mutex
	err := j.RunMany(t.Context(), p, jobs, judge.Many{AtOnce: 8, Done: func(i int, r judge.Run) error {
		mu.Lock()
		defer mu.Unlock()
		if r.Verdict != judge.Accepted || len(r.Retries) > 0 {
			t.Errorf("submission %d: %s %s %v", i, r.Verdict, r.Reason, r.Retries)
		}
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
}
