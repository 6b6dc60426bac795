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
	ready, last := make([]time.Time, len(jobs)), make([]time.Time, len(jobs))
	begin := time.Now()
	err = b.judge.RunMany(b.ctx, p, jobs, judge.Many{
		AtOnce: b.o.AtOnce,
		Observe: func(i int, e judge.Event) {
			switch e.Step {
			case judge.StepCompiled:
				ready[i] = time.Now()
			case judge.StepCaseDone:
				last[i] = time.Now()
			}
		},
		Done: func(_ int, r judge.Run) error { return accepted(r) },
	})
	if err != nil {
		return 0, 0, err
	}
	var windows []time.Duration
	for i := range jobs {
		windows = append(windows, last[i].Sub(ready[i]))
	}
	return rateOf(b.o.Cases, windows), rateOf(b.o.Cases*len(jobs), []time.Duration{time.Since(begin)}), nil
}

// peerRate has the peer run as many, as many at once.
func (b *judgeBench) peerRate(other *peer, l load) (float64, error) {
	windows, errs := make([]time.Duration, b.o.AtOnce), make([]error, b.o.AtOnce)
	var wg sync.WaitGroup
	for i := range b.o.AtOnce {
		wg.Go(func() {
			begin := time.Now()
			for range b.o.Cases {
				if errs[i] = other.run(b.ctx, l.input, l.answer); errs[i] != nil {
					return
				}
			}
			windows[i] = time.Since(begin)
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return 0, err
		}
	}
	return rateOf(b.o.Cases, windows), nil
}

// rateOf adds up the rates, in a second, of those that worked side by side, each
// of which did n things in its window.
func rateOf(n int, windows []time.Duration) float64 {
	var sum float64
	for _, w := range windows {
		sum += ratio(float64(n), w.Seconds())
	}
	return sum
}
