// Package bustest is the one suite that the bus must pass whatever its server
// is. Start with Run.
//
// It must not know how a server is started.
package bustest

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"assay/internal/bus"
	"assay/internal/fault"
)

// Opened is a bus and what can happen to its server.
type Opened struct {
	*bus.Bus
	// Stop stops the server.
	Stop func()
	// Start starts it again; lost is without anything it kept.
	Start func(lost bool)
}

// Run runs the suite. open gives a new bus on a server of its own each time; it
// is closed by the test's cleanup.
func Run(t *testing.T, open func(t *testing.T) Opened) {
	tests := []struct {
		name string
		run  func(t *testing.T, b Opened)
	}{
		{"PublishedIsSeen", publishedIsSeen},
		{"PatternsChoose", patternsChoose},
		{"SinceCatchesUp", sinceCatchesUp},
		{"NoneTwiceNoneMissing", noneTwiceNoneMissing},
		{"SlowReaderIsCut", slowReaderIsCut},
		{"UnknownNumberIsAGap", unknownNumberIsAGap},
		{"BadInput", badInput},
		{"SubscriptionEnds", subscriptionEnds},
		{"WakeUps", wakeUps},
		{"ServerGone", serverGone},
		{"ServerLostEverything", serverLostEverything},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.run(t, open(t))
		})
	}
}

// patience is how long anything may take on a busy host.
const patience = 60 * time.Second

