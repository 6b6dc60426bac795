package course

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"assay/internal/fault"
	"assay/internal/judge"
)

// AnyDays as LateRule.MaxDays accepts late work for ever, or until Close.
const AnyDays = -1

// maxLateDays bounds what a rule may say.
const maxLateDays = 366

// LateShare says of what a day's penalty is a percentage.
type LateShare string

// The shares.
const (
	// OfPoints takes it from the points of the assignment, as Canvas does: every
	// day costs everybody the same.
	OfPoints LateShare = "points"
	// OfEarned takes it from what the attempt earned.
	OfEarned LateShare = "earned"
)

// LateRule says until when late work is accepted and what it costs. The zero
// value accepts none.
type LateRule struct {
	// Grace is for how long after the due time, and after the end of each late
	// day, one is still in time.
	Grace time.Duration `json:"grace_ns,omitempty"`
	// PerDay is what each day that has begun costs, in percent of what Of says.
	PerDay judge.Score `json:"per_day_percent"`
	Of     LateShare   `json:"of,omitempty"`
	// MaxDays is how many days late is the latest; AnyDays does not count them.
	MaxDays int `json:"max_days"`
	// Close is when nothing more is accepted, without grace; zero is never.
	Close LocalTime `json:"close,omitzero"`
}

// Lateness is how late something was handed in.
type Lateness struct {
	// Days are the days that have begun after the due time. A day ends when the
	// clock on the wall shows the due time again, be it after 23, 24 or 25 hours.
	Days int `json:"days"`
	// After is the time since the due time; it is negative before.
	After time.Duration `json:"after_ns"`
	// Refused says that the rule does not accept it any more.
	Refused bool `json:"refused,omitempty"`
}

// Schedule is when one person's or group's work is due: the assignment's times,
// moved by an extension.
type Schedule struct {
	Due  LocalTime
	Rule LateRule
	Zone *time.Location
}

// Extend moves the due time, and with it the time of closing by as much.
func (s Schedule) Extend(due LocalTime) Schedule {
	if s.Due.IsZero() || due.IsZero() {
		return s
	}
	s.Rule.Close = s.Rule.Close.add(s.Due.until(due))
	s.Due = due
	return s
}

// Lateness says how late a hand-in is. Without a due time or with an unknown
// time of the hand-in it is in time.
func (s Schedule) Lateness(received time.Time) Lateness {
	var l Lateness
	if received.IsZero() {
		return l
	}
	if !s.Rule.Close.IsZero() && received.After(s.Rule.Close.In(s.Zone)) {
		l.Refused = true
	}
	if s.Due.IsZero() {
		return l
	}
	l.After = received.Sub(s.Due.In(s.Zone))
	if l.After <= 0 {
		return l
	}
	// Days have no fixed length: begin below and walk up.
	l.Days = max(0, int((l.After-s.Rule.Grace)/(24*time.Hour))-2)
	for received.After(s.Due.AddDays(l.Days).In(s.Zone).Add(s.Rule.Grace)) {
		l.Days++
	}
	if s.Rule.MaxDays != AnyDays && l.Days > s.Rule.MaxDays {
		l.Refused = true
	}
	return l
}

// LastDue is when the last hand-in that is accepted can be made; zero is never.
func (s Schedule) LastDue() time.Time {
	var last time.Time
	if !s.Due.IsZero() && s.Rule.MaxDays != AnyDays {
		last = s.Due.AddDays(s.Rule.MaxDays).In(s.Zone).Add(s.Rule.Grace)
	}
	if end := s.Rule.Close.In(s.Zone); !end.IsZero() && (last.IsZero() || end.Before(last)) {
		last = end
	}
	return last
}

