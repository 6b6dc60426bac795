package judge

import (
	"fmt"
	"slices"
	"strings"
)

// Expectation is what a labelled submission must do. The zero value expects
// nothing and is met by every run but JE.
type Expectation struct {
	// Final, when not empty, are the verdicts the whole run may have.
	Final []Verdict
	// Permitted, when not empty, are the verdicts that cases may have; CE as
	// the run's verdict must be in it too.
	Permitted []Verdict
	// Required, when not empty: at least one case has one of these.
	Required []Verdict
	// Low and High, when not nil, bound the run's score (both included).
	Low, High *Score
	// Message, when not empty, must occur in what a checker said of some case.
	Message string
	// Parts are expectations of only some cases or groups.
	Parts []PartExpectation
	// Label is what the package said ("wrong_answer", "@EXPECTED_RESULTS@: …").
	Label string
}

// PartExpectation is what must hold for the cases that Match selects.
type PartExpectation struct {
	// Match is the package's own pattern, for people; Cases are the indexes in
	// Problem.Cases that it selects, and Group the index of the group when it
	// selects one, else -1.
	Match string
	Cases []int
	Group int
	// Permitted and Required are as in Expectation, for these cases only; Low and
	// High bound the group's score.
	Permitted, Required []Verdict
	Low, High           *Score
	Message             string
}

// Met reports whether the run is as expected. JE never is.
func (e Expectation) Met(r Run) bool { return e.Problem(r) == "" }

// Problem says in words what is not as expected, or "".
func (e Expectation) Problem(r Run) string {
	if r.Verdict == JudgeError {
		return "judge error: " + r.Reason
	}
	if len(e.Final) > 0 && !slices.Contains(e.Final, r.Verdict) {
		return fmt.Sprintf("verdict %s, expected %s", r.Verdict, verdictList(e.Final))
	}
	if r.Verdict == CompileError && len(e.Permitted) > 0 && !slices.Contains(e.Permitted, CompileError) {
		return fmt.Sprintf("verdict CE, expected only %s", verdictList(e.Permitted))
	}
	all := make([]int, len(r.Cases))
	for i := range all {
		all[i] = i
	}
	whole := PartExpectation{Cases: all, Group: -1, Permitted: e.Permitted, Required: e.Required, Message: e.Message}
	if why := whole.problem(r); why != "" {
		return why
	}
	if why := scoreProblem("score", r.Score, e.Low, e.High); why != "" {
		return why
	}
	for _, part := range e.Parts {
		why := part.problem(r)
		if why == "" && part.Group >= 0 && part.Group < len(r.Groups) {
			why = scoreProblem("score of the group", r.Groups[part.Group].Score, part.Low, part.High)
		}
		if why != "" {
			return part.Match + ": " + why
		}
	}
	return ""
}

// problem says what is not as expected of the selected cases.
func (e PartExpectation) problem(r Run) string {
	seen := map[Verdict]bool{}
	said := e.Message == ""
	for _, i := range e.Cases {
		if i >= len(r.Cases) {
			continue
		}
		c := r.Cases[i]
		seen[c.Verdict] = true
		said = said || c.Staff != nil && containsFold(c.Staff.CheckMessage, e.Message) || containsFold(c.Message, e.Message)
		if c.Verdict != Skipped && len(e.Permitted) > 0 && !slices.Contains(e.Permitted, c.Verdict) {
			return fmt.Sprintf("case %d (%s) gave %s, expected only %s", c.Number, c.Name, c.Verdict, verdictList(e.Permitted))
		}
	}
	if r.Verdict == CompileError {
		seen[CompileError] = true
	}
	if len(e.Required) > 0 && !slices.ContainsFunc(e.Required, func(v Verdict) bool { return seen[v] }) {
		return fmt.Sprintf("no case gave %s", verdictList(e.Required))
	}
	if !said {
		return fmt.Sprintf("no checker said %q", e.Message)
	}
	return ""
}

