package bus

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// feed is the one reader of the stream that a process has: it gives events to
// all subscriptions, so that a thousand of them cost the server nothing.
type feed struct {
	// again has it begin anew behind last.
	again chan struct{}

	mu sync.Mutex
	// last is the number of the last event that was given out.
	last   uint64
	closed bool
	subs   map[*subscription]struct{}
}

// Pauses between tries to read the stream.
const (
	followPause    = 100 * time.Millisecond
	followPauseMax = 2 * time.Second
	// heartbeat is how often the server shows that a reader is still known.
	heartbeat = 5 * time.Second
)

// follow reads the stream until the context ends.
func (b *Bus) follow(ctx context.Context) {
	if b.embedded != nil {
		b.tasks.Go(func() { b.mendEmbedded(ctx) })
	}
	wait := followPause
	for ctx.Err() == nil {
		before := b.feed.position()
		// Whatever ended it, the remedy is the same; who needs the bus sees the error.
		_ = b.read(ctx)
		if wait *= 2; b.feed.position() != before {
			wait = followPause
		}
		wait = min(wait, followPauseMax)
		if !pause(ctx, wait) {
			return
		}
	}
}

// mendEmbedded starts the embedded server again where it gave up.
func (b *Bus) mendEmbedded(ctx context.Context) {
	for pause(ctx, mendEvery) {
		// It is tried again; meanwhile Publish and Ping fail.
		_ = b.embedded.mend()
	}
}

// read gives out what the stream has behind the last event, and then what comes.
func (b *Bus) read(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	select {
	case <-b.feed.again:
	default:
	}
	info, err := b.stream(ctx)
	if err != nil {
		return err
	}
	b.feed.skipTo(info.State.FirstSeq)
	consumer, err := b.js.CreateConsumer(ctx, streamName, jetstream.ConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: b.feed.position() + 1,
		AckPolicy: jetstream.AckNonePolicy, MemoryStorage: true, Replicas: 1, InactiveThreshold: time.Minute,
	})
	if err != nil {
		return err
	}
	messages, err := consumer.Messages(jetstream.PullMaxMessages(256), jetstream.PullHeartbeat(heartbeat), jetstream.WithMessagesErrOnMissingHeartbeat(true))
	if err != nil {
		return err
	}
	// The server forgets an idle consumer by itself.
	defer messages.Stop()
	var watching sync.WaitGroup
	// It is over before the next read, whose signal it would take.
	defer watching.Wait()
	defer cancel()
	watching.Go(func() {
		select {
		case <-ctx.Done():
		case <-b.feed.again:
			cancel()
		}
	})
	for {
		msg, err := messages.Next(jetstream.NextContext(ctx))
		if err != nil {
			return err
		}
		meta, err := msg.Metadata()
		if err != nil {
			return err
		}
		if err := b.feed.give(Event{
			Seq: meta.Sequence.Stream, Topic: strings.TrimPrefix(msg.Subject(), eventPrefix), Data: msg.Data(), At: meta.Timestamp.UTC(),
		}); err != nil {
			return err
		}
	}
}

func (f *feed) position() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.last
}

// skipTo tells all that events are missing if the stream begins after the last
// one they saw.
func (f *feed) skipTo(first uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if first <= f.last+1 {
		return
	}
	f.last = first - 1
	for s := range f.subs {
		s.gap(f.last)
	}
}

// give gives an event out. It never waits. An event that is not the next one
// means that some were lost on the way: they are to be read again.
func (f *feed) give(e Event) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if e.Seq <= f.last {
		return nil
	}
	if e.Seq > f.last+1 {
		return fmt.Errorf("event %d came after %d", e.Seq, f.last)
	}
	f.last = e.Seq
	for s := range f.subs {
		if matches(s.pattern, e.Topic) {
			s.add(e)
		}
	}
	return nil
}

// join adds a subscription and says after which event it begins.
func (f *feed) join(s *subscription) (last uint64, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return 0, false
	}
	if f.subs == nil {
		f.subs = map[*subscription]struct{}{}
	}
	f.subs[s] = struct{}{}
	return f.last, true
}

func (f *feed) leave(s *subscription) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.subs, s)
}

// close ends all subscriptions and lets no new ones in.
func (f *feed) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	for s := range f.subs {
		s.end()
	}
}
