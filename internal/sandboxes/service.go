package sandboxes

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"assay/internal/account"
	"assay/internal/fault"
	"assay/internal/guest"
	"assay/internal/sandbox"
)

// Options are what a service is made of.
type Options struct {
	Machines  Machines
	Templates Templates
	Store     Store
	// Node names this host among those that share the store. The same name is
	// used at each start.
	Node string
	// Quota says what an actor may have; nil is no bound.
	Quota func(account.Actor) Quota
	// Actor gives who made a persistent sandbox, from the IDs of a user and of a
	// token, which may be "": for the quotas of sandboxes that are adopted. Nil
	// knows nobody's.
	Actor func(ctx context.Context, user, token string) account.Actor
	// TokenQuota says what may be had with the actor's token, within the actor's
	// own quota; nil is no further bound.
	TokenQuota func(account.Actor) Quota
	// MaxTTL is the longest that a sandbox may live from now; zero is 24 hours.
	MaxTTL time.Duration
	// MaxPreview is the longest that a preview's link works; zero is 24 hours.
	MaxPreview time.Duration
	// QueueWait is how long a request waits for room on the host; zero is 20 s.
	QueueWait time.Duration
	Log       *slog.Logger
}

// The defaults of Options.
const (
	defaultMaxTTL     = 24 * time.Hour
	defaultMaxPreview = 24 * time.Hour
	defaultQueueWait  = 20 * time.Second
)

// Service is the engine offered to actors: who asks is in the context (package
// account). All methods may be called at the same time; Run must be running
// for usage, quotas of CPU time and repairs to be kept.
//
// Errors of all methods, besides those named: fault.Denied for what the actor
// may not do; fault.NotFound for what is not there, or not the actor's to
// know; fault.Conflict for a sandbox that has ended, is paused or lives on
// another node; fault.Unavailable while the store does not answer.
type Service struct {
	o Options

	// making holds how much of whose quota is promised to requests under way.
	mu      sync.Mutex
	making  map[string]Held // by owner and token
	live    map[string]*live
	working map[string]*working // requests with a key, by owner and key
	ends    map[string]*ending  // that the store did not take yet
	closed  bool
	calls   sync.WaitGroup // watchers, and requests that outlive their caller
}

// live is a sandbox of this service that has not ended.
type live struct {
	sb  *sandbox.Sandbox
	by  account.Actor
	rec Record
	// written is closed when the store has been told of its end, or could not be.
	written chan struct{}
	// left is closed when the service is and the sandbox goes on.
	left chan struct{}

	mu      sync.Mutex
	counted time.Duration // CPU time that is accounted for
	at      time.Time     // until when its memory is
	frozen  int64         // bytes of all its snapshots
	why     string        // who asked for its end, if it is destroyed
	// previews signs the links to its ports; nil while there are none.
	previews *previewKey
	visits   map[*session]struct{} // under way
}

// ending is an end on its way to the store, with what was used until then.
type ending struct {
	end  End
	used []Used
}

// destroy ends the sandbox; the first reason stays.
func (l *live) destroy(why string) error {
	l.mu.Lock()
	if l.why == "" {
		l.why = why
	}
	l.mu.Unlock()
	return l.sb.Destroy()
}

