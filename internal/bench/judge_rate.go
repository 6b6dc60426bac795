package bench

import (
	"fmt"
	"sync"
	"time"

	"assay/internal/judge"
)

// rates measures how many cases are judged in a second, and how many runs the
// peer makes, turn by turn. The peer gets the program ready to run, and so the
// rate to compare with it begins when a submission is compiled.
func (b *judgeBench) rates() ([]Row, error) {
	var other *peer
	if b.o.Peer != "" {
		program, err := newPeer(b.ctx, b.o.Peer, b.native)
		if err != nil {
			return nil, err
		}
		other = program
		defer other.close()
	}
	var rows []Row
	for _, l := range b.loads {
		var ours, whole, theirs, ratios []float64
		for range b.o.Rounds {
			compiled, all, err := b.ourRate(l)
			if err != nil {
				return nil, err
			}
			ours, whole = append(ours, compiled), append(whole, all)
			if other == nil {
				continue
			}
			rate, err := b.peerRate(other, l)
			if err != nil {
				return nil, err
			}
			theirs, ratios = append(theirs, rate), append(ratios, ratio(compiled, rate))
		}
		rows = append(rows,
			row(fmt.Sprintf("cases of %s programs, %d at once", l.name, b.o.AtOnce), "rate", ours, 0),
			row(fmt.Sprintf("  with making machines and compiling, %d cases each", b.o.Cases), "rate", whole, 0))
		if other != nil {
			against := row("  ours / the peer's", "x", ratios, l.least)
			against.AtLeast = true
			rows = append(rows, row("  the peer's runs of the same", "rate", theirs, 0), against)
		}
	}
	return rows, nil
}

// ourRate judges a submission on each processor: cases in a second from when it
// was compiled, and of all of it.
func (b *judgeBench) ourRate(l load) (compiled, whole float64, err error) {
	p := problemOf("mix", l.input, l.answer, b.o.Cases)
	jobs := make([]judge.Job, b.o.AtOnce)
	for i := range jobs {
		jobs[i].Submission = sourceOf("mix.cc", mixSource)
	}
	var mu sync.Mutex
	var at []moment
	begin := time.Now()
	err = b.judge.RunMany(b.ctx, p, jobs, judge.Many{
		AtOnce: b.o.AtOnce,
		Observe: func(i int, e judge.Event) {
			if e.Step == judge.StepCompiled || e.Step == judge.StepCaseDone {
				mu.Lock()
				defer mu.Unlock()
				at = append(at, moment{i, time.Now(), e.Step == judge.StepCaseDone})
			}
		},
		Done: func(_ int, r judge.Run) error { return accepted(r) },
	})
	if err != nil {
		return 0, 0, err
	}
	return commonRate(at, len(jobs)), ratio(float64(b.o.Cases*len(jobs)), time.Since(begin).Seconds()), nil
}

// moment is when a submission was compiled, or one of its cases was done.
type moment struct {
	who  int
	at   time.Time
	done bool
}

// commonRate is how many cases were done in a second while all n were at work:
// from when the last of them was compiled to when the first had no case left.
func commonRate(moments []moment, n int) float64 {
	var begin, end time.Time
	last := make([]time.Time, n)
	for _, m := range moments {
		if !m.done && m.at.After(begin) {
			begin = m.at
		}
		if m.done && m.at.After(last[m.who]) {
			last[m.who] = m.at
		}
	}
	for _, t := range last {
		if end.IsZero() || t.Before(end) {
			end = t
		}
	}
	var count float64
	for _, m := range moments {
		if m.done && m.at.After(begin) && !m.at.After(end) {
			count++
		}
	}
	if !end.After(begin) {
		return 0
	}
	return count / end.Sub(begin).Seconds()
}

// peerRate has the peer run as many, as many at once.
func (b *judgeBench) peerRate(other *peer, l load) (float64, error) {
	errs := make([]error, b.o.AtOnce)
	var mu sync.Mutex
	var at []moment
	note := func(i int, done bool) {
		mu.Lock()
		defer mu.Unlock()
		at = append(at, moment{i, time.Now(), done})
	}
	var wg sync.WaitGroup
	for i := range b.o.AtOnce {
		wg.Go(func() {
			note(i, false)
			for range b.o.Cases {
				if errs[i] = other.run(b.ctx, l.input, l.answer); errs[i] != nil {
					return
				}
				note(i, true)
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return 0, err
		}
	}
	return commonRate(at, b.o.AtOnce), nil
}
