package bus_test

import (
	"net"
	"strings"
	"testing"
	"time"

	"assay/internal/bus"
	"assay/internal/bus/bustest"
	"assay/internal/fault"
)

func closeLater(t *testing.T, b *bus.Bus) {
	t.Helper()
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestEmbedded(t *testing.T) {
	t.Parallel()
	bustest.Run(t, func(t *testing.T) bustest.Opened {
		b, err := bus.OpenEmbedded(t.Context(), t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		closeLater(t, b)
		return bustest.Opened{Bus: b, Stop: b.StopServer, Start: func(lost bool) {
			if err := b.StartServer(lost); err != nil {
				t.Error(err)
			}
		}}
	})
}

func dial(t *testing.T, e *bustest.Server) *bus.Bus {
	t.Helper()
	b, err := bus.Dial(t.Context(), e.URL())
	if err != nil {
		t.Fatal(err)
	}
	closeLater(t, b)
	return b
}

func TestExternal(t *testing.T) {
	t.Parallel()
	bustest.Run(t, func(t *testing.T) bustest.Opened {
		e := bustest.NATS(t)
		return bustest.Opened{Bus: dial(t, e), Stop: e.Stop, Start: func(lost bool) { e.Start(t, lost) }}
	})
}

// TestProcessesHearEachOther has two connections to one server.
func TestProcessesHearEachOther(t *testing.T) {
	t.Parallel()
	e := bustest.NATS(t)
	a, b := dial(t, e), dial(t, e)
	events, err := b.Subscribe(t.Context(), "x", 0)
	if err != nil {
		t.Fatal(err)
	}
	woken, stop, err := b.Waits("judge")
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	seq, err := a.Publish(t.Context(), "x", []byte("hello"))
	if err != nil {
		t.Fatal(err)
	}
	if got := <-events; got.Seq != seq || string(got.Data) != "hello" {
		t.Errorf("got %+v, want number %d", got, seq)
	}
	a.Wake("judge")
	select {
	case <-woken:
	case <-time.After(time.Minute):
		t.Error("the other process was not woken")
	}
}

// TestEmbeddedKeepsEvents has a process end and the next one go on.
func TestEmbeddedKeepsEvents(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b, err := bus.OpenEmbedded(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	var seqs []uint64
	for range 3 {
		seq, err := b.Publish(t.Context(), "x", nil)
		if err != nil {
			t.Fatal(err)
		}
		seqs = append(seqs, seq)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if b, err = bus.OpenEmbedded(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	closeLater(t, b)
	events, err := b.Subscribe(t.Context(), "x", seqs[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range seqs[1:] {
		if got := <-events; got.Seq != want || got.Gap {
			t.Errorf("got %+v, want number %d", got, want)
		}
	}
}

func TestDialRefusals(t *testing.T) {
	t.Parallel()
	e := bustest.NATS(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	for text, want := range map[string]fault.Kind{
		"": fault.Invalid, "http://me:hush@h": fault.Invalid, "nats://me:hush@h:port": fault.Invalid, "nats://me:hush%zz@h": fault.Invalid, "nats://": fault.Invalid,
		"nats://me:hush@h?replicas=9": fault.Invalid, "nats://me:hush@h?token=hush": fault.Invalid, "nats://me:hush@h,http://x": fault.Invalid,
		"nats://me:hush@" + l.Addr().String():                fault.Unavailable,
		strings.Replace(e.URL(), "assay:hush", "me:hush", 1): fault.Unavailable,
	} {
		_, err := bus.Dial(t.Context(), text)
		if !fault.Is(err, want) || fault.HintOf(err) == "" {
			t.Errorf("%s: %v (%s), want %s", text, err, fault.KindOf(err), want)
			continue
		}
		if strings.Contains(err.Error()+fault.HintOf(err), "hush") {
			t.Errorf("the password is in %q", err)
		}
	}
}
