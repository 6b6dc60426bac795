package course

import (
	"fmt"
	"time"

	"github.com/goccy/go-yaml/ast"

	"assay/internal/fault"
	"assay/internal/judge"
)

// Counting says which attempt counts.
type Counting string

// The ways of counting.
const (
	CountLast  Counting = "last"
	CountBest  Counting = "best"
	CountFirst Counting = "first"
)

const maxAttempts = 10_000

// AttemptRule says how often one may hand in, and which attempt counts. The
// zero value does not limit, and the last attempt counts.
type AttemptRule struct {
	// Max is how many attempts there are; zero is any number.
	Max int `json:"max,omitempty"`
	// Interval must lie between two attempts.
	Interval time.Duration `json:"interval_ns,omitempty"`
	// PerDay is how many attempts a day of the calendar in the course's zone has;
	// zero is any number.
	PerDay int      `json:"per_day,omitempty"`
	Counts Counting `json:"counts,omitempty"`
}

// Try is one hand-in of one person or group, as an AttemptRule sees it.
type Try struct {
	Received time.Time
	// Unused says that it costs no attempt, as when we failed.
	Unused bool
}

// Refusal is why a rule does not accept an attempt; "" accepts it.
type Refusal string

// The refusals.
const (
	Accepted     Refusal = ""
	TooMany      Refusal = "too_many"
	TooSoon      Refusal = "too_soon"
	TooManyToday Refusal = "too_many_today"
)

// Check says of each try whether the rule accepts it. Tries must be in the
// order in which they were received, and only the times at which that was are
// looked at: checking again another day gives the same. What is refused costs
// nothing.
func (r AttemptRule) Check(tries []Try, zone *time.Location) []Refusal {
	out := make([]Refusal, len(tries))
	used, today := 0, 0
	var last time.Time
	for i, t := range tries {
		if used > 0 && !sameDay(last, t.Received, zone) {
			today = 0
		}
		switch {
		case r.Max > 0 && used >= r.Max:
			out[i] = TooMany
		case used > 0 && t.Received.Sub(last) < r.Interval:
			out[i] = TooSoon
		case r.PerDay > 0 && today >= r.PerDay:
			out[i] = TooManyToday
		case !t.Unused:
			used++
			today++
			last = t.Received
		}
	}
	return out
}

func sameDay(a, b time.Time, zone *time.Location) bool {
	ay, am, ad := a.In(zone).Date()
	by, bm, bd := b.In(zone).Date()
	return ay == by && am == bm && ad == bd
}

// Choose gives the index of the score that counts, or -1 if there is none. For
// the best the earliest of equals counts.
func (c Counting) Choose(scores []judge.Score) int {
	switch {
	case len(scores) == 0:
		return -1
	case c == CountFirst:
		return 0
	case c == CountBest:
		best := 0
		for i, s := range scores {
			if s.Cmp(scores[best]) > 0 {
				best = i
			}
		}
		return best
	}
	return len(scores) - 1
}

// Text says in words for students why an attempt was not accepted.
func (r AttemptRule) Text(why Refusal) string {
	switch why {
	case TooMany:
		return fmt.Sprintf("all %d attempts are used", r.Max)
	case TooSoon:
		return fmt.Sprintf("less than %s after the attempt before", r.Interval)
	case TooManyToday:
		return fmt.Sprintf("all %d attempts of the day are used", r.PerDay)
	}
	return ""
}

// UnmarshalYAML reads the key attempts of an assignment.
func (r *AttemptRule) UnmarshalYAML(n ast.Node) error {
	rule := AttemptRule{Counts: CountLast}
	err := eachKey(n, func(key, text string) (err error) {
		switch key {
		case "max":
			rule.Max, err = parseCount(text, maxAttempts)
		case "interval":
			rule.Interval, err = parseSpan(text)
		case "per_day":
			rule.PerDay, err = parseCount(text, maxAttempts)
		case "counts":
			switch rule.Counts = Counting(text); rule.Counts {
			case CountLast, CountBest, CountFirst:
			default:
				err = fault.Errorf(fault.Invalid, "%s is none of last, best, first", quoted(text))
			}
		default:
			err = unknownKey("max, interval, per_day, counts")
		}
		return err
	})
	if err == nil {
		*r = rule
	}
	return err
}
