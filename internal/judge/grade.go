package judge

import (
	"bufio"
	"fmt"
	"slices"
	"strings"

	"assay/internal/fault"
)

// member is the outcome of a case or of a group inside the group above it.
type member struct {
	verdict Verdict
	score   Score
}

// tree is the problem's groups with their members in the order of judging.
type tree struct {
	groups []Group
	// members of each group; a case is its index, a group is -1 - its index.
	members [][]int
	// cases counts the cases directly in each group.
	cases []int
}

// newTree checks and orders the groups of a problem. A problem without groups is
// one that stops at its first failure.
func newTree(p Problem) (tree, error) {
	t := tree{groups: p.Groups}
	if len(t.groups) == 0 {
		t.groups = []Group{{Parent: -1}}
	}
	for g, group := range t.groups {
		if group.Parent >= g || group.Parent < 0 && g > 0 {
			return t, fault.Errorf(fault.Invalid, "test group %q does not come after its parent", group.Name)
		}
		if group.Rules != nil && slices.ContainsFunc(group.Rules.Require, func(r int) bool { return r < 0 || r >= len(t.groups) || r == g }) {
			return t, fault.Errorf(fault.Invalid, "test group %q requires a group that is not there", group.Name)
		}
	}
	t.members, t.cases = make([][]int, len(t.groups)), make([]int, len(t.groups))
	placed := make([]bool, len(t.groups))
	for i, c := range p.Cases {
		if c.Group < 0 || c.Group >= len(t.groups) {
			return t, fault.Errorf(fault.Invalid, "case %s lies in a test group that is not there", c.Name)
		}
		t.place(c.Group, placed)
		t.members[c.Group] = append(t.members[c.Group], i)
		t.cases[c.Group]++
	}
	for g := range t.groups {
		t.place(g, placed)
	}
	return t, nil
}

// place makes a group, and those above it, members of their parents.
func (t *tree) place(g int, placed []bool) {
	for ; g > 0 && !placed[g]; g = t.groups[g].Parent {
		placed[g] = true
		parent := t.groups[g].Parent
		t.members[parent] = append(t.members[parent], -1-g)
	}
}

// goesOn reports whether the group is run on after a member that was not
// accepted.
func (t *tree) goesOn(g int, scoring bool) bool {
	group := t.groups[g]
	switch {
	case group.Rules != nil:
		return group.Rules.Aggregation == SumScore
	case g == 0 && scoring && group.Legacy == nil:
		// Samples never score: failing one does not end the run.
		return true
	}
	return group.Continue
}

// casePoints is what a case can get at most by the rules of its group; nil is
// unbounded. scored is false in a group that gives cases no score.
func (t *tree) casePoints(c Case) (points *Score, scored bool) {
	g := t.groups[c.Group]
	if g.Rules == nil || g.Rules.Aggregation != SumScore && g.Rules.Aggregation != MinScore {
		return nil, false
	}
	switch {
	case c.Points != nil:
		return c.Points, true
	case g.Rules.Max == nil:
		return nil, true
	case g.Rules.Aggregation == MinScore:
		return g.Rules.Max, true
	}
	points = new(Score)
	*points = *g.Rules.Max
	if g.Static != nil && g.Static.Score != nil {
		*points = points.Sub(*g.Static.Score)
	}
	*points = points.Over(t.cases[c.Group])
	return points, true
}

// caseScore is the score of a case from the checker's word, by the 2025-09
// rules: points is the maximum (nil: unbounded). What a checker may not write is
// the checker's fault, said in fault.
func caseScore(accepted bool, check Check, points *Score, scored bool) (score Score, wrong string) {
	wrote := check.Score != nil || check.Multiplier != nil
	switch {
	case check.Score != nil && check.Multiplier != nil:
		return Score{}, "the checker wrote both score.txt and score_multiplier.txt"
	case wrote && check.Outcome != CheckAccepted:
		return Score{}, "the checker wrote a score and did not accept"
	case wrote && !scored:
		return Score{}, "the checker wrote a score in a pass-fail group"
	case !accepted || !scored:
		return Score{}, ""
	case points == nil && check.Multiplier != nil:
		return Score{}, "the checker wrote score_multiplier.txt in a group without a maximum"
	case points == nil && check.Score == nil:
		return Score{}, "the checker wrote no score.txt in a group without a maximum"
	case check.Score != nil && points != nil && check.Score.Cmp(*points) > 0:
		return Score{}, fmt.Sprintf("the checker gave %s points, at most %s are possible", check.Score, points)
	case check.Score != nil && check.Score.Sign() < 0, check.Multiplier != nil && (check.Multiplier.Sign() < 0 || check.Multiplier.Cmp(IntScore(1)) > 0):
		return Score{}, "the checker wrote a score that is out of range"
	case check.Score != nil:
		return *check.Score, ""
	case check.Multiplier != nil:
		return points.Mul(*check.Multiplier), ""
	}
	return *points, ""
}