// Penalty is what lateness costs of a score earned in an assignment of so many
// points: zero up to the whole score, so that nobody falls below zero by it.
func (r LateRule) Penalty(l Lateness, earned, points judge.Score) judge.Score {
	if earned.Sign() <= 0 {
		return judge.Score{}
	}
	if l.Refused {
		return earned
	}
	of := points
	if r.Of == OfEarned {
		of = earned
	}
	cost := of.Mul(r.PerDay).Over(100).Mul(judge.IntScore(int64(l.Days)))
	if cost.Cmp(earned) > 0 {
		return earned
	}
	return cost
}

// String says the rule in words for students.
func (r LateRule) String() string {
	var parts []string
	switch {
	case r.MaxDays == 0:
		parts = append(parts, "no late work")
	case r.MaxDays == AnyDays:
		parts = append(parts, "late work is accepted")
	default:
		parts = append(parts, "late work is accepted for "+Days(r.MaxDays))
	}
	if r.PerDay.Sign() > 0 && r.MaxDays != 0 {
		of := "points"
		if r.Of == OfEarned {
			of = "score"
		}
		parts = append(parts, fmt.Sprintf("each day costs %s%% of the %s", r.PerDay, of))
	}
	if r.Grace > 0 {
		parts = append(parts, fmt.Sprintf("%g minutes of grace", r.Grace.Minutes()))
	}
	if !r.Close.IsZero() {
		parts = append(parts, "closed after "+r.Close.String())
	}
	return strings.Join(parts, ", ")
}

// Days writes a number of days in words: "1 day", "2 days".
func Days(n int) string {
	if n == 1 {
		return "1 day"
	}
	return fmt.Sprintf("%d days", n)
}

// UnmarshalYAML reads the key late of an assignment.
func (r *LateRule) UnmarshalYAML(n ast.Node) error {
	rule := LateRule{Of: OfPoints}
	var days bool
	err := eachKey(n, func(key, text string) (err error) {
		switch key {
		case "grace":
			rule.Grace, err = parseSpan(text)
		case "per_day":
			rule.PerDay, err = parsePercent(text)
		case "of":
			if rule.Of = LateShare(text); rule.Of != OfPoints && rule.Of != OfEarned {
				err = fault.Errorf(fault.Invalid, "%s is neither points nor earned", quoted(text))
			}
		case "max_days":
			days = true
			rule.MaxDays, err = parseCount(text, maxLateDays)
			if text == "any" {
				rule.MaxDays, err = AnyDays, nil
			}
		case "close":
			rule.Close, err = ParseLocalTime(text)
		default:
			err = unknownKey("grace, per_day, of, max_days, close")
		}
		return err
	})
	if err != nil {
		return err
	}
	if !days && !rule.Close.IsZero() {
		rule.MaxDays, days = AnyDays, true
	}
	if !days && rule.PerDay.Sign() > 0 {
		return atLine(n, "", fault.Errorf(fault.Invalid, "per_day without max_days: nobody knows when late work ends").
			WithHint("add max_days, a number or any, or close"))
	}
	*r = rule
	return nil
}

func parsePercent(text string) (judge.Score, error) {
	number, hasSign := strings.CutSuffix(text, "%")
	p, err := judge.ParseScore(strings.TrimSpace(number))
	if err != nil || !hasSign || p.Sign() < 0 || p.Cmp(judge.IntScore(100)) > 0 {
		return p, fault.Errorf(fault.Invalid, "%s is not a percentage from 0%% to 100%%", quoted(text)).WithHint("write it as in 10%%")
	}
	return p, nil
}

// parseSpan reads a duration with its unit, up to a year.
func parseSpan(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 || d > maxLateDays*24*time.Hour {
		return 0, fault.Errorf(fault.Invalid, "%s is not a span of time", quoted(text)).WithHint("write it with its unit, as in 10m or 2h")
	}
	return d, nil
}

func parseCount(text string, most int) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > most {
		return 0, fault.Errorf(fault.Invalid, "%s is not a whole number from 1 to %d", quoted(text), most)
	}
	return n, nil
}
