package gvisor

import (
	"bytes"
	"io"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"assay/internal/guest"
	"assay/internal/sandbox"
)

// TestPingPongRate compares a wire with a relay through two execs' streams, in
// the same run: round trips per second, medians.
func TestPingPongRate(t *testing.T) {
	const trips, rounds = 300, 5
	e := newEngine(t, nil)
	own := e.create(sandbox.Spec{Dedicated: true, Cores: 1, BesideMemory: e.template.Shape.Memory})
	beside := e.create(sandbox.Spec{Beside: own})
	defer beside.Destroy()
	together := func() float64 { return pingPong(t, e, own, beside, trips) }
	rate := map[string]float64{"wire, one core": median(rounds, together)}
	rate["relay, one core"] = median(rounds, func() float64 { return relayed(t, own, beside, trips) })
	if err := own.Destroy(); err != nil {
		t.Fatal(err)
	}
	a, b := e.create(sandbox.Spec{}), e.create(sandbox.Spec{})
	rate["wire, free"] = median(rounds, func() float64 { return pingPong(t, e, a, b, trips) })
	rate["relay, free"] = median(rounds, func() float64 { return relayed(t, a, b, trips) })
	for name, r := range rate {
		t.Logf("%s: %.0f round trips/s", name, r)
	}
	if best := max(rate["wire, one core"], rate["wire, free"]); best < rate["relay, free"] {
		t.Errorf("a relay is faster: %v", rate)
	}
}

func median(n int, f func() float64) float64 {
	var list []float64
	for range n {
		list = append(list, f())
	}
	return quantile(list, 0.5)
}

// pingPong gives round trips per second over a wire.
func pingPong(t *testing.T, e *engine, a, b *sandbox.Sandbox, trips int) float64 {
	t.Helper()
	w, err := e.Connect(t.Context(), a, b)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	return talk(t, a, b, trips, w.Name, guest.IO{}, guest.IO{}, w.ReleaseA)
}

// relayed gives them through the host.
func relayed(t *testing.T, a, b *sandbox.Sandbox, trips int) float64 {
	t.Helper()
	fromA, toB := io.Pipe()
	fromB, toA := io.Pipe()
	return talk(t, a, b, trips, "", guest.IO{Stdin: fromB, Stdout: toB}, guest.IO{Stdin: fromA, Stdout: toA}, func() { _ = toB.Close() })
}

func talk(t *testing.T, a, b *sandbox.Sandbox, trips int, wire string, ioA, ioB guest.IO, release func()) float64 {
	t.Helper()
	var said bytes.Buffer
	ioA.Stderr = &said
	spec := func(args ...string) sandbox.ExecSpec {
		return sandbox.ExecSpec{Argv: probe(args...), Wire: wire, Limits: sandbox.Limits{Wall: time.Minute}}
	}
	var other sync.WaitGroup
	other.Go(func() { _, _ = b.Exec(t.Context(), spec("pong"), ioB) })
	res, err := a.Exec(t.Context(), spec("ping", strconv.Itoa(trips)), ioA)
	release()
	other.Wait()
	us, _ := strconv.Atoi(strings.TrimSpace(said.String()))
	if err != nil || res.Exit.Code != 0 || us == 0 {
		t.Fatalf("%+v, %v: %s", res.Exit, err, said.String())
	}
	return float64(trips) / (float64(us) / 1e6)
}
