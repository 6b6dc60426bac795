package judge

import "time"

// Group is a test group: cases and groups whose outcome is taken together. At
// most one of Legacy and Rules is set; neither is a pass-fail group.
type Group struct {
	// Name is the path ("secret/2"); "" for the whole problem.
	Name string
	// Parent is the index in Problem.Groups, below the group's own; -1 for the
	// whole problem.
	Parent int
	// Continue goes on with the group after a case that was not accepted. What
	// is not run is skipped.
	Continue bool
	// Static, when not nil, is one more case of the group: the static
	// validator's word on the source (2025-09).
	Static *StaticCase
	Legacy *LegacyGrading
	Rules  *GroupRules
}

// StaticCase is one call of Problem.StaticValidator.
type StaticCase struct {
	Args []string
	// Score is the most it can give; nil in a pass-fail group.
	Score *Score
}

// LegacyGrading is how the legacy format makes a verdict and a score of a
// group (testdata.yaml).
type LegacyGrading struct {
	// AcceptScore and RejectScore are the scores of a case in the group.
	AcceptScore, RejectScore Score
	// Low and High bound the group's score; nil is no bound. Outside is JE.
	Low, High *Score
	Flags     GraderFlags
	// Grader decides instead of the default grader, when not nil: it gets Args,
	// a line "VERDICT score" for each member on standard input, and prints one
	// such line.
	Grader *Program
	Args   []string
}

// GraderFlags are those of the default grader of the legacy format.
type GraderFlags struct {
	Verdict VerdictMode
	Score   ScoreMode
	// IgnoreSample takes only the second member, the secret group.
	IgnoreSample bool
	// AcceptIfAnyAccepted makes the group accepted when one member is.
	AcceptIfAnyAccepted bool
}

// VerdictMode is how a group's verdict follows from its members'.
type VerdictMode string

// The verdict modes; empty is WorstError.
const (
	WorstError   VerdictMode = "worst_error"
	FirstError   VerdictMode = "first_error"
	AlwaysAccept VerdictMode = "always_accept"
)

// ScoreMode is how a group's score follows from its members'.
type ScoreMode string

// The score modes; empty is SumScore in a legacy group.
const (
	SumScore ScoreMode = "sum"
	AvgScore ScoreMode = "avg"
	MinScore ScoreMode = "min"
	MaxScore ScoreMode = "max"
	// PassFail gives all of the maximum or nothing (GroupRules only).
	PassFail ScoreMode = "pass-fail"
)

// GroupRules is how the 2025-09 format, and Polygon's groups, make a score.
type GroupRules struct {
	// Max is the best score; nil is unbounded.
	Max *Score
	// Aggregation is PassFail, SumScore or MinScore; empty is PassFail.
	Aggregation ScoreMode
	// Require are indexes of groups that must be accepted for this one to be
	// run; else its score is zero.
	Require []int
}

// Inference is how a time limit follows from the labelled submissions: it is
// the smallest multiple of Resolution that leaves AcceptFactor to the slowest
// that must not exceed it; one that must exceed it must do so RejectFactor
// times. Legacy packages have a Resolution of 1 s and at least 1 s.
type Inference struct {
	AcceptFactor, RejectFactor float64
	Resolution                 time.Duration
}
