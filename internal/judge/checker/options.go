package checker

import (
	"slices"
	"strconv"
	"strings"

	"assay/internal/fault"
)

// Options are the settings of the default comparison.
type Options struct {
	// CaseSensitive compares A-Z and a-z as different.
	CaseSensitive bool
	// SpaceSensitive wants white space the same byte for byte.
	SpaceSensitive bool
	// Abs and Rel are how far a number may be off; nil is none given. With one
	// of them, words of the answer that are decimal numbers are compared as
	// numbers, whole numbers too.
	Abs, Rel *float64
}

// ParseOptions reads the flags of a package, split at spaces. Unknown flags and
// bad numbers are Invalid. A flag given twice has its last value.
func ParseOptions(flags []string) (Options, error) {
	var o Options
	for i := 0; i < len(flags); i++ {
		switch flag := flags[i]; flag {
		case "case_sensitive":
			o.CaseSensitive = true
		case "space_change_sensitive":
			o.SpaceSensitive = true
		case "float_tolerance", "float_absolute_tolerance", "float_relative_tolerance":
			i++
			if i == len(flags) {
				return Options{}, fault.Errorf(fault.Invalid, "checker flag %s has no value", flag).
					WithHint("give a number after it, for example %s 1e-6", flag)
			}
			e, err := tolerance(flag, flags[i])
			if err != nil {
				return Options{}, err
			}
			if flag != "float_relative_tolerance" {
				o.Abs = &e
			}
			if flag != "float_absolute_tolerance" {
				o.Rel = &e
			}
		default:
			return Options{}, fault.Errorf(fault.Invalid, "checker flag %q is not known", flag).
				WithHint("known flags: %s", strings.Join(knownFlags, ", "))
		}
	}
	return o, nil
}

var knownFlags = []string{"case_sensitive", "space_change_sensitive", "float_absolute_tolerance E", "float_relative_tolerance E", "float_tolerance E"}

func tolerance(flag, text string) (float64, error) {
	var n number
	for _, b := range []byte(text) {
		n.add(b)
	}
	e, ok := n.value()
	if !ok || e < 0 {
		return 0, fault.Errorf(fault.Invalid, "checker flag %s: %q is not a number from 0 up", flag, text).
			WithHint("write it as a decimal number, for example 1e-6")
	}
	return e, nil
}

// String gives the flags in the package's own words, for records.
func (o Options) String() string {
	var words []string
	if o.CaseSensitive {
		words = append(words, "case_sensitive")
	}
	if o.SpaceSensitive {
		words = append(words, "space_change_sensitive")
	}
	if o.Abs != nil {
		words = append(words, "float_absolute_tolerance", strconv.FormatFloat(*o.Abs, 'g', -1, 64))
	}
	if o.Rel != nil {
		words = append(words, "float_relative_tolerance", strconv.FormatFloat(*o.Rel, 'g', -1, 64))
	}
	return strings.Join(slices.Clip(words), " ")
}