// Open makes a service. Persistent sandboxes of this node that the engine has
// adopted go on. What else it had in an earlier life has ended with its machines,
// and is written down so. Close it.
func Open(ctx context.Context, o Options) (*Service, error) {
	if o.Node == "" {
		return nil, fault.Errorf(fault.Internal, "the node has no name")
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.MaxTTL == 0 {
		o.MaxTTL = defaultMaxTTL
	}
	if o.MaxPreview == 0 {
		o.MaxPreview = defaultMaxPreview
	}
	if o.QueueWait == 0 {
		o.QueueWait = defaultQueueWait
	}
	if o.Quota == nil {
		o.Quota = func(account.Actor) Quota { return Quota{} }
	}
	if o.TokenQuota == nil {
		o.TokenQuota = func(account.Actor) Quota { return Quota{} }
	}
	s := &Service{o: o, making: map[string]Held{}, live: map[string]*live{}, working: map[string]*working{}, ends: map[string]*ending{}}
	if o.Actor == nil {
		s.o.Actor = func(_ context.Context, user, token string) account.Actor {
			return account.Actor{User: user, Token: token}
		}
	}
	if err := s.adoptAll(ctx); err != nil {
		return nil, err
	}
	if err := s.repair(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	if err := o.Store.ForgetBefore(ctx, time.Now().Add(-rememberFor), o.Node); err != nil {
		return nil, err
	}
	return s, nil
}

// MaxTTL is the longest that a sandbox may live from now.
func (s *Service) MaxTTL() time.Duration { return s.o.MaxTTL }

// Run keeps account, quotas of CPU time and the store's repair until ctx ends.
func (s *Service) Run(ctx context.Context) error {
	count, mend := time.NewTicker(countEvery), time.NewTicker(repairEvery)
	defer count.Stop()
	defer mend.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-count.C:
			if err := s.count(ctx); err != nil && ctx.Err() == nil {
				s.o.Log.Error("keep account of sandboxes", "err", err)
			}
		case <-mend.C:
			now := time.Now()
			err := errors.Join(s.repair(ctx), s.repairSnapshots(ctx), s.o.Store.ForgetBefore(ctx, now.Add(-rememberFor), ""),
				s.o.Store.ShrinkAnswers(ctx, now.Add(-largeFor), largeAnswer, tooLarge))
			if err != nil && ctx.Err() == nil {
				s.o.Log.Error("repair what is kept of sandboxes", "err", err)
			}
		}
	}
}

// How often Run counts, and looks for what the store does not know.
const (
	countEvery  = 5 * time.Second
	repairEvery = time.Minute
)

// Close ends all sandboxes of this service but persistent ones, which go on,
// writes their ends and waits for all calls. Run has returned before. It is
// idempotent.
func (s *Service) Close() error {
	s.mu.Lock()
	s.closed = true
	var all []*live
	for _, l := range s.live {
		if l.rec.Persistent {
			l.leave()
		} else {
			all = append(all, l)
		}
	}
	for _, w := range s.working {
		w.cancel(errClosed)
	}
	s.mu.Unlock()
	var errs []error
	var mu sync.Mutex
	var ending sync.WaitGroup
	for _, l := range all {
		ending.Go(func() {
			if err := l.destroy(stopped); err != nil {
				mu.Lock()
				defer mu.Unlock()
				errs = append(errs, err)
			}
		})
	}
	ending.Wait()
	s.calls.Wait()
	return errors.Join(errs...)
}

var errClosed = fault.Errorf(fault.Unavailable, "the server is stopping").WithHint("try again in a moment")

// enter refuses calls that would make something once the service is closed.
// The caller calls leave.
func (s *Service) enter() (leave func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errClosed
	}
	s.calls.Add(1)
	return s.calls.Done, nil
}

// keep watches a sandbox from now on. One that was made while the service was
// being closed ends at once: Close did not see it, and would wait for its end.
// The caller has entered.
func (s *Service) keep(sb *sandbox.Sandbox, by account.Actor, rec Record) error {
	l := newLive(sb, by, rec)
	s.mu.Lock()
	closed := s.closed
	s.live[rec.ID] = l
	s.calls.Go(func() { s.follow(l) }) // ends with the sandbox
	s.mu.Unlock()
	if !closed {
		return nil
	}
	if err := l.destroy(stopped); err != nil {
		s.o.Log.Error("end a sandbox while the server stops", "sandbox", rec.ID, "err", err)
	}
	return errClosed
}

// stopped is the reason of an end with the server's.
const stopped = "server stopped"

// follow writes a sandbox's end when it has come.
func (s *Service) follow(l *live) {
	select {
	case <-l.left:
		return
	case <-l.sb.Ended():
	}
	id, now := l.rec.ID, time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), storeWait)
	defer cancel()
	e := &ending{end: l.end(now), used: l.used(now)}
	s.mu.Lock()
	s.ends[id] = e
	s.mu.Unlock()
	if err := s.end(ctx, id, e); err != nil { // the repair tries again
		s.o.Log.Error("write the end of a sandbox", "sandbox", id, "err", err)
	}
	s.mu.Lock()
	delete(s.live, id)
	s.mu.Unlock()
	close(l.written)
}

