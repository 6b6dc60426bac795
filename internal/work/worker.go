package work

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"assay/internal/fault"
)

// Worker claims jobs and has handlers do them. Fill in the first part, and call
// Run once.
type Worker struct {
	Store Store
	Wakes Wakes
	// Node is the ID of this node; no other process has the same.
	Node string
	// Handlers by kind of job: what has none is left to other nodes.
	Handlers map[string]Handler
	// Capacity is how many jobs run at once.
	Capacity int
	Log      *slog.Logger

	// Lease is how long a job is held without word from its holder. It should be
	// longer than the database is ever gone. 0 is a minute.
	Lease time.Duration
	// Poll is how often the worker looks without being woken. 0 is five seconds.
	Poll time.Duration
	// MaxTries is how often a job may come to nothing. 0 is five.
	MaxTries int
	// Outage is how old a job may be for failures that are Unavailable or
	// Exhausted to cost it no try. 0 is an hour.
	Outage time.Duration
	// Ready says why this node cannot take jobs now; nil is always. It is asked
	// before each claim, so it must be quick.
	Ready func() error
	// Grace is how long running jobs may go on when the worker is to end; then
	// they are given back. 0 is at once.
	Grace time.Duration
}

// Why the context of a job ended.
var (
	// ErrLost says that the lease was lost: somebody else does the job now.
	ErrLost = errors.New("the lease of the job is lost")
	// ErrStopping says that this node stops.
	ErrStopping = errors.New("the node stops")
)

// Pauses after failures of ours. A job that failed waits for longer each time.
const (
	retryPause    = 2 * time.Second
	retryPauseMax = time.Minute
	renewPause    = time.Second
	storeTimeout  = 10 * time.Second
	// outagePause is how long a job waits that an outage has stopped.
	outagePause = 5 * time.Second
)

// Run claims and does jobs until the context ends; then it takes no more, waits
// for what runs as long as Grace, gives the rest back and returns nil. While the
// store is gone it waits for it.
func (w *Worker) Run(ctx context.Context) error {
	if len(w.Handlers) == 0 || w.Capacity < 1 {
		return fault.Errorf(fault.Invalid, "a worker needs a handler and room for a job")
	}
	s := shift{Worker: *w, slots: make(chan struct{}, w.Capacity), look: make(chan struct{}, 1)}
	s.fill()
	// Jobs outlive the context, for Grace.
	jobs, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	// What listens ends with the loop, however that ends.
	ctx, stopListening := context.WithCancel(ctx)
	var listeners, running sync.WaitGroup
	defer listeners.Wait()
	defer stopListening()
	for kind := range s.Handlers {
		s.kinds = append(s.kinds, kind)
		woken, stop, err := s.Wakes.Waits(kind)
		if err != nil {
			return err
		}
		defer stop()
		listeners.Go(func() {
			for {
				select {
				case <-ctx.Done():
					return
				case <-woken:
					signal(s.look)
				}
			}
		})
	}
	listeners.Go(func() { s.sweep(ctx) })
	for s.wait(ctx) {
		for s.claimOne(ctx, jobs, &running) {
		}
	}
	stop := time.AfterFunc(s.Grace, func() { cancel(ErrStopping) })
	defer stop.Stop()
	running.Wait()
	return nil
}

// shift is a worker at work.
type shift struct {
	Worker
	kinds []string
	// slots has as many entries as jobs run.
	slots chan struct{}
	// look has an entry if there may be something to claim.
	look chan struct{}
	// troubled says that the store's last answer was an error, and unready that
	// Ready's was: each is logged once. Only the loop of Run touches them.
	troubled, unready bool
}

func (s *shift) fill() {
	orElse := func(d *time.Duration, otherwise time.Duration) {
		if *d == 0 {
			*d = otherwise
		}
	}
	orElse(&s.Lease, time.Minute)
	orElse(&s.Poll, 5*time.Second)
	orElse(&s.Outage, time.Hour)
	if s.MaxTries == 0 {
		s.MaxTries = 5
	}
	if s.Log == nil {
		s.Log = slog.New(slog.DiscardHandler)
	}
	signal(s.look)
}

func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// wait waits until there may be something to claim; false is the end.
func (s *shift) wait(ctx context.Context) bool {
	poll := time.NewTimer(s.Poll)
	defer poll.Stop()
	select {
	case <-ctx.Done():
	case <-s.look:
	case <-poll.C:
	}
	return ctx.Err() == nil
}

// claimOne takes a job and begins it; false if there is none, or no room.
func (s *shift) claimOne(ctx, jobs context.Context, running *sync.WaitGroup) bool {
	if !s.ready() {
		return false
	}
	select {
	case <-ctx.Done():
		return false
	case s.slots <- struct{}{}:
	default:
		// Whoever ends has us look again.
		return false
	}
	now := time.Now()
	bounded, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	j, ok, err := s.Store.Claim(bounded, Claim{Node: s.Node, Kinds: s.kinds, Token: NewID(), Now: now, Until: now.Add(s.Lease)})
	if err != nil && ctx.Err() == nil && !s.troubled {
		s.Log.Error("jobs cannot be claimed; it is tried again", "err", err)
	}
	s.troubled = err != nil
	if err != nil || !ok {
		<-s.slots
		return false
	}
	running.Go(func() {
		defer func() {
			<-s.slots
			signal(s.look)
		}()
		s.do(jobs, j)
	})
	return true
}

