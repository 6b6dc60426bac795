// Package bench measures the engine on this host and gives every figure beside
// a unit of the same run: the cost of a native fork and exec of /bin/true.
// Hosts are noisy and unlike; ratios to that unit can be compared. Start with
// Sandbox and Judge.
//
// It measures through the same calls that users make and must not know any
// driver.
package bench

import (
	"context"
	"slices"
	"time"
)

// Row is one measured thing.
type Row struct {
	Name string `json:"name"`
	N    int    `json:"n"`
	// Percentiles in microseconds, or in bytes where Unit says so.
	P50 float64 `json:"p50"`
	P95 float64 `json:"p95"`
	P99 float64 `json:"p99"`
	// Unit is "us", "bytes", "x" (a ratio) or "rate" (in a second).
	Unit string `json:"unit"`
	// Units is P50 in units of the run; 0 where it means nothing.
	Units float64 `json:"units,omitempty"`
	// Target is what Units (or P50, where there are no Units) should not
	// exceed; 0 is none.
	Target float64 `json:"target,omitempty"`
	// AtLeast turns the target about: more is better.
	AtLeast bool `json:"at_least,omitempty"`
}

// Met reports whether a row keeps its target.
func (r Row) Met() bool {
	switch {
	case r.Target == 0:
		return true
	case r.AtLeast:
		return r.P50 >= r.Target
	case r.Units > 0:
		return r.Units <= r.Target
	default:
		return r.P50 <= r.Target
	}
}

// Report is one run of a benchmark.
type Report struct {
	// UnitUS is the median cost of a native fork and exec of /bin/true before
	// and after the measurements, in microseconds.
	UnitUS float64 `json:"unit_us"`
	// UnitSpread is how far the two lie apart: above 1.2 the host was not calm.
	UnitSpread float64 `json:"unit_spread"`
	Rows       []Row   `json:"rows"`
}

// percentile gives the q-quantile of sorted values.
func percentile(sorted []float64, q float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}

func row(name, unit string, values []float64, target float64) Row {
	slices.Sort(values)
	return Row{
		Name: name, N: len(values), Unit: unit, Target: target,
		P50: percentile(values, 0.50), P95: percentile(values, 0.95), P99: percentile(values, 0.99),
	}
}

// sample calls f n times and gives what it measured, in microseconds.
func sample(ctx context.Context, n int, f func() (time.Duration, error)) ([]float64, error) {
	values := make([]float64, 0, n)
	for range n {
		if err := context.Cause(ctx); err != nil {
			return nil, err
		}
		d, err := f()
		if err != nil {
			return nil, err
		}
		values = append(values, float64(d.Nanoseconds())/1e3)
	}
	return values, nil
}