// end is how an ended sandbox ended.
func (l *live) end(at time.Time) End {
	e := End{At: at, Why: l.sb.EndReason(), Cause: l.sb.EndCause()}
	l.mu.Lock()
	defer l.mu.Unlock()
	if e.Why == "destroyed" && l.why != "" {
		e.Why = l.why
	}
	return e
}

// ended reports whether it has.
func (l *live) ended() bool {
	select {
	case <-l.sb.Ended():
		return true
	default:
		return false
	}
}

// storeWait is how long the end of a sandbox waits for the store.
const storeWait = 10 * time.Second

// end writes an end. It is called by one goroutine at a time for a sandbox.
func (s *Service) end(ctx context.Context, id string, e *ending) error {
	if err := s.o.Store.AddUsage(ctx, e.used); err != nil {
		return err
	}
	e.used = nil
	if err := s.o.Store.EndSandbox(ctx, id, e.end); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.ends, id)
	return nil
}

// repair writes the ends that the store does not know of: of machines of an
// earlier life, and those that it could not take before.
func (s *Service) repair(ctx context.Context) error {
	rows, err := s.o.Store.Sandboxes(ctx, Query{Node: s.o.Node, Live: true})
	if err != nil {
		return err
	}
	for _, r := range rows {
		s.mu.Lock()
		e := s.ends[r.ID]
		_, lives := s.live[r.ID]
		s.mu.Unlock()
		if lives {
			continue
		}
		if _, err := s.o.Machines.Get(r.ID); err == nil {
			continue // just being made
		}
		if e == nil {
			e = &ending{end: End{At: time.Now(), Why: "the server that had it died", Cause: guest.MachineLost}}
		}
		if err := s.end(ctx, r.ID, e); err != nil {
			return err
		}
	}
	return nil
}

// thing is a sandbox as it is guarded.
func (r Record) thing() account.Thing {
	return account.Thing{Kind: account.SandboxThing, ID: r.ID, Owner: r.Owner}
}

// find gives the record of a sandbox that the actor may do something with.
func (s *Service) find(ctx context.Context, do account.Action, id string) (Record, error) {
	if l := s.get(id); l != nil {
		rec := l.record()
		return rec, account.May(account.ActorOf(ctx), do, rec.thing())
	}
	r, err := s.o.Store.Sandbox(ctx, id)
	if fault.Is(err, fault.NotFound) {
		// In the words of a sandbox that is none of the actor's business.
		if err := account.May(account.ActorOf(ctx), account.List, account.Thing{Kind: account.SandboxThing}); err != nil {
			return r, err
		}
		return r, noSandbox(id)
	}
	if err != nil {
		return r, err
	}
	return r, account.May(account.ActorOf(ctx), do, r.thing())
}

func noSandbox(id string) error {
	return fault.Errorf(fault.NotFound, "there is no sandbox %.64s", id)
}

func (s *Service) get(id string) *live {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.live[id]
}

// record is the sandbox as it is now.
func (l *live) record() Record {
	info := l.sb.Info()
	r := l.rec
	r.Deadline, r.Idle, r.Paused = info.Deadline, info.IdleLimit, info.Paused
	now := time.Now()
	if l.ended() { // the store is just being told
		r.End = l.end(now)
	}
	r.CPU = l.sb.Usage().CPU
	l.mu.Lock()
	defer l.mu.Unlock()
	r.ByteSeconds, r.SnapshotBytes = float64(r.Shape.Memory)*now.Sub(r.Created).Seconds(), l.frozen
	return r
}

// alive gives the machine of a sandbox that the actor may do something with.
func (s *Service) alive(ctx context.Context, do account.Action, id string) (*live, error) {
	r, err := s.find(ctx, do, id)
	if err != nil {
		return nil, err
	}
	if l := s.get(id); l != nil && !l.ended() {
		return l, nil
	}
	return nil, s.gone(r)
}

// gone says why a sandbox cannot be used here.
func (s *Service) gone(r Record) error {
	if r.Live() && r.Node != s.o.Node {
		return fault.Errorf(fault.Conflict, "sandbox %s lives on node %s", r.ID, r.Node).WithHint("send the request to that node")
	}
	why := r.End.Why
	if why == "" {
		why = "its server died"
	}
	return fault.Errorf(fault.Conflict, "sandbox %s has ended: %s", r.ID, why).WithHint("make another one; its events are kept")
}
