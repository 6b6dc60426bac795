package bench

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"assay/internal/judge"
)

// Times are the processor times of equal runs of one program, in microseconds.
type Times struct {
	// N counts the runs, Disturbed those of them that the host disturbed.
	N         int `json:"n"`
	Disturbed int `json:"disturbed"`
	// The percentiles are of the runs that were not disturbed, as the judge
	// repeats the others; of all, where there are no such runs.
	P50US float64 `json:"p50_us"`
	P99US float64 `json:"p99_us"`
	// Spread is P99US / P50US.
	Spread float64 `json:"spread"`
}

// Placed is one program, alone on the host and with one on each processor.
type Placed struct {
	Alone    Times `json:"alone"`
	Together Times `json:"together"`
	// Ratio is how many times as long it takes together, by the medians.
	Ratio float64 `json:"ratio"`
}

// Program is one program in the judge's machines and without them. Native is
// nil where the host has no compiler.
type Program struct {
	Name   string  `json:"name"`
	Inside Placed  `json:"inside"`
	Native *Placed `json:"native,omitempty"`
	// Ratio is inside / native, both alone, by the medians; 0 without native.
	Ratio float64 `json:"ratio,omitempty"`
}

// Measured is what Calibrate measured.
type Measured struct {
	Programs []Program `json:"programs"`
	// FixedUS is the counted time of a program that does nothing, in microseconds.
	FixedUS float64 `json:"fixed_us"`
	// Steal is the part of the processors' time that the host's host took.
	Steal float64 `json:"steal"`
}

// Calibration is what is known about the times of a host.
type Calibration struct {
	Host   judge.HostInfo `json:"host"`
	At     time.Time      `json:"at"`
	Advice Advice         `json:"advice"`
	Measured
}

// timed is one run's processor time.
type timed struct {
	us        float64
	disturbed bool
}

func timesOf(runs []timed) Times {
	t := Times{N: len(runs)}
	var calm, all []float64
	for _, r := range runs {
		all = append(all, r.us)
		if r.disturbed {
			t.Disturbed++
		} else {
			calm = append(calm, r.us)
		}
	}
	if len(calm) == 0 {
		calm = all
	}
	slices.Sort(calm)
	t.P50US, t.P99US = percentile(calm, 0.50), percentile(calm, 0.99)
	t.Spread = ratio(t.P99US, t.P50US)
	return t
}

func placed(alone, together []timed) Placed {
	p := Placed{Alone: timesOf(alone), Together: timesOf(together)}
	p.Ratio = ratio(p.Together.P50US, p.Alone.P50US)
	return p
}

func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

// spread is the worst of the programs in the judge's machines, at least 1.
func (m Measured) spread() float64 {
	worst := 1.0
	for _, p := range m.Programs {
		worst = max(worst, p.Inside.Alone.Spread, p.Inside.Together.Spread)
	}
	return worst
}

// together is how many times as long the worst program takes beside others.
func (m Measured) together() float64 {
	worst := 0.0
	for _, p := range m.Programs {
		worst = max(worst, p.Inside.Ratio)
	}
	return worst
}

// disturbed is the part of the runs inside that the host disturbed.
func (m Measured) disturbed() float64 {
	var n, bad int
	for _, p := range m.Programs {
		n += p.Inside.Alone.N + p.Inside.Together.N
		bad += p.Inside.Alone.Disturbed + p.Inside.Together.Disturbed
	}
	return ratio(float64(bad), float64(n))
}

// Save keeps a calibration in a file, in place of the one before. The folder is
// made if need be; the file is there whole or not at all.
func (c Calibration) Save(file string) error {
	data, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return fmt.Errorf("write calibration: %w", err)
	}
	dir := filepath.Dir(file)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("keep calibration: %w", err)
	}
	f, err := os.CreateTemp(dir, ".calibration-")
	if err != nil {
		return fmt.Errorf("keep calibration: %w", err)
	}
	defer func() { _ = os.Remove(f.Name()) }() // it is not there any more once it was renamed
	_, err = f.Write(append(data, '\n'))
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = os.Rename(f.Name(), file)
	}
	if err != nil {
		return fmt.Errorf("keep calibration: %w", err)
	}
	return nil
}