// ready asks whether this node can take jobs.
func (s *shift) ready() bool {
	if s.Ready == nil {
		return true
	}
	err := s.Ready()
	if err != nil && !s.unready {
		s.Log.Error("this node takes no jobs until it can", "err", err)
	}
	s.unready = err != nil
	return err == nil
}

// do has the handler do a job while its lease is renewed.
func (s *shift) do(jobs context.Context, j Job) {
	ctx, cancel := context.WithCancelCause(jobs)
	var renewing sync.WaitGroup
	renewing.Go(func() { s.renew(ctx, j, cancel) })
	err := s.handle(ctx, j)
	why := context.Cause(ctx)
	cancel(nil)
	renewing.Wait()
	log := s.Log.With("job", j.ID, "kind", j.Kind, "ref", j.Ref)
	// The job's context may have ended.
	end, stop := context.WithTimeout(context.WithoutCancel(jobs), storeTimeout)
	defer stop()
	var after error
	switch {
	case err == nil:
		return
	case errors.Is(why, ErrLost):
		log.Warn("the lease of a job was lost", "err", err)
		return
	case errors.Is(why, ErrStopping):
		log.Info("a job is given back: the node stops")
		after = s.Store.Release(end, j.ID, j.Token, time.Time{})
		s.Wakes.Wake(j.Kind)
	case s.outage(j, err):
		log.Warn("a job waits: something it needs is gone", "err", err)
		after = s.Store.Release(end, j.ID, j.Token, time.Now().Add(outagePause))
	default:
		log.Error("a job came to nothing", "tries", j.Tries+1, "err", err)
		after = s.Store.Retry(end, j.ID, j.Token, time.Now().Add(backOff(j.Tries)), err.Error())
	}
	// The sweep finds it when its lease has run out. Conflict: it was finished, or
	// is another node's.
	if after != nil && !fault.Is(after, fault.Conflict) {
		log.Error("a job cannot be given back; its lease will run out", "err", after)
	}
}

// outage says that a failure is not about this job: an outage stops all of them,
// and would use up all their tries within a minute. A job that is old enough
// pays: perhaps it is the reason.
func (s *shift) outage(j Job, err error) bool {
	return (fault.Is(err, fault.Unavailable) || fault.Is(err, fault.Exhausted)) && time.Since(j.Created) < s.Outage
}

func backOff(tries int) time.Duration {
	return min(retryPause<<min(tries, 10), retryPauseMax)
}

// handle calls the handler. That it panics is a failure like others: the jobs of
// all others go on.
func (s *shift) handle(ctx context.Context, j Job) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("job %s panicked: %v\n%s", j.ID, p, debug.Stack())
		}
	}()
	h := s.Handlers[j.Kind]
	if j.Tries >= s.MaxTries {
		return h.GiveUp(ctx, j)
	}
	return h.Run(ctx, j)
}

// renew holds the lease of a job until its context ends, and ends that if it
// cannot.
func (s *shift) renew(ctx context.Context, j Job, cancel context.CancelCauseFunc) {
	until := j.LeaseUntil
	next := s.Lease / 3
	for {
		timer := time.NewTimer(next)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		to := time.Now().Add(s.Lease)
		// Beyond its lease the job is not ours, whatever the store would say. One
		// question that hangs must not use all of the lease up.
		last := time.Now().Add(storeTimeout)
		if until.Before(last) {
			last = until
		}
		bounded, stop := context.WithDeadline(ctx, last)
		err := s.Store.Renew(bounded, j.ID, j.Token, to)
		stop()
		switch {
		case err == nil:
			until, next = to, s.Lease/3
		case fault.Is(err, fault.Conflict), !time.Now().Before(until):
			cancel(ErrLost)
			return
		default:
			next = min(renewPause, time.Until(until))
		}
	}
}

// sweep puts back what dead holders left, now and then.
func (s *shift) sweep(ctx context.Context) {
	for tick := time.NewTicker(s.Lease / 4); ; {
		select {
		case <-ctx.Done():
			tick.Stop()
			return
		case <-tick.C:
		}
		bounded, stop := context.WithTimeout(ctx, storeTimeout)
		// If the store is gone, the loop that claims says so.
		kinds, err := s.Store.Sweep(bounded, time.Now())
		stop()
		if err == nil {
			wakeEach(s.Wakes, kinds)
		}
	}
}

func wakeEach(w Wakes, kinds []string) {
	woken := map[string]bool{}
	for _, k := range kinds {
		if !woken[k] {
			woken[k] = true
			w.Wake(k)
		}
	}
}
