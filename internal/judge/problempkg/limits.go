package problempkg

import (
	"math"
	"strings"
	"time"
)

// takeLimits reads the limits of both formats.
func (m *metadata) takeLimits(t *tree, limits field) error {
	fields, err := limits.fields()
	if err != nil {
		return err
	}
	for _, f := range fields {
		m.seen[f.key] = true
		if err := m.takeLimit(t, f); err != nil {
			return err
		}
	}
	return nil
}

func (m *metadata) takeLimit(t *tree, f field) (err error) {
	switch strings.TrimPrefix(f.key, "limits.") {
	case "time_limit":
		m.limits.CPU, err = f.seconds()
	case "time_resolution":
		m.inference.Resolution, err = f.seconds()
	case "time_multipliers":
		return m.takeMultipliers(t, f)
	case "time_multiplier":
		m.inference.AcceptFactor, err = f.number(maxFactor)
	case "time_safety_margin":
		m.inference.RejectFactor, err = f.number(maxFactor)
	case "memory":
		m.limits.Memory, err = f.size(maxMiB, 1<<20)
	case "output":
		m.limits.Output, err = f.size(maxMiB, 1<<20)
	case "code":
		m.limits.Code, err = f.size(maxKiB, 1<<10)
	case "compilation_time":
		m.limits.CompileTime, err = f.seconds()
	case "compilation_memory":
		m.limits.CompileMemory, err = f.size(maxMiB, 1<<20)
	case "validation_time":
		m.limits.ValidationTime, err = f.seconds()
	case "validation_memory":
		m.limits.ValidationMemory, err = f.size(maxMiB, 1<<20)
	case "validation_output":
		m.limits.ValidationOutput, err = f.size(maxMiB, 1<<20)
	case "validation_passes":
		var n float64
		if n, err = f.number(maxPasses); err == nil && (n != math.Trunc(n) || n < 2) {
			err = f.wrong("must be a whole number from 2")
		}
		m.passes = int(n)
	default:
		t.warn("problem.yaml:%d: key %q is not known and is ignored", f.line, clip(f.key))
	}
	return err
}

func (m *metadata) takeMultipliers(t *tree, multipliers field) error {
	fields, err := multipliers.fields()
	if err != nil {
		return err
	}
	for _, f := range fields {
		v, err := f.number(maxFactor)
		if err != nil {
			return err
		}
		if v < 1 {
			return f.wrong("must be at least 1")
		}
		switch strings.TrimPrefix(f.key, "limits.time_multipliers.") {
		case "ac_to_time_limit":
			m.inference.AcceptFactor = v
		case "time_limit_to_tle":
			m.inference.RejectFactor = v
		default:
			t.warn("problem.yaml:%d: key %q is not known and is ignored", f.line, clip(f.key))
		}
	}
	return nil
}

// seconds is exact to the microsecond.
func (f field) seconds() (time.Duration, error) {
	v, err := f.number(maxSeconds)
	if err == nil && v < 0.001 {
		err = f.wrong("must be at least 0.001 seconds")
	}
	return time.Duration(math.Round(v*1e6)) * time.Microsecond, err
}

func (f field) size(limit, unit float64) (int64, error) {
	v, err := f.number(limit)
	return int64(v * unit), err
}
