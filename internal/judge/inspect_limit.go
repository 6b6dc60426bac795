package judge

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"assay/internal/fault"
)

// TimeBound is what the slowest of some cases says about the time limit.
type TimeBound struct {
	// Upper says that the program must exceed the limit there; else it must stay
	// inside.
	Upper bool
	// Cases are indexes in Problem.Cases; nil is all.
	Cases []int
}

// Limit is the time limit that follows from the slowest run that must stay
// inside it: the smallest multiple of Resolution that leaves it AcceptFactor,
// and at least one Resolution.
func (i Inference) Limit(slowest time.Duration) time.Duration {
	step := i.Resolution
	if step <= 0 {
		step = time.Second
	}
	need := time.Duration(float64(slowest) * i.AcceptFactor)
	return max(1, (need+step-1)/step) * step
}

// Slowest is the most CPU time of the cases of a bound, in the measure of the
// problem: a language that is given more time has it divided out. atLeast says
// that its run was ended there.
func (b TimeBound) Slowest(p Problem, r Run) (slowest time.Duration, atLeast bool) {
	for i, c := range r.Cases {
		if b.Cases != nil && !slices.Contains(b.Cases, i) {
			continue
		}
		t := time.Duration(c.TimeUS) * time.Microsecond
		if r.Limits.CPUUS > 0 {
			t = time.Duration(float64(t) * float64(p.Limits.CPU.Microseconds()) / float64(r.Limits.CPUUS))
		}
		slowest = max(slowest, t)
		// A program that waits for ever uses no time and has no end either.
		atLeast = atLeast || c.TimeAtLeast || c.Verdict == TimeLimitExceeded
	}
	return slowest, atLeast
}

// FoundLimit is a time limit and what it was found from.
type FoundLimit struct {
	Limit time.Duration
	// Slowest is the time of the submission By, of Used that were measured.
	Slowest time.Duration
	By      string
	Used    int
}

// FindLimit finds the time limit of a problem that gives none, from the jobs
// that must stay inside it: they are judged with at most the time given, which
// is above any limit that may come of it. Errors are those of Run; Invalid also
// when nothing says what the limit is, or one of them does not end.
func (j *Judge) FindLimit(ctx context.Context, p Problem, jobs []Job, most time.Duration, m Many) (FoundLimit, error) {
	if p.Inference == nil {
		return FoundLimit{}, fault.Errorf(fault.Invalid, "problem %s has no time limit", p.ShortName).WithHint("give one with --time-limit")
	}
	p.Limits.CPU, p.Limits.Wall = most, 0
	var lower []Job
	var at []int // where they are in jobs
	some := false
	for i, job := range jobs {
		inside := func(b TimeBound) bool { return !b.Upper }
		if slices.ContainsFunc(job.Bounds, inside) {
			job.Bounds = slices.DeleteFunc(slices.Clone(job.Bounds), func(b TimeBound) bool { return b.Upper })
			some = some || slices.ContainsFunc(job.Bounds, func(b TimeBound) bool { return b.Cases != nil })
			// Only its times are asked for now.
			job.Expectation = Expectation{}
			lower, at = append(lower, job), append(at, i)
		}
	}
	if len(lower) == 0 {
		return FoundLimit{}, fault.Errorf(fault.Invalid, "problem %s gives no time limit, and no submission to find it from", p.ShortName).
			WithHint("give one with --time-limit, or an accepted submission to the package")
	}
	var found FoundLimit
	done, observe := m.Done, m.Observe
	if observe != nil {
		m.Observe = func(i int, e Event) { observe(at[i], e) }
	}
	m.Lenient = true
	m.Done = func(i int, r Run) error {
		if done != nil {
			if err := done(at[i], r); err != nil {
				return err
			}
		}
		if r.Verdict == Skipped || r.Verdict == CompileError || r.Verdict == JudgeError {
			return nil // That is told when it is held against its label.
		}
		found.Used++
		for _, b := range lower[i].Bounds {
			t, atLeast := b.Slowest(p, r)
			if atLeast {
				return fault.Errorf(fault.Invalid, "no time limit can be found: %s took more than %s", r.Submission.Name, secondsText(most)).
					WithHint("mend the submission, or give a limit with --time-limit")
			}
			if t > found.Slowest || found.By == "" {
				found.Slowest, found.By = t, r.Submission.Name
			}
		}
		return nil
	}
	with := j
	if some {
		with = j.allCases()
	}
	if err := with.RunMany(ctx, p, lower, m); err != nil {
		return FoundLimit{}, err
	}
	if found.Used == 0 {
		return FoundLimit{}, fault.Errorf(fault.Invalid, "no time limit can be found: none of the %d submissions that must stay inside it could be judged", len(lower)).
			WithHint("see what \"assay judge\" says of them with --time-limit")
	}
	found.Limit = p.Inference.Limit(found.Slowest)
	return found, nil
}

