package judging

import (
	"context"
	"encoding/json"
	"time"

	"assay/internal/account"
)

// followPoll is how often the row is read when no event comes: events may be
// lost, the row is the truth.
const followPoll = 2 * time.Second

// Follow tells how a submission fares until its run has ended, the newest state
// first: each call gets either progress or the submission. It ends with the
// submission whose run has ended, with the first error of a call, or with ctx.
func (s *Service) Follow(ctx context.Context, id string, progress func(Progress) error, state func(Submission) error) error {
	if _, err := s.submission(ctx, id, account.Read); err != nil {
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
	var last Run
	for {
		sub, err := s.Submission(ctx, id)
		if err != nil {
			return err
		}
		if sub.Run.ID != last.ID || sub.Run.State != last.State || sub.Run.Tries != last.Tries {
			last = sub.Run
			if err := state(sub); err != nil {
				return err
			}
		}
		if last.State == Done || last.State == Cancelled {
			return nil
		}
		if events, err = next(ctx, events, poll.C, progress); err != nil {
			return err
		}
	}
}

// next waits until the row is worth another look, and hands on progress
// meanwhile. It gives nil for events that have come to their end.
func next(ctx context.Context, events <-chan []byte, poll <-chan time.Time, progress func(Progress) error) (<-chan []byte, error) {
	for {
		select {
		case <-ctx.Done():
			return events, context.Cause(ctx)
		case <-poll:
			return events, nil
		case data, more := <-events:
			if !more {
				return nil, nil
			}
			var p Progress
			if json.Unmarshal(data, &p) != nil {
				continue
			}
			if p.Case == 0 {
				return events, nil // began, compiled or ended
			}
			if err := progress(p); err != nil {
				return events, err
			}
		}
	}
}

// Wait gives a submission when its run has ended, or as it is after a while.
func (s *Service) Wait(ctx context.Context, id string, most time.Duration) (Submission, error) {
	waitCtx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	err := s.Follow(waitCtx, id, func(Progress) error { return nil }, func(Submission) error { return nil })
	if err != nil && waitCtx.Err() == nil {
		return Submission{}, err
	}
	return s.Submission(ctx, id)
}
