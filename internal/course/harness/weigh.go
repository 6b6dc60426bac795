package harness

import (
	"fmt"
	"slices"
	"strings"

	"assay/internal/course"
	"assay/internal/judge"
)

// weigh compares what a run claims with the pinned tests and gives a finding
// for each test that it has an outcome for. Nothing in a claim can make a test
// worth more than the assignment says, and a claim that does not fit earns
// nothing.
func weigh(tests []course.Test, r result) (findings []course.Finding, suspicions []course.Suspicion) {
	suspect := func(kind, format string, args ...any) {
		suspicions = append(suspicions, course.Suspicion{Kind: kind, Text: fmt.Sprintf(format, args...)})
	}
	all := r.marks(len(tests) > 0 && tests[0].ID == wholeID)
	claims := make(map[string]claim, len(all))
	for _, c := range all {
		claims[c.id] = c
	}
	var missing, changed []string
	for _, t := range tests {
		c, ok := claims[t.ID]
		if !ok {
			missing = append(missing, t.Name)
			continue
		}
		delete(claims, t.ID)
		f := course.Finding{Test: t.ID, Detail: c.message}
		pin := course.HarnessPin{Max: t.Points}
		if t.Pinned != nil {
			pin = *t.Pinned
		}
		if c.max != nil && c.max.Cmp(pin.Max) != 0 {
			changed = append(changed, t.Name)
			f.Status, f.Cause = course.Errored, course.InvalidResult
			findings = append(findings, f)
			continue
		}
		f.Status, f.Share = outcome(c, pin.Max)
		if c.score != nil && c.score.Cmp(pin.Max) > 0 && !pin.Above {
			suspect("invalid_result", "The result gives the test %q more than its maximum.", t.Name)
		}
		findings = append(findings, f)
	}
	if len(changed) > 0 {
		suspect("changed_maximum", "The result changes the maximum of %s.", list(changed))
	}
	if len(missing) > 0 && len(missing) < len(tests) {
		suspect("missing_test", "The result has no outcome for %s.", list(missing))
	}
	var extra []string
	for _, c := range all {
		// Runners add a test for a file that cannot be imported: it claims nothing.
		if _, left := claims[c.id]; left && (c.score != nil && c.score.Sign() > 0 || c.status == course.Passed) {
			extra = append(extra, c.name)
		}
	}
	if len(extra) > 0 {
		suspect("extra_test", "The result has tests that the solution's does not have: %s.", list(extra))
	}
	return findings, suspicions
}

// numbered gives claims of one name an ID each, in the order of the result. How
// many there are is in it: where somebody adds one, none is what it was.
func numbered(claims []claim) []claim {
	count := map[string]int{}
	for _, c := range claims {
		count[c.id]++
	}
	out, seen := slices.Clone(claims), map[string]int{}
	for i, c := range claims {
		if count[c.id] > 1 {
			seen[c.id]++
			out[i].id = fmt.Sprintf("%s · %d of %d", c.id, seen[c.id], count[c.id])
			out[i].name = fmt.Sprintf("%s (%d)", c.name, seen[c.id])
		}
	}
	return out
}

// outcome is what a claim says under the pinned maximum.
func outcome(c claim, most judge.Score) (course.Status, judge.Score) {
	one := judge.IntScore(1)
	if c.score == nil || most.Sign() <= 0 {
		if c.status == "" && c.score != nil && c.score.Cmp(most) >= 0 {
			c.status = course.Passed
		}
		if c.status == "" {
			c.status = course.Failed
		}
		return c.status, judge.Score{}
	}
	switch share := c.score.Quo(most); {
	case share.Cmp(one) >= 0:
		return course.Passed, judge.Score{}
	case share.Sign() > 0:
		return course.Partial, share
	case c.status == course.Skipped || c.status == course.Errored:
		return c.status, judge.Score{}
	}
	return course.Failed, judge.Score{}
}

// spoil takes all that was earned.
func spoil(findings []course.Finding) {
	for i, f := range findings {
		if earns(f) {
			findings[i].Status, findings[i].Share, findings[i].Cause = course.Errored, judge.Score{}, course.InvalidResult
		}
	}
}

func earns(f course.Finding) bool { return f.Status == course.Passed || f.Status == course.Partial }

// list names up to five things.
func list(names []string) string {
	more := ""
	if len(names) > 5 {
		names, more = names[:5], fmt.Sprintf(" and %d more", len(names)-5)
	}
	quoted := make([]string, len(names))
	for i, n := range names {
		quoted[i] = fmt.Sprintf("%q", n)
	}
	return strings.Join(quoted, ", ") + more
}