// Margins holds the limit of a problem against the run of a job that was judged
// by it, and says which margin of the format it does not leave. A job that must
// exceed the limit is run once more, with the limit it must still exceed; that
// run's errors are those of Run. A limit that was not left out may be as its
// authors want it: then these are warnings.
func (j *Judge) Margins(ctx context.Context, p Problem, job Job, r Run, found bool, observe Observer) ([]Finding, error) {
	if p.Inference == nil || r.Verdict == Skipped || r.Verdict == CompileError || r.Verdict == JudgeError {
		return nil, nil
	}
	limit := p.Limits.CPU
	var list []Finding
	for _, b := range job.Bounds {
		t, endless := b.Slowest(p, r)
		need := time.Duration(float64(t) * p.Inference.AcceptFactor)
		switch {
		case !b.Upper && !endless && need > limit && !found:
			list = append(list, Finding{Where: r.Submission.Name, Text: fmt.Sprintf(
				"takes %s, which times %g is more than the time limit of %s", secondsText(t), p.Inference.AcceptFactor, secondsText(limit))})
		case b.Upper && endless:
			exceeds, err := j.exceeds(ctx, p, job, b, r, observe)
			if err != nil {
				return nil, err
			}
			if !exceeds {
				list = append(list, Finding{Wrong: found, Where: r.Submission.Name, Text: fmt.Sprintf(
					"ends within %s, %g times the time limit", secondsText(time.Duration(float64(limit)*p.Inference.RejectFactor)), p.Inference.RejectFactor)})
			}
		}
	}
	return list, nil
}

// MarginsOf calls Margins for each job that has a run in runs, side by side, and
// gives all findings in the order of the jobs. The first error ends all.
func (j *Judge) MarginsOf(ctx context.Context, p Problem, jobs []Job, runs map[int]Run, found bool, m Many) ([]Finding, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var mu sync.Mutex
	var first error
	lists := make([][]Finding, len(jobs))
	slots := make(chan struct{}, max(1, m.AtOnce))
	var workers sync.WaitGroup
	for i, job := range jobs {
		r, ok := runs[i]
		if !ok {
			continue
		}
		slots <- struct{}{}
		workers.Go(func() {
			defer func() { <-slots }()
			list, err := j.Margins(ctx, p, job, r, found, func(e Event) {
				mu.Lock()
				defer mu.Unlock()
				if m.Observe != nil {
					m.Observe(i, e)
				}
			})
			mu.Lock()
			defer mu.Unlock()
			lists[i] = list
			if err != nil && first == nil {
				first = err
				cancel(err)
			}
		})
	}
	workers.Wait()
	return slices.Concat(lists...), first
}

// exceeds runs the cases that took too long with the larger limit: one of them
// must take too long then, too.
func (j *Judge) exceeds(ctx context.Context, p Problem, job Job, b TimeBound, r Run, observe Observer) (bool, error) {
	if p.Inference.RejectFactor <= 1 {
		return true, nil
	}
	var slow []Case
	for i, c := range r.Cases {
		if c.Verdict == TimeLimitExceeded && (b.Cases == nil || slices.Contains(b.Cases, i)) && i < len(p.Cases) {
			k := p.Cases[i]
			k.Group = 0
			slow = append(slow, k)
		}
	}
	p.Limits.CPU = time.Duration(float64(p.Limits.CPU) * p.Inference.RejectFactor)
	p.Limits.Wall = 0
	p.Cases, p.Groups, p.Scoring, p.StaticValidator = slow, nil, false, nil
	run, err := j.Run(ctx, p, job.Submission, observe)
	if err == nil && run.Verdict != TimeLimitExceeded && len(slow) > 1 {
		run, err = j.allCases().Run(ctx, p, job.Submission, observe)
	}
	if err != nil {
		return false, fmt.Errorf("judge %s: %w", job.Submission.Name, err)
	}
	return slices.ContainsFunc(run.Cases, func(c CaseResult) bool { return c.Verdict == TimeLimitExceeded }), nil
}
