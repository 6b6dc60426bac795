// Package testreport reads the result files of test runners (JUnit XML, CTRF,
// TAP, pytest-json-report, go test -json) into one small model, and writes a
// grade as CTRF. Start with Parse and WriteCTRF.
//
// What it reads was written beside a student's code and is a claim: every
// reader is strict, bounded, and cleans what it takes out. The package decides
// nothing about points.
package testreport

import (
	"bytes"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"assay/internal/course"
	"assay/internal/fault"
)

// Bounds of a report.
const (
	MaxBytes = 1 << 20
	MaxTests = 1000
	// maxName and maxMessage bound what is kept of one test, in bytes.
	maxName    = 512
	maxMessage = 8 << 10
	// maxDepth bounds how deep elements lie in each other.
	maxDepth = 32
)

// Report is what a runner says, in its order.
type Report struct {
	Tests []Test
}

// Test is one test in a report. Two may have the same name: what that means is
// the reader's business.
type Test struct {
	// Name is unique in a report of an honest runner: it has class, suite or
	// package before the test's own name.
	Name string
	// Status is Passed, Failed, Errored or Skipped.
	Status course.Status
	// Message is for staff.
	Message string
	// Time is what the runner says, zero if unknown.
	Time time.Duration
}

var formats = map[string]func([]byte) (Report, error){
	"junit": parseJUnit, "ctrf": parseCTRF, "tap": parseTAP, "pytest-json": parsePytestJSON, "go-test-json": parseGoTest,
}

// Formats are the names that Parse knows, sorted.
func Formats() []string {
	names := make([]string, 0, len(formats))
	for name := range formats {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Parse reads a report. Its errors are of kind Invalid and say, fit to be
// shown to staff, what is wrong.
func Parse(format string, data []byte) (Report, error) {
	parse, ok := formats[format]
	if !ok {
		return Report{}, fault.Errorf(fault.Invalid, "there is no report format %q", format).
			WithHint("use one of %s", strings.Join(Formats(), ", "))
	}
	if len(data) > MaxBytes {
		return Report{}, fault.Errorf(fault.Invalid, "the report is larger than %d bytes", MaxBytes)
	}
	if len(bytes.TrimSpace(data)) == 0 {
		return Report{}, fault.Errorf(fault.Invalid, "the report is empty")
	}
	r, err := parse(data)
	if err != nil {
		return Report{}, fault.Errorf(fault.Invalid, "%s report: %w", format, err)
	}
	return r, nil
}

// add appends a cleaned test, or says that there are too many.
func (r *Report) add(t Test) error {
	if len(r.Tests) == MaxTests {
		return fault.Errorf(fault.Invalid, "more than %d tests", MaxTests)
	}
	t.Name, t.Message = clip(course.Clean(t.Name), maxName), clip(course.Clean(t.Message), maxMessage)
	if t.Name == "" {
		return fault.Errorf(fault.Invalid, "test %d has no name", len(r.Tests)+1)
	}
	if t.Time < 0 {
		t.Time = 0
	}
	r.Tests = append(r.Tests, t)
	return nil
}

func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}

// seconds turns a claimed number of seconds into a duration; nonsense is zero.
func seconds(s float64) time.Duration {
	if s > 0 && s < 1e6 {
		return time.Duration(s * float64(time.Second))
	}
	return 0
}

func joined(sep string, parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), sep)
}