// ruled is the outcome of a group by the 2025-09 rules. missing says that a
// member was not run, which counts as not accepted and zero.
func ruled(r GroupRules, members []member, missing bool) (member, error) {
	out := member{verdict: Accepted}
	var sum, least Score
	for i, m := range members {
		if m.verdict != Accepted && out.verdict == Accepted {
			out.verdict = m.verdict
		}
		sum = sum.Add(m.score)
		if i == 0 || m.score.Cmp(least) < 0 {
			least = m.score
		}
	}
	if missing {
		least = Score{}
		if out.verdict == Accepted {
			out.verdict = Skipped
		}
	}
	switch r.Aggregation {
	case SumScore:
		out.score = sum
	case MinScore:
		out.score = least
	default:
		if r.Max == nil {
			return out, nil
		}
		if out.verdict == Accepted {
			out.score = *r.Max
		}
	}
	if r.Max != nil && out.score.Cmp(*r.Max) > 0 {
		return out, fault.Errorf(fault.Invalid, "score %s is above the group's maximum of %s", out.score, r.Max)
	}
	return out, nil
}

// worst is the order of the default grader of the legacy format, worst first.
var worst = []Verdict{
	JudgeError, Skipped, CompileError, RunTimeError, MemoryLimitExceeded, TimeLimitExceeded, OutputLimitExceeded, WrongAnswer, PresentationError,
}

// defaultGrade is the default grader of the legacy format.
func defaultGrade(f GraderFlags, members []member) member {
	if f.IgnoreSample && len(members) > 1 {
		members = members[1:2]
	}
	out := member{verdict: Accepted}
	for i, m := range members {
		if i == 0 {
			out.score = m.score
			continue
		}
		switch f.Score {
		case MinScore:
			if m.score.Cmp(out.score) < 0 {
				out.score = m.score
			}
		case MaxScore:
			if m.score.Cmp(out.score) > 0 {
				out.score = m.score
			}
		default:
			out.score = out.score.Add(m.score)
		}
	}
	if f.Score == AvgScore && len(members) > 0 {
		out.score = out.score.Over(len(members))
	}
	any := slices.ContainsFunc(members, func(m member) bool { return m.verdict == Accepted })
	if f.Verdict == AlwaysAccept || f.AcceptIfAnyAccepted && any {
		return out
	}
	for _, m := range members {
		switch {
		case m.verdict == Accepted:
		case f.Verdict == FirstError:
			if out.verdict == Accepted {
				out.verdict = m.verdict
			}
		case out.verdict == Accepted || slices.Index(worst, m.verdict) < slices.Index(worst, out.verdict):
			out.verdict = m.verdict
		}
	}
	return out
}

// graderWords are the verdicts in a grader's input and output.
var graderWords = map[Verdict]string{
	Accepted: "AC", WrongAnswer: "WA", PresentationError: "WA", TimeLimitExceeded: "TLE", MemoryLimitExceeded: "MLE",
	OutputLimitExceeded: "OLE", RunTimeError: "RTE", JudgeError: "JE",
}

// graderInput is what a custom grader reads.
func graderInput(members []member) string {
	var b strings.Builder
	for _, m := range members {
		fmt.Fprintf(&b, "%s %s\n", graderWords[m.verdict], m.score)
	}
	return b.String()
}

// parseGrade reads the one line that a custom grader prints.
func parseGrade(text string) (member, error) {
	s := bufio.NewScanner(strings.NewReader(strings.TrimSpace(text)))
	if !s.Scan() {
		return member{}, fault.Errorf(fault.Invalid, "the grader printed nothing")
	}
	words := strings.Fields(s.Text())
	if len(words) != 2 || s.Scan() {
		return member{}, fault.Errorf(fault.Invalid, "the grader printed %q, expected one line of a verdict and a score", clipText(text, 80))
	}
	for v, word := range graderWords {
		if word != words[0] || v == PresentationError {
			continue
		}
		score, err := ParseScore(words[1])
		return member{verdict: v, score: score}, err
	}
	return member{}, fault.Errorf(fault.Invalid, "the grader gave the unknown verdict %q", clipText(words[0], 20))
}

// inRange checks a legacy group's score against its bounds.
func (l LegacyGrading) inRange(s Score) error {
	if l.Low != nil && s.Cmp(*l.Low) < 0 || l.High != nil && s.Cmp(*l.High) > 0 {
		return fault.Errorf(fault.Invalid, "score %s is outside of the group's range", s)
	}
	return nil
}
