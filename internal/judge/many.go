package judge

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"assay/internal/fault"
)

// Job is one submission of many, and what it must do.
type Job struct {
	Submission  Submission
	Expectation Expectation
	// Bounds are what its run times say about the time limit; none means that it
	// is not used for that.
	Bounds []TimeBound
}

// Many is how jobs are judged side by side.
type Many struct {
	// AtOnce is how many are judged at the same time, at least 1. More than the
	// host has cores only wait for each other.
	AtOnce int
	// Lenient gives a job that makes no sense here (an unknown language, a limit
	// no machine has) the verdict SK with the reason, where it else ends all.
	Lenient bool
	// Observe, when not nil, gets the events of job i. It is called by one
	// goroutine at a time and must be quick.
	Observe func(i int, e Event)
	// Done gets the run of each job, in the order of the jobs, by one goroutine at
	// a time. Its error ends all.
	Done func(i int, r Run) error
}

// aheadOf is how many jobs for each one at work may be finished and wait for
// one before them: what they wait with is in memory.
const aheadOf = 8

// RunMany judges jobs side by side. A job whose expectation a first failure can
// hide is judged on all cases when it is not met. The first error ends all that
// is at work and is returned; errors are those of Run.
func (j *Judge) RunMany(ctx context.Context, p Problem, jobs []Job, m Many) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	l := &lineUp{many: m, done: map[int]Run{}, ahead: make(chan struct{}, max(1, m.AtOnce)*aheadOf)}
	work := make(chan int)
	var workers sync.WaitGroup
	for range min(max(1, m.AtOnce), len(jobs)) {
		workers.Go(func() {
			for i := range work {
				run, err := j.runJob(ctx, p, jobs[i], m.Lenient, func(e Event) { l.observe(i, e) })
				if err = l.finished(i, run, err); err != nil {
					cancel(err)
				}
			}
		})
	}
	for i := range jobs {
		if !l.offer(ctx, work, i) {
			break
		}
	}
	close(work)
	workers.Wait()
	if l.err == nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return l.err
}

// lineUp puts runs that end in any order into the order of the jobs.
type lineUp struct {
	many Many
	// ahead has an entry for each job that is begun and not delivered.
	ahead chan struct{}

	mu        sync.Mutex
	done      map[int]Run
	delivered int
	err       error
}

// offer hands job i to a worker, as soon as there is one and the jobs before it
// are not too far behind.
func (l *lineUp) offer(ctx context.Context, work chan<- int, i int) bool {
	select {
	case <-ctx.Done():
		return false
	case l.ahead <- struct{}{}:
	}
	select {
	case <-ctx.Done():
		return false
	case work <- i:
		return true
	}
}

func (l *lineUp) observe(i int, e Event) {
	if l.many.Observe == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.many.Observe(i, e)
}

// finished takes a run, or the error of one, and delivers what is next.
func (l *lineUp) finished(i int, r Run, err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return l.err
	}
	if err != nil {
		l.err = err
		return err
	}
	l.done[i] = r
	for {
		next, ok := l.done[l.delivered]
		if !ok {
			return nil
		}
		delete(l.done, l.delivered)
		if l.many.Done != nil {
			if l.err = l.many.Done(l.delivered, next); l.err != nil {
				return l.err
			}
		}
		l.delivered++
		<-l.ahead
	}
}

func (j *Judge) runJob(ctx context.Context, p Problem, job Job, lenient bool, observe Observer) (Run, error) {
	s := job.Submission
	run, err := j.Run(ctx, p, s, observe)
	if err == nil && !j.options.AllCases && job.Expectation.NeedsAllCases() && !job.Expectation.Met(run) {
		// A label such as "TLE somewhere" may be met by a later case.
		run, err = j.allCases().Run(ctx, p, s, observe)
	}
	switch {
	case err == nil:
		return run, nil
	case lenient && ctx.Err() == nil && (fault.Is(err, fault.Invalid) || fault.Is(err, fault.Unsupported)):
		return Run{
			Verdict: Skipped, Reason: err.Error(),
			Submission: SubmissionInfo{Name: s.Name, Language: s.Language, Digest: s.Digest()},
			Problem:    ProblemInfo{ShortName: p.ShortName, Name: p.Name, Version: p.Version, Checker: p.DescribeChecker(), Cases: len(p.Cases)},
		}, nil
	case ctx.Err() != nil && errors.Is(err, context.Cause(ctx)):
		return Run{}, err
	}
	return Run{}, fmt.Errorf("judge %s: %w", s.Name, err)
}

// Options are those the judge was made with.
func (j *Judge) Options() Options { return j.options }

// allCases is the same judge, going on after a case that failed.
func (j *Judge) allCases() *Judge {
	o := j.options
	o.AllCases = true
	return j.With(o)
}

// Templates are the names of the templates that judging the problem and the
// submissions needs, each once. A language that is not known needs none.
func (s *Languages) Templates(p Problem, submissions []Submission) []string {
	var list []string
	add := func(name string) {
		if !slices.Contains(list, name) {
			list = append(list, name)
		}
	}
	for _, sub := range submissions {
		lang, err := s.Detect(sub.Files)
		if sub.Language != "" {
			lang, err = s.ByID(sub.Language)
		}
		if err == nil {
			add(lang.Template)
		}
	}
	for _, program := range p.programs() {
		if spec, err := s.specify(program); err == nil {
			add(spec.template())
		}
	}
	return list
}

// programs are all of the jury's.
func (p Problem) programs() []Program {
	list := slices.Concat(p.InputValidators, p.Checkers)
	for _, one := range []*Program{p.Interactor, p.StaticValidator} {
		if one != nil {
			list = append(list, *one)
		}
	}
	for _, g := range p.Groups {
		if g.Legacy != nil && g.Legacy.Grader != nil {
			list = append(list, *g.Legacy.Grader)
		}
	}
	return list
}
