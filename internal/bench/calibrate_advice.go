package bench

import (
	"fmt"
	"math"
	"time"

	"assay/internal/judge"
)

// Advice is what is safe on a host.
type Advice struct {
	// Margin is how many times the slowest accepted solution, measured alone, the
	// time limit should be at least, for verdicts that do not change.
	Margin float64 `json:"margin"`
	// MinLimitUS is the smallest time limit that makes sense, in microseconds.
	MinLimitUS int64 `json:"min_limit_us"`
	// AtOnce is how many submissions to judge at the same time.
	AtOnce   int       `json:"at_once"`
	Warnings []Warning `json:"warnings"`
}

// Warning is something that makes times less sure, and what to do about it.
type Warning struct {
	Text   string `json:"text"`
	Remedy string `json:"remedy"`
}

const (
	// knifeEdge is where the judge begins to repeat runs, as a part of the limit.
	knifeEdge = 0.9
	// fixedShare is how much of the limit a run may cost by itself.
	fixedShare = 0.05
	// togetherMost is how much slower a program may get from others beside it.
	togetherMost = 1.05
	// disturbedMost and stealMost are the shares that a calm host stays below.
	disturbedMost, stealMost = 0.05, 0.01
	// spreadMost is the p99 / p50 that a good host stays below.
	spreadMost = 1.05
	// limitStep is what limits are rounded up to.
	limitStep = 10 * time.Millisecond
)

// Advise says what is safe on a host where this was measured. It looks at no
// clock and no file.
func Advise(m Measured, host judge.HostInfo) Advice {
	cores := max(host.Processors, 1)
	// The slowest accepted solution, in its slowest run beside others, still has
	// to lie below where the judge begins to repeat.
	spread, together := m.spread(), max(m.together(), 1)
	a := Advice{
		Margin:     roundUp(spread*together/knifeEdge, 0.05),
		MinLimitUS: int64(roundUp(m.FixedUS/fixedShare, float64(limitStep.Microseconds()))),
		AtOnce:     cores,
		Warnings:   []Warning{},
	}
	if together > togetherMost {
		// Each one beside it slows a program down by about as much as another.
		each := (together - 1) / float64(max(cores-1, 1))
		a.AtOnce = min(1+int((togetherMost-1)/each), cores)
	}
	warn := func(is bool, remedy, format string, args ...any) {
		if is {
			a.Warnings = append(a.Warnings, Warning{fmt.Sprintf(format, args...), remedy})
		}
	}
	warn(host.Governor != "" && host.Governor != "performance",
		"cpupower frequency-set -g performance", "the processors' clock is governed by %q", host.Governor)
	warn(host.Turbo == "on",
		"write 1 to /sys/devices/system/cpu/intel_pstate/no_turbo, or 0 to /sys/devices/system/cpu/cpufreq/boost",
		"turbo is on: a core is faster when the others rest")
	warn(host.SMT == "on",
		"write off to /sys/devices/system/cpu/smt/control, or judge half as many at once", "SMT is on: two processors share one core")
	warn(host.Virtual,
		"judge on hardware of its own, or on a virtual machine with pinned, dedicated processors",
		"this host is a virtual machine: what else runs on its host cannot be seen")
	warn(m.Steal > stealMost,
		"ask whoever runs this virtual machine for dedicated processors", "the host's own host took %.1f %% of the processors' time", 100*m.Steal)
	warn(m.disturbed() > disturbedMost,
		"end what else runs here, and calibrate again", "others disturbed %.0f %% of the runs", 100*m.disturbed())
	warn(together > togetherMost,
		fmt.Sprintf("assay judge --jobs %d", a.AtOnce), "a program takes %.2f times as long beside others as alone", together)
	warn(spread > spreadMost,
		"keep the margin, and see to the other warnings", "equal runs differ: p99 is %.3f times p50", spread)
	return a
}

// roundUp gives the next multiple of step, and does not take a rounding error
// for a step.
func roundUp(v, step float64) float64 {
	n := math.Ceil(v/step - 1e-9)
	return math.Round(n*step*1e6) / 1e6
}