func subscribe(t *testing.T, b *bus.Bus, pattern string, since uint64) <-chan bus.Event {
	t.Helper()
	c, err := b.Subscribe(t.Context(), pattern, since)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func publish(t *testing.T, b *bus.Bus, topic, data string) uint64 {
	t.Helper()
	seq, err := b.Publish(t.Context(), topic, []byte(data))
	if err != nil {
		t.Fatal(err)
	}
	return seq
}

func next(t *testing.T, c <-chan bus.Event) bus.Event {
	t.Helper()
	select {
	case e, ok := <-c:
		if !ok {
			t.Fatal("the subscription has ended")
		}
		return e
	case <-time.After(patience):
		t.Fatal("no event came")
	}
	panic("unreachable")
}

func wantKind(t *testing.T, what string, err error, kind fault.Kind) {
	t.Helper()
	if !fault.Is(err, kind) {
		t.Errorf("%s: %v (%s), want %s", what, err, fault.KindOf(err), kind)
	}
}

func publishedIsSeen(t *testing.T, b Opened) {
	one, two := subscribe(t, b.Bus, "a.b", 0), subscribe(t, b.Bus, "a.b", 0)
	last := uint64(0)
	for i := range 50 {
		seq := publish(t, b.Bus, "a.b", strconv.Itoa(i))
		if seq <= last {
			t.Errorf("number %d after %d", seq, last)
		}
		last = seq
		for _, c := range []<-chan bus.Event{one, two} {
			if e := next(t, c); e.Seq != seq || e.Topic != "a.b" || string(e.Data) != strconv.Itoa(i) || e.Gap || time.Since(e.At).Abs() > time.Minute {
				t.Errorf("got %+v, want number %d", e, seq)
			}
		}
	}
	if err := b.Ping(t.Context()); err != nil {
		t.Error(err)
	}
}

func patternsChoose(t *testing.T, b Opened) {
	topics := []string{"run", "run.1", "run.2", "run.1.case", "job.1"}
	want := map[string][]string{
		"run": {"run"}, "run.1": {"run.1"}, "run.*": {"run.1", "run.2"}, "run.>": {"run.1", "run.2", "run.1.case"},
		"*.1": {"run.1", "job.1"}, ">": topics, "*": {"run"}, "*.*.case": {"run.1.case"}, "none": nil,
	}
	live := map[string]<-chan bus.Event{}
	for pattern := range want {
		live[pattern] = subscribe(t, b.Bus, pattern, 0)
	}
	first := publish(t, b.Bus, "first", "")
	for _, topic := range topics {
		publish(t, b.Bus, topic, "")
	}
	for pattern, topics := range want {
		for name, c := range map[string]<-chan bus.Event{"live": live[pattern], "since": subscribe(t, b.Bus, pattern, first)} {
			for _, topic := range topics {
				e := next(t, c)
				if e.Topic == "first" {
					e = next(t, c)
				}
				if e.Topic != topic {
					t.Errorf("%s %s: got %s, want %s", name, pattern, e.Topic, topic)
				}
			}
			select {
			case e := <-c:
				t.Errorf("%s %s: got %s too", name, pattern, e.Topic)
			default:
			}
		}
	}
}

func sinceCatchesUp(t *testing.T, b Opened) {
	var seqs []uint64
	for i := range 10 {
		seqs = append(seqs, publish(t, b.Bus, "run.1", strconv.Itoa(i)))
		publish(t, b.Bus, "run.2", "other")
	}
	c := subscribe(t, b.Bus, "run.1", seqs[3])
	for i := 4; i < 10; i++ {
		if e := next(t, c); e.Seq != seqs[i] || e.Gap {
			t.Errorf("got %+v, want number %d", e, seqs[i])
		}
	}
	seq := publish(t, b.Bus, "run.1", "live")
	if e := next(t, c); e.Seq != seq {
		t.Errorf("got %+v, want number %d", e, seq)
	}
}

// noneTwiceNoneMissing has readers come while events are published.
func noneTwiceNoneMissing(t *testing.T, b Opened) {
	const events = 400
	begin := publish(t, b.Bus, "x", "begin")
	published := make(chan []uint64, 1)
	go func() {
		var seqs []uint64
		for i := range events {
			seq, err := b.Publish(t.Context(), "x", []byte(strconv.Itoa(i)))
			if err != nil {
				t.Error(err)
			}
			seqs = append(seqs, seq)
		}
		published <- seqs
	}()
	got := make([][]bus.Event, 8)
	var wg sync.WaitGroup
	for i := range got {
		wg.Go(func() {
			c, err := b.Subscribe(t.Context(), "x", begin)
			if err != nil {
				t.Error(err)
				return
			}
			for len(got[i]) < events {
				select {
				case e := <-c:
					got[i] = append(got[i], e)
				case <-time.After(patience):
					t.Error("no event came")
					return
				}
			}
		})
	}
	wg.Wait()
	want := <-published
	for _, list := range got {
		for i, e := range list {
			if e.Seq != want[i] || e.Gap {
				t.Fatalf("event %d is %+v, want number %d", i, e, want[i])
			}
		}
	}
}

func slowReaderIsCut(t *testing.T, b Opened) {
	slow, quick := subscribe(t, b.Bus, "x", 0), subscribe(t, b.Bus, "x", 0)
	const events = 1500
	for i := range events {
		publish(t, b.Bus, "x", strconv.Itoa(i))
		if e := next(t, quick); string(e.Data) != strconv.Itoa(i) || e.Gap {
			t.Fatalf("the quick reader has %+v, want %d", e, i)
		}
	}
	gaps, last := 0, uint64(0)
	end := publish(t, b.Bus, "x", "end")
	for last != end {
		e := next(t, slow)
		if e.Seq <= last {
			t.Errorf("number %d after %d", e.Seq, last)
		}
		if last != 0 && e.Seq != last+1 && !e.Gap {
			t.Errorf("number %d after %d without a gap", e.Seq, last)
		}
		if last = e.Seq; e.Gap {
			gaps++
		}
	}
	if gaps == 0 {
		t.Error("the slow reader saw no gap")
	}
}

func unknownNumberIsAGap(t *testing.T, b Opened) {
	seq := publish(t, b.Bus, "x", "")
	for _, since := range []uint64{1, seq + 1_000_000} {
		c := subscribe(t, b.Bus, "x", since)
		if e := next(t, c); !e.Gap {
			t.Errorf("since %d: got %+v, want a gap", since, e)
		}
	}
}

func badInput(t *testing.T, b Opened) {
	for _, topic := range []string{"", ".", "a.", ".a", "a..b", "a b", "a.*", "a.>", "ä", "a\r\nPUB x", "$JS.API"} {
		_, err := b.Publish(t.Context(), topic, nil)
		wantKind(t, "publish to "+topic, err, fault.Invalid)
	}
	for _, pattern := range []string{"", "a..b", "a.>.b", "a*", "a b", ">.a"} {
		_, err := b.Subscribe(t.Context(), pattern, 0)
		wantKind(t, "subscribe to "+pattern, err, fault.Invalid)
	}
	if _, err := b.Publish(t.Context(), "x", bytes.Repeat([]byte("x"), bus.MaxData)); err != nil {
		t.Errorf("as much as is allowed: %v", err)
	}
	_, err := b.Publish(t.Context(), "x", bytes.Repeat([]byte("x"), bus.MaxData+1))
	wantKind(t, "too much", err, fault.Exhausted)
	_, _, err = b.Waits("a b")
	wantKind(t, "wait for no kind", err, fault.Invalid)
}

func subscriptionEnds(t *testing.T, b Opened) {
	ctx, cancel := context.WithCancel(t.Context())
	mine, err := b.Subscribe(ctx, "x", 0)
	if err != nil {
		t.Fatal(err)
	}
	other := subscribe(t, b.Bus, "x", 0)
	cancel()
	ended(t, "after its context", mine)
	publish(t, b.Bus, "x", "")
	next(t, other)
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	ended(t, "after the bus", other)
	_, err = b.Subscribe(t.Context(), "x", 0)
	wantKind(t, "subscribe to a closed bus", err, fault.Unavailable)
}

func ended(t *testing.T, what string, c <-chan bus.Event) {
	t.Helper()
	select {
	case e, ok := <-c:
		if ok {
			t.Errorf("%s: got %+v, want it to be closed", what, e)
		}
	case <-time.After(patience):
		t.Errorf("%s: it does not end", what)
	}
}

func woken(t *testing.T, what string, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(patience):
		t.Fatalf("%s: nobody was woken", what)
	}
}

