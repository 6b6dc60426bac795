package course

import (
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"assay/internal/fault"
)

// LocalTime is what a clock on the wall shows: date and time without a zone.
// Which instant that is only the zone of the course can say. The zero value is
// no time at all. It is comparable and immutable.
type LocalTime struct {
	// wall holds date and time as if the wall stood in UTC.
	wall time.Time
}

const localLayout = "2006-01-02T15:04"

// The years in which a LocalTime can be.
const minYear, maxYear = 1970, 9998

// ParseLocalTime reads "2026-03-29T23:59", with a blank in place of the T and
// with seconds too.
func ParseLocalTime(text string) (LocalTime, error) {
	for _, layout := range []string{localLayout, "2006-01-02T15:04:05"} {
		t, err := time.Parse(layout, strings.Replace(text, " ", "T", 1))
		// time.Parse takes a fraction of a second that the layout does not have.
		if err == nil && t.Nanosecond() == 0 && t.Year() >= minYear && t.Year() <= maxYear {
			return LocalTime{t}, nil
		}
	}
	err := fault.Errorf(fault.Invalid, "%s is not a date and time", quoted(text))
	if _, zoned := time.Parse(time.RFC3339, text); zoned == nil {
		return LocalTime{}, err.WithHint("leave the zone out: it is the course's, as in %s", text[:len(localLayout)])
	}
	if _, day := time.Parse(time.DateOnly, text); day == nil {
		return LocalTime{}, err.WithHint("write the time too, as in %sT23:59", text)
	}
	return LocalTime{}, err.WithHint("write it as in 2026-03-29T23:59")
}

// IsZero says whether it is no time at all.
func (t LocalTime) IsZero() bool { return t.wall.IsZero() }

// String writes the time so that ParseLocalTime reads the same; no time is "".
func (t LocalTime) String() string {
	switch {
	case t.IsZero():
		return ""
	case t.wall.Second() != 0:
		return t.wall.Format("2006-01-02T15:04:05")
	}
	return t.wall.Format(localLayout)
}

// AddDays is the same time so many days later.
func (t LocalTime) AddDays(days int) LocalTime {
	if t.IsZero() {
		return t
	}
	return LocalTime{t.wall.AddDate(0, 0, days)}
}

// until is how far the clock on the wall must go on to show u.
func (t LocalTime) until(u LocalTime) time.Duration { return u.wall.Sub(t.wall) }

// add sets the clock on the wall forward.
func (t LocalTime) add(d time.Duration) LocalTime {
	if t.IsZero() {
		return t
	}
	return LocalTime{t.wall.Add(d)}
}

// In is the instant at which a clock in the zone shows the time. Where clocks
// were set back and show it twice, it is the second instant; where they were
// set forward and never show it, it is as far behind the change as the time is:
// both are in favour of who must be done by then.
func (t LocalTime) In(zone *time.Location) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	var last time.Time
	var shown bool
	// A day before and a day after, each rule of the zone that can matter holds.
	for _, side := range []time.Duration{-24 * time.Hour, 24 * time.Hour} {
		_, offset := t.wall.Add(side).In(zone).Zone()
		at := t.wall.Add(-time.Duration(offset) * time.Second).In(zone)
		shows := LocalOf(at, zone) == t
		switch {
		case shows && !shown:
			last, shown = at, true
		case shows == shown && at.After(last):
			last = at
		}
	}
	return last
}

// LocalOf is what a clock in the zone shows at an instant, in whole seconds.
func LocalOf(at time.Time, zone *time.Location) LocalTime {
	at = at.In(zone)
	y, m, d := at.Date()
	return LocalTime{time.Date(y, m, d, at.Hour(), at.Minute(), at.Second(), 0, time.UTC)}
}

// MarshalText writes the time as String does.
func (t LocalTime) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText reads what MarshalText writes.
func (t *LocalTime) UnmarshalText(text []byte) (err error) {
	if len(text) == 0 {
		*t = LocalTime{}
		return nil
	}
	*t, err = ParseLocalTime(string(text))
	return err
}

// UnmarshalYAML reads a time of an assignment.
func (t *LocalTime) UnmarshalYAML(n ast.Node) error {
	text, err := scalar(n)
	if err != nil {
		return err
	}
	if *t, err = ParseLocalTime(text); err != nil {
		return atLine(n, "", err)
	}
	return nil
}
