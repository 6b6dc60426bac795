package bus

import (
	"context"
	"errors"
	"strings"
	"sync"

	"github.com/nats-io/nats.go/jetstream"

	"assay/internal/fault"
)

const (
	// queueEvents is how many events wait for one reader; then they are cut.
	queueEvents = 256
	// catchUpEvents is how far back a reader is served; then there is a gap.
	catchUpEvents = 5000
)

// subscription is one reader of events.
type subscription struct {
	pattern string
	// end stops it.
	end   context.CancelFunc
	ready chan struct{}

	mu    sync.Mutex
	queue []Event
}

// Subscribe gives the events of all topics that match a pattern: in it "*" stands
// for a word, and ">" at the end for one or more. since is the number of the last
// event seen: what came after it comes first, then what happens from now on; 0 is
// only that. Where events are missing, since the server no longer has them, the
// reader was too slow or the bus was gone, there is one with Gap instead.
//
// The channel is closed when the context ends or the bus is closed. A slow reader
// holds nobody up. Unavailable: since could not be looked up.
func (b *Bus) Subscribe(ctx context.Context, pattern string, since uint64) (<-chan Event, error) {
	if !isPattern(pattern) {
		return nil, fault.Errorf(fault.Invalid, "%q is no pattern of topics", pattern)
	}
	ctx, cancel := context.WithCancel(ctx)
	s := &subscription{pattern: pattern, end: cancel, ready: make(chan struct{}, 1)}
	// What comes from now on waits in the queue until the rest was given out.
	last, ok := b.feed.join(s)
	if !ok {
		cancel()
		return nil, fault.Errorf(fault.Unavailable, "the bus is closed")
	}
	var stream jetstream.Stream
	var begin Event
	if since != 0 {
		var err error
		if stream, begin, err = b.lookUp(ctx, since, last); err != nil {
			b.feed.leave(s)
			cancel()
			return nil, explain("look for events", err)
		}
	}
	out := make(chan Event)
	b.tasks.Go(func() {
		defer close(out)
		defer cancel()
		defer b.feed.leave(s)
		if begin.Gap && !send(ctx, out, begin) {
			return
		}
		if stream != nil && !s.catchUp(ctx, stream, begin.Seq, last, out) {
			return
		}
		for {
			for _, e := range s.take() {
				// Another process may have been quicker to give out what this one still
				// has to.
				if e.Seq <= since && !e.Gap {
					continue
				}
				if !send(ctx, out, e) {
					return
				}
			}
			select {
			case <-ctx.Done():
				return
			case <-s.ready:
			}
		}
	})
	return out, nil
}

// lookUp says from which event on a reader can be served, and whether that leaves
// a gap. last is where what waits in the queue begins.
func (b *Bus) lookUp(ctx context.Context, since, last uint64) (jetstream.Stream, Event, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	stream, err := b.js.Stream(ctx, streamName)
	if err != nil {
		return nil, Event{}, err
	}
	state := stream.CachedInfo().State
	first := state.FirstSeq
	switch {
	case since > state.LastSeq:
		// A number that was never given: the reader has seen something else.
		return nil, Event{Seq: last, Gap: true}, nil
	case since > last:
		return nil, Event{Seq: since}, nil
	case last-since > catchUpEvents:
		first = max(first, last-catchUpEvents)
	}
	if first > since+1 {
		return stream, Event{Seq: first - 1, Gap: true}, nil
	}
	return stream, Event{Seq: since}, nil
}

// catchUp gives out what the stream has after an event, up to last.
func (s *subscription) catchUp(ctx context.Context, stream jetstream.Stream, after, last uint64, out chan<- Event) bool {
	for after < last {
		e, err := s.get(ctx, stream, after+1)
		if err == nil && e.Seq > last {
			return true
		}
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return true
		}
		if err != nil {
			// The rest cannot be had: the queue goes on behind it.
			return ctx.Err() == nil && send(ctx, out, Event{Seq: last, Gap: true})
		}
		if !send(ctx, out, e) {
			return false
		}
		after = e.Seq
	}
	return true
}

// get asks for the first event from a number on.
func (s *subscription) get(ctx context.Context, stream jetstream.Stream, from uint64) (Event, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	msg, err := stream.GetMsg(ctx, from, jetstream.WithGetMsgSubject(eventPrefix+s.pattern))
	if err != nil {
		return Event{}, err
	}
	return Event{Seq: msg.Sequence, Topic: strings.TrimPrefix(msg.Subject, eventPrefix), Data: msg.Data, At: msg.Time.UTC()}, nil
}

func send(ctx context.Context, out chan<- Event, e Event) bool {
	select {
	case <-ctx.Done():
		return false
	case out <- e:
		return true
	}
}

// add puts an event into the queue. If that is full, all of it is cut.
func (s *subscription) add(e Event) {
	s.mu.Lock()
	if len(s.queue) >= queueEvents {
		s.queue = append(s.queue[:0], Event{Seq: e.Seq, Gap: true})
	} else {
		s.queue = append(s.queue, e)
	}
	s.mu.Unlock()
	signal(s.ready)
}

// gap cuts the queue: events up to a number are missing.
func (s *subscription) gap(seq uint64) {
	s.mu.Lock()
	s.queue = append(s.queue[:0], Event{Seq: seq, Gap: true})
	s.mu.Unlock()
	signal(s.ready)
}

func (s *subscription) take() []Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.queue
	s.queue = nil
	return all
}
