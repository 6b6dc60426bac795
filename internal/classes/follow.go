package classes

import (
	"context"
	"time"

	"assay/internal/account"
)

// followPoll is how often the row is read when no event comes: events may be
// lost, the row is the truth.
const followPoll = 2 * time.Second

// Which tests run and how many there are is never told: some are hidden. An
// event only says that the row is worth another look.

func topic(attempt string) string { return "attempt." + attempt }

func (s *Service) tell(attempt string) { s.events.Publish(topic(attempt), []byte("{}")) }

// Follow tells how an attempt fares until it is graded, the newest state first.
// It ends after the attempt whose grading has ended, with the first error of
// state, or with ctx.
func (s *Service) Follow(ctx context.Context, courseID, id string, state func(Seen) error) error {
	r, _, err := s.attempt(ctx, courseID, id, account.Read)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// Subscribed before the row is read, so that no end falls in between.
	events, stop, err := s.events.Subscribe(ctx, topic(id))
	if err != nil {
		events, stop = nil, func() {}
	}
	defer stop()
	poll := time.NewTicker(followPoll)
	defer poll.Stop()
	var last Grading
	for {
		a, err := s.store.Attempt(ctx, id)
		if err != nil {
			return err
		}
		if g := a.Grading; g.ID != last.ID || g.State != last.State || g.Tries != last.Tries {
			last = g
			seen, err := s.graded(ctx, r, a)
			if err != nil {
				return err
			}
			if err := state(seen); err != nil {
				return err
			}
		}
		if last.State == Done || last.State == Cancelled {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-poll.C:
		case _, more := <-events:
			if !more {
				events = nil
			}
		}
	}
}

// Wait gives an attempt when it is graded, or as it is after a while.
func (s *Service) Wait(ctx context.Context, courseID, id string, most time.Duration) (Seen, error) {
	waitCtx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	err := s.Follow(waitCtx, courseID, id, func(Seen) error { return nil })
	if err != nil && waitCtx.Err() == nil {
		return Seen{}, err
	}
	return s.Attempt(ctx, courseID, id)
}