func waits(t *testing.T, b *bus.Bus, kind string) <-chan struct{} {
	t.Helper()
	c, stop, err := b.Waits(kind)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return c
}

func wakeUps(t *testing.T, b Opened) {
	one, two, other := waits(t, b.Bus, "judge"), waits(t, b.Bus, "judge"), waits(t, b.Bus, "grade")
	gone, stop, err := b.Waits("judge")
	if err != nil {
		t.Fatal(err)
	}
	stop()
	for range 1000 {
		b.Wake("judge")
	}
	woken(t, "the first", one)
	woken(t, "the second", two)
	for name, c := range map[string]<-chan struct{}{"another kind": other, "who stopped": gone} {
		select {
		case <-c:
			t.Errorf("%s was woken", name)
		default:
		}
	}
}

// eventually tries until it succeeds.
func eventually(t *testing.T, what string, try func() error) {
	t.Helper()
	end := time.Now().Add(patience)
	for {
		err := try()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s: %v", what, err)
		}
		<-time.After(20 * time.Millisecond)
	}
}

func serverGone(t *testing.T, b Opened) {
	c := subscribe(t, b.Bus, "x", 0)
	first := publish(t, b.Bus, "x", "before")
	next(t, c)
	w := waits(t, b.Bus, "judge")
	b.Stop()
	begin := time.Now()
	_, err := b.Publish(t.Context(), "x", nil)
	wantKind(t, "publish", err, fault.Unavailable)
	wantKind(t, "ping", b.Ping(t.Context()), fault.Unavailable)
	if took := time.Since(begin); took > patience/2 {
		t.Errorf("it took %s to say that the server is gone", took)
	}
	b.Wake("judge")
	woken(t, "in this process, without a server", w)
	b.Start(false)
	woken(t, "when the server is back", w)
	var seq uint64
	eventually(t, "publish again", func() (err error) {
		seq, err = b.Publish(t.Context(), "x", []byte("after"))
		return err
	})
	if seq <= first {
		t.Errorf("number %d after %d", seq, first)
	}
	for {
		e := next(t, c)
		if e.Gap {
			t.Errorf("a gap at %d, though the server kept everything", e.Seq)
		}
		if e.Seq >= seq {
			break
		}
	}
	eventually(t, "ping again", func() error { return b.Ping(t.Context()) })
}

func serverLostEverything(t *testing.T, b Opened) {
	c := subscribe(t, b.Bus, "x", 0)
	first := publish(t, b.Bus, "x", "before")
	next(t, c)
	b.Stop()
	b.Start(true)
	var seq uint64
	eventually(t, "publish again", func() (err error) {
		seq, err = b.Publish(t.Context(), "x", []byte("after"))
		return err
	})
	if seq <= first {
		t.Errorf("number %d after %d", seq, first)
	}
	if e := next(t, c); !e.Gap {
		t.Errorf("got %+v, want a gap", e)
	}
	// What was published first may belong to the gap still.
	for i := range 3 {
		seq = publish(t, b.Bus, "x", fmt.Sprint(i))
	}
	for {
		if e := next(t, c); e.Seq == seq && !e.Gap {
			break
		}
	}
	if e := next(t, subscribe(t, b.Bus, "x", first)); !e.Gap {
		t.Errorf("since before that: got %+v, want a gap", e)
	}
}
