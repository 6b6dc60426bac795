package bench

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/internal/judge"
)

// measuredAs is a host with this spread and slow-down.
func measuredAs(spread, together, fixedUS float64) Measured {
	t := Times{N: 20, P50US: 200e3, P99US: 200e3 * spread, Spread: spread}
	calm := Times{N: 20, P50US: 200e3, P99US: 200e3, Spread: 1}
	return Measured{FixedUS: fixedUS, Programs: []Program{
		{Name: "a", Inside: Placed{Alone: calm, Together: t, Ratio: 1}},
		{Name: "b", Inside: Placed{Alone: calm, Together: calm, Ratio: together}},
	}}
}

func TestAdvise(t *testing.T) {
	t.Parallel()
	calm := judge.HostInfo{Processors: 8, Governor: "performance", Turbo: "off", SMT: "off"}
	with := func(change func(*judge.HostInfo)) judge.HostInfo {
		h := calm
		change(&h)
		return h
	}
	disturbed := measuredAs(1, 1, 5000)
	disturbed.Programs[0].Inside.Alone.Disturbed = 5
	stolen := measuredAs(1, 1, 5000)
	stolen.Steal = 0.02
	tests := map[string]struct {
		m        Measured
		host     judge.HostInfo
		margin   float64
		minLimit int64
		atOnce   int
		warnings string // a word of each, in order
	}{
		"calm":             {measuredAs(1, 1, 5000), calm, 1.15, 100_000, 8, ""},
		"faster_together":  {measuredAs(1, 0.9, 5000), calm, 1.15, 100_000, 8, ""},
		"step_of_margin":   {measuredAs(1.08, 1, 5000), calm, 1.2, 100_000, 8, "differ"},
		"limit_rounded_up": {measuredAs(1, 1, 5001), calm, 1.15, 110_000, 8, ""},
		"at_the_bound":     {measuredAs(1, 1.05, 5000), calm, 1.2, 100_000, 8, ""},
		"above_the_bound":  {measuredAs(1, 1.1, 5000), calm, 1.25, 100_000, 4, "beside"},
		"far_above":        {measuredAs(1.2, 2, 5000), calm, 2.7, 100_000, 1, "beside differ"},
		"one_processor":    {measuredAs(1, 1.5, 5000), judge.HostInfo{Processors: 1}, 1.7, 100_000, 1, "beside"},
		"nothing_known":    {measuredAs(1, 1, 5000), judge.HostInfo{}, 1.15, 100_000, 1, ""},
		"governor":         {measuredAs(1, 1, 5000), with(func(h *judge.HostInfo) { h.Governor = "powersave" }), 1.15, 100_000, 8, "powersave"},
		"turbo_smt": {
			measuredAs(1, 1, 5000), with(func(h *judge.HostInfo) { h.Turbo, h.SMT = "on", "on" }),
			1.15, 100_000, 8, "turbo SMT",
		},
		"virtual":   {measuredAs(1, 1, 5000), with(func(h *judge.HostInfo) { h.Virtual = true }), 1.15, 100_000, 8, "virtual"},
		"steal":     {stolen, calm, 1.15, 100_000, 8, "took"},
		"disturbed": {disturbed, calm, 1.15, 100_000, 8, "disturbed"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := Advise(tt.m, tt.host)
			if got.Margin != tt.margin || got.MinLimitUS != tt.minLimit || got.AtOnce != tt.atOnce {
				t.Errorf("got margin %v, limit %d, at once %d, want %v, %d, %d", got.Margin, got.MinLimitUS, got.AtOnce, tt.margin, tt.minLimit, tt.atOnce)
			}
			words := strings.Fields(tt.warnings)
			if len(words) != len(got.Warnings) {
				t.Fatalf("got warnings %+v, want %q", got.Warnings, words)
			}
			for i, w := range got.Warnings {
				if !strings.Contains(w.Text, words[i]) || w.Remedy == "" {
					t.Errorf("warning %d is %+v, want %q and a remedy", i, w, words[i])
				}
			}
		})
	}
}

func TestTimesLeaveOutDisturbedRuns(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		runs []timed
		want Times
	}{
		"none":           {nil, Times{}},
		"calm":           {[]timed{{us: 30}, {us: 10}, {us: 20}}, Times{N: 3, P50US: 20, P99US: 30, Spread: 1.5}},
		"one_disturbed":  {[]timed{{us: 10}, {us: 20}, {us: 90, disturbed: true}}, Times{N: 3, Disturbed: 1, P50US: 20, P99US: 20, Spread: 1}},
		"only_disturbed": {[]timed{{us: 10, disturbed: true}, {us: 20, disturbed: true}}, Times{N: 2, Disturbed: 2, P50US: 20, P99US: 20, Spread: 1}},
	}
	for name, tt := range tests {
		if got := timesOf(tt.runs); got != tt.want {
			t.Errorf("%s: got %+v, want %+v", name, got, tt.want)
		}
	}
}

func TestStealOf(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "stat")
	if err := os.WriteFile(file, []byte("cpu  1 2 3 4 5 6 7 8 9 9\ncpu0 1 1 1 1 1 1 1 1 1 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, want := stealOf(file), (stolen{steal: 8, all: 36}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := stealOf(file + "-missing"); got != (stolen{}) {
		t.Errorf("a missing file gives %+v", got)
	}
}

func TestSaveReplacesAndLeavesNothingBeside(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "judge", "calibration.json")
	for _, fixed := range []float64{1, 2} {
		c := Calibration{Host: judge.HostInfo{Fingerprint: "abc"}, Measured: Measured{FixedUS: fixed}}
		if err := c.Save(file); err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var back Calibration
		if err := json.Unmarshal(data, &back); err != nil || back.FixedUS != fixed || back.Host.Fingerprint != "abc" {
			t.Errorf("read back %+v, %v", back, err)
		}
	}
	entries, err := os.ReadDir(filepath.Dir(file))
	if err != nil || len(entries) != 1 {
		t.Errorf("the folder holds %v, %v", entries, err)
	}
}
