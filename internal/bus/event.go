package bus

import (
	"context"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"assay/internal/fault"
)

// MaxData is how many bytes the data of an event may have.
const MaxData = 64 << 10

// Event is something that happened.
type Event struct {
	// Seq is its number: later events have higher ones, and they never begin
	// anew. It is what Subscribe takes as since.
	Seq uint64
	// Topic is what it is about: words with points between them
	// ("submission.x7k2").
	Topic string
	// Data is whatever was published. It is shared: do not change it.
	Data []byte
	// At is when the server took it.
	At time.Time
	// Gap says that events before this one are missing, and that there is nothing
	// in it but Seq: look at the rows.
	Gap bool
}

// Publish gives an event to all that follow its topic, in all processes, and
// says its number. It fails with Unavailable, within two seconds, while the
// server is gone: nobody will see the event then, and the caller goes on. Words
// of a topic have letters, digits, "-" and "_"; data of more than MaxData is
// Exhausted.
func (b *Bus) Publish(ctx context.Context, topic string, data []byte) (seq uint64, err error) {
	if !isTopic(topic) {
		return 0, fault.Errorf(fault.Invalid, "%q is no topic", topic)
	}
	if len(data) > MaxData {
		return 0, fault.Errorf(fault.Exhausted, "an event of %d bytes is too large, the limit is %d", len(data), MaxData)
	}
	if !b.conn.IsConnected() || (b.embedded != nil && b.embedded.stuck.Load()) {
		return 0, explain("publish", nats.ErrDisconnected)
	}
	bounded, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	ack, err := b.js.Publish(bounded, eventPrefix+topic, data)
	if err != nil {
		if b.embedded != nil && bounded.Err() != nil && ctx.Err() == nil && b.conn.IsConnected() {
			b.embedded.stuck.Store(true)
		}
		return 0, explain("publish", err)
	}
	return ack.Sequence, nil
}

// isTopic accepts words with points between them.
func isTopic(topic string) bool {
	return len(topic) <= 200 && !isPatternOnly(topic) && isPattern(topic)
}

func isPatternOnly(s string) bool { return strings.ContainsAny(s, "*>") }

// isPattern accepts topics in which "*" may stand for a word, and ">" at the end
// for one or more.
func isPattern(pattern string) bool {
	words := strings.Split(pattern, ".")
	for i, w := range words {
		if w == "*" || (w == ">" && i == len(words)-1) {
			continue
		}
		if w == "" || strings.ContainsFunc(w, func(r rune) bool {
			return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_'
		}) {
			return false
		}
	}
	return true
}

// matches says whether a pattern speaks of a topic.
func matches(pattern, topic string) bool {
	for {
		p, restP, moreP := strings.Cut(pattern, ".")
		t, restT, moreT := strings.Cut(topic, ".")
		if p == ">" {
			return true
		}
		if (p != "*" && p != t) || moreP != moreT {
			return false
		}
		if !moreP {
			return true
		}
		pattern, topic = restP, restT
	}
}
