package app

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"assay/internal/bus"
	"assay/internal/guest"
	"assay/internal/sandbox"
	"assay/internal/work"
)

// gathered are the values of counters and gauges, by name and labels.
func gathered(t *testing.T, r *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := f.GetName()
			for _, l := range m.GetLabel() {
				name += " " + l.GetName() + "=" + l.GetValue()
			}
			values[name] = m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return values
}

func TestMetersCountWhatTheEngineDoes(t *testing.T) {
	t.Parallel()
	r := prometheus.NewRegistry()
	o := newMeters(r).engine()
	o.Made("base", sandbox.BootPool, time.Second, nil)
	o.Made("base", sandbox.BootPool, time.Second, nil)
	o.Made("base", "", time.Second, errors.New("no room"))
	o.Ran(guest.WallLimit)
	want := map[string]float64{
		"assay_sandboxes_created_total boot_mode=pool template=base": 2, "assay_sandboxes_failed_total template=base": 1,
		"assay_sandbox_create_seconds boot_mode=pool": 2, "assay_execs_total cause=wall_limit": 1,
	}
	if diff := cmp.Diff(want, gathered(t, r)); diff != "" {
		t.Errorf("want -, got +:\n%s", diff)
	}
}

// TestPartThatHangsHidesNoOther: what does not answer is the only one that looks
// gone.
func TestPartThatHangsHidesNoOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hangs := func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		}
		answers := func(ctx context.Context) error { return ctx.Err() }
		got := askAll(t.Context(), time.Second, map[string]func(context.Context) error{"a": answers, "b": hangs, "c": answers})
		if len(got) != 3 || got["a"] != nil || got["b"] == nil || got["c"] != nil {
			t.Errorf("got %v, want b to be gone", got)
		}
	})
}

func TestStateTellsTheQueueAndWhatAnswers(t *testing.T) {
	t.Parallel()
	s, dir := sweeper(t)
	b, err := bus.OpenEmbedded(t.Context(), filepath.Join(dir, "bus"))
	if err != nil {
		t.Fatal(err)
	}
	s.bus = b
	for _, id := range []string{"a", "b"} {
		if err := s.db.Work().Enqueue(t.Context(), work.Job{ID: id, Kind: "judge", Created: time.Now().Add(-time.Minute)}); err != nil {
			t.Fatal(err)
		}
	}
	r := prometheus.NewRegistry()
	r.MustRegister(state{s})
	got := gathered(t, r)
	if age := got["assay_queue_oldest_seconds kind=judge"]; age < 60 || age > 600 {
		t.Errorf("the oldest job has waited for %v s, want a minute", age)
	}
	delete(got, "assay_queue_oldest_seconds kind=judge")
	want := map[string]float64{"assay_jobs kind=judge state=queued": 2, "assay_up part=database": 1, "assay_up part=events": 1, "assay_up part=blobs": 1}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("want -, got +:\n%s", diff)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if up := gathered(t, r)["assay_up part=events"]; up != 0 {
		t.Error("events whose bus is closed count as up")
	}
}
