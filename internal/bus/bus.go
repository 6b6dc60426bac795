// Package bus wakes workers and carries live events, over NATS JetStream: a server
// within this process, or a cluster. Start with OpenEmbedded, Dial and Bus.
//
// The rows of the store are the truth. What goes over the bus may be lost: a
// wake-up is only a hint to look at the rows, and who follows events is told
// where some are missing, and looks at the rows too. The package knows nothing
// about what events mean.
package bus

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"assay/internal/fault"
)

// Names on the server, which may serve others as well.
const (
	streamName  = "ASSAY_EVENTS"
	eventPrefix = "assay.event."
	wakePrefix  = "assay.wake."
)

// Bounds of the stream of events: what is older or more is dropped.
const (
	keepFor    = time.Hour
	keepBytes  = 64 << 20
	keepEvents = 200_000
)

const (
	// requestTimeout bounds every question to the server.
	requestTimeout = 2 * time.Second
	dialTimeout    = 5 * time.Second
	reconnectWait  = 250 * time.Millisecond
	// A server that says nothing for pingEvery times pingsOut is gone.
	pingEvery = 5 * time.Second
	pingsOut  = 2
)

// Bus is a connection to the bus. It may be used from many goroutines. It
// reconnects by itself; meanwhile Publish fails with Unavailable at once, and
// wake-ups reach this process only.
type Bus struct {
	conn     *nats.Conn
	js       jetstream.JetStream
	replicas int
	embedded *embedded // nil if the server is elsewhere

	wakes wakes
	feed  feed
	// ends stops the goroutines, which tasks counts.
	ends  context.CancelFunc
	tasks sync.WaitGroup
}

// Dial connects to the servers of a cluster, "nats://user:password@host:4222",
// more of them after commas. ?replicas=3 has the cluster keep events three times
// (default: once). Close it. No error has the password in it.
func Dial(ctx context.Context, serverURL string) (*Bus, error) {
	servers, replicas, err := parseURL(serverURL)
	if err != nil {
		return nil, err
	}
	return open(ctx, &Bus{replicas: replicas}, servers)
}

func parseURL(serverURL string) (servers string, replicas int, err error) {
	bad := func(why string) error {
		return fault.Errorf(fault.Invalid, "the URL of NATS cannot be used: %s", why).WithHint("it looks like nats://user:password@host:4222, more servers after commas")
	}
	replicas = 1
	var list []string
	for text := range strings.SplitSeq(serverURL, ",") {
		u, err := url.Parse(strings.TrimSpace(text))
		// The error of url.Parse repeats the URL, and the password with it.
		if err != nil || (u.Scheme != "nats" && u.Scheme != "tls") || u.Host == "" {
			return "", 0, bad("it is no address of NATS")
		}
		for name, values := range u.Query() {
			n, err := strconv.Atoi(values[0])
			if name != "replicas" || err != nil || n < 1 || n > 5 {
				return "", 0, bad("it may have replicas=1 to 5 and nothing else after a question mark")
			}
			replicas = n
		}
		u.RawQuery = ""
		list = append(list, u.String())
	}
	return strings.Join(list, ","), replicas, nil
}

// open connects and starts what the bus does by itself.
func open(ctx context.Context, b *Bus, servers string, more ...nats.Option) (_ *Bus, err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, b.Close())
		}
	}()
	b.feed.again = make(chan struct{}, 1)
	options := append([]nats.Option{
		nats.Name("assay"), nats.Timeout(dialTimeout), nats.MaxReconnects(-1), nats.ReconnectWait(reconnectWait),
		nats.ReconnectJitter(reconnectWait, reconnectWait), nats.PingInterval(pingEvery), nats.MaxPingsOutstanding(pingsOut),
		// What is published while the server is gone fails, and is not kept here.
		nats.ReconnectBufSize(-1),
		nats.ReconnectHandler(func(*nats.Conn) { b.reconnected() }),
		// It is seen by whoever asks the server for something.
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}),
	}, more...)
	if b.conn, err = nats.Connect(servers, options...); err != nil {
		return b, fault.Errorf(fault.Unavailable, "connect to NATS: %w", err).WithHint("is it running, and are the URL and its password right?")
	}
	if b.js, err = jetstream.New(b.conn, jetstream.WithDefaultTimeout(requestTimeout)); err != nil {
		return b, fmt.Errorf("connect to NATS: %w", err)
	}
	// A cluster that has just started needs time to agree on who leads.
	var info *jetstream.StreamInfo
	for begin := time.Now(); ; {
		if info, err = b.stream(ctx); err == nil {
			break
		}
		if time.Since(begin) > dialTimeout || !pause(ctx, reconnectWait) {
			return b, explain("prepare the stream of events", err)
		}
	}
	b.feed.last = info.State.LastSeq
	if _, err = b.conn.Subscribe(wakePrefix+">", func(m *nats.Msg) { b.wakes.wake(strings.TrimPrefix(m.Subject, wakePrefix)) }); err != nil {
		return b, explain("listen for wake-ups", err)
	}
	// They end with Close, not with the context that opened the bus.
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	b.ends = cancel
	b.tasks.Go(func() { b.follow(running) })
	return b, nil
}

// reconnected makes up for what was lost meanwhile.
func (b *Bus) reconnected() {
	b.wakes.wakeAll()
	signal(b.feed.again)
}

// Ping asks whether events can be published now: Unavailable if not.
func (b *Bus) Ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	if !b.conn.IsConnected() || (b.embedded != nil && b.embedded.stuck.Load()) {
		return explain("ask NATS", nats.ErrDisconnected)
	}
	_, err := b.js.Stream(ctx, streamName)
	return explain("ask NATS", err)
}

// Close ends all subscriptions and the connection, and stops an embedded server.
// No other call may be running.
func (b *Bus) Close() error {
	if b.ends != nil {
		b.ends()
	}
	b.feed.close()
	b.tasks.Wait()
	if b.conn != nil {
		b.conn.Close()
	}
	if b.embedded != nil {
		b.embedded.stop()
	}
	return nil
}

// stream asks for the stream of events and makes it where it is missing.
func (b *Bus) stream(ctx context.Context) (*jetstream.StreamInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	s, err := b.js.Stream(ctx, streamName)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		s, err = b.js.CreateStream(ctx, jetstream.StreamConfig{
			Name: streamName, Subjects: []string{eventPrefix + ">"}, Description: "Live events of Assay. They may be lost.",
			Retention: jetstream.LimitsPolicy, Discard: jetstream.DiscardOld, Storage: jetstream.FileStorage, Replicas: b.replicas,
			MaxAge: keepFor, MaxBytes: keepBytes, MaxMsgs: keepEvents, MaxMsgSize: MaxData + 4096, AllowDirect: true,
			// A stream that is made again goes on above all numbers of the lost one:
			// it never has a million events a second.
			FirstSeq: uint64(time.Now().UnixMicro()),
		})
		if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
			// Another process made it at the same time.
			s, err = b.js.Stream(ctx, streamName)
		}
	}
	if err != nil {
		return nil, err
	}
	return s.CachedInfo(), nil
}

// explain gives an error of NATS its kind: all of them may go away.
func explain(doing string, err error) error {
	if err == nil || fault.KindOf(err) != fault.Internal || errors.Is(err, context.Canceled) {
		return err
	}
	return fault.Errorf(fault.Unavailable, "%s: %w", doing, err).WithHint("try again; is NATS running, with JetStream?")
}

// pause waits, and says whether the context still goes on.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// signal fills a channel of one place; one signal is as good as many.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
