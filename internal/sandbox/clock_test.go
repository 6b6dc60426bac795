package sandbox

import (
	"testing"
	"time"
)

// TestDisturbance: two hundredths of what was used, and never less than two of
// the host's ticks.
func TestDisturbance(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	for _, tt := range []struct {
		name                string
		used, waited, steal time.Duration
		disturbed           bool
	}{
		{"nothing", 200 * ms, 0, 0, false},
		{"short-within-ticks", 200 * ms, 20 * ms, 20 * ms, false},
		{"short-beyond-ticks", 200 * ms, 21 * ms, 0, true},
		{"long-within-share", 5 * time.Second, 100 * ms, 100 * ms, false},
		{"long-beyond-share", 5 * time.Second, 101 * ms, 0, true},
		{"stolen", 5 * time.Second, 0, 101 * ms, true},
		{"others-less-than-nothing", 200 * ms, -30 * ms, 0, false},
	} {
		if got := disturbance(tt.used, 2*tt.used, tt.waited, tt.steal); (got != "") != tt.disturbed {
			t.Errorf("%s: %q", tt.name, got)
		}
	}
}

// TestProcessors reads the host's own counts.
func TestProcessors(t *testing.T) {
	t.Parallel()
	cores, err := newCores(nil)
	if err != nil {
		t.Fatal(err)
	}
	busy, steal := processors(cores.all)
	if busy <= 0 || steal < 0 {
		t.Errorf("all processors: busy %v, stolen %v", busy, steal)
	}
	if one, _ := processors(cores.all[:1]); one <= 0 || one > busy {
		t.Errorf("the first processor: busy %v of %v", one, busy)
	}
	if none, _ := processors(nil); none != 0 {
		t.Errorf("no processor: busy %v", none)
	}
}