func containsFold(text, part string) bool {
	return strings.Contains(strings.ToLower(text), strings.ToLower(part))
}

func scoreProblem(what string, got, low, high *Score) string {
	switch {
	case low == nil && high == nil:
		return ""
	case got == nil:
		return "no " + what
	case low != nil && got.Cmp(*low) < 0, high != nil && got.Cmp(*high) > 0:
		return fmt.Sprintf("%s %s, expected %s", what, got, rangeText(low, high))
	}
	return ""
}

func rangeText(low, high *Score) string {
	switch {
	case low == nil:
		return "at most " + high.String()
	case high == nil:
		return "at least " + low.String()
	case low.Cmp(*high) == 0:
		return low.String()
	}
	return low.String() + " to " + high.String()
}

// NeedsAllCases reports whether a run that stops at its first failure can hide
// what is expected: it must then be made with Options.AllCases.
func (e Expectation) NeedsAllCases() bool {
	if len(e.Parts) > 0 || e.Message != "" {
		return true
	}
	if len(e.Required) == 0 {
		return false
	}
	for _, v := range e.Permitted {
		if v != Accepted && !slices.Contains(e.Required, v) {
			return true
		}
	}
	return false
}

// Text says for people what is expected ("TLE, else AC WA; score 40").
func (e Expectation) Text() string {
	var parts []string
	switch {
	case len(e.Final) > 0:
		parts = append(parts, strings.Join(verdictStrings(e.Final), " or "))
	case len(e.Required) > 0:
		text := strings.Join(verdictStrings(e.Required), " or ")
		var rest []string
		for _, v := range e.Permitted {
			if !slices.Contains(e.Required, v) {
				rest = append(rest, string(v))
			}
		}
		if len(rest) > 0 {
			text += ", else " + strings.Join(rest, " ")
		}
		parts = append(parts, text)
	case len(e.Permitted) > 0:
		parts = append(parts, strings.Join(verdictStrings(e.Permitted), " "))
	}
	if e.Low != nil || e.High != nil {
		parts = append(parts, "score "+rangeText(e.Low, e.High))
	}
	for _, p := range e.Parts {
		parts = append(parts, "see "+p.Match)
	}
	if len(parts) == 0 {
		return "anything"
	}
	return strings.Join(parts, "; ")
}

// Comparison is a run beside what was expected of it, for tables and JSON.
type Comparison struct {
	Submission string  `json:"submission"`
	Language   string  `json:"language"`
	Label      string  `json:"label"`
	Expected   string  `json:"expected"`
	Verdict    Verdict `json:"verdict"`
	Reason     string  `json:"reason,omitempty"`
	FailedCase int     `json:"failed_case,omitempty"`
	// TimeUS in microseconds and MemoryBytes are the largest of the cases.
	TimeUS      int64  `json:"time_us"`
	MemoryBytes int64  `json:"memory_bytes"`
	Score       *Score `json:"score,omitempty"`
	Met         bool   `json:"met"`
	// Mismatch says what is not as expected; empty when Met.
	Mismatch string `json:"mismatch,omitempty"`
}

// Compare puts a run beside the expectation.
func (e Expectation) Compare(r Run) Comparison {
	mismatch := e.Problem(r)
	return Comparison{
		Submission: r.Submission.Name, Language: r.Submission.Language, Label: e.Label, Expected: e.Text(),
		Verdict: r.Verdict, Reason: r.Reason, FailedCase: r.FailedCase, TimeUS: r.TimeUS, MemoryBytes: r.MemoryBytes, Score: r.Score,
		Met: mismatch == "", Mismatch: mismatch,
	}
}

func verdictStrings(list []Verdict) []string {
	out := make([]string, len(list))
	for i, v := range list {
		out[i] = string(v)
	}
	return out
}

func verdictList(list []Verdict) string { return strings.Join(verdictStrings(list), ", ") }
