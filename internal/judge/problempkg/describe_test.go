package problempkg

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"assay/internal/judge"
)

// describe writes all that was read of a package, for comparison.
func describe(p *Package) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	q := p.Problem
	line("problem %s %q languages %v scoring %v passes %d read-only %v", q.ShortName, q.Name, q.Languages, q.Scoring, q.Passes, q.ReadOnly)
	line("limits %+v", q.Limits)
	if q.Inference != nil {
		line("inference %+v", *q.Inference)
	}
	for i, g := range q.Groups {
		line("group %d %q in %d continue %v%s", i, g.Name, g.Parent, g.Continue, describeGroup(g))
	}
	for _, c := range q.Cases {
		line("case %s sample %v group %d input %d answer %d%s", c.Name, c.Sample, c.Group, c.Input.Size(), c.Answer.Size(), describeCase(c))
	}
	for _, x := range q.Checkers {
		line("checker %s", describeProgram(x))
	}
	if q.Interactor != nil {
		line("interactor %s", describeProgram(*q.Interactor))
	}
	if q.StaticValidator != nil {
		line("static validator %s", describeProgram(*q.StaticValidator))
	}
	for _, x := range q.InputValidators {
		line("input validator %s", describeProgram(x))
	}
	for _, id := range slices.Sorted(maps.Keys(q.Include)) {
		line("include %s %s", id, describeFiles(q.Include[id]))
	}
	for _, x := range p.Proofs {
		line("proof %s %s output %d%s", x.Kind, x.Case.Name, x.Output.Size(), describeCase(x.Case))
	}
	for _, s := range p.Submissions {
		line("submission %s %s %s%s", s.Path, s.Submission.Language, s.Submission.Entry, describeFiles(s.Submission.Files))
		line("  %s: %s%s", s.Expectation.Label, s.Expectation.Text(), describeExpectation(s))
	}
	for _, w := range p.Warnings {
		line("warning %s", w)
	}
	return b.String()
}

func describeGroup(g judge.Group) string {
	var s string
	if g.Static != nil {
		s += fmt.Sprintf(" static %q score %s", g.Static.Args, scoreText(g.Static.Score))
	}
	if l := g.Legacy; l != nil {
		s += fmt.Sprintf(" legacy %s %s range %s %s flags %+v", l.AcceptScore, l.RejectScore, scoreText(l.Low), scoreText(l.High), l.Flags)
		if l.Grader != nil {
			s += fmt.Sprintf(" grader %s %q", describeProgram(*l.Grader), l.Args)
		}
	}
	if r := g.Rules; r != nil {
		s += fmt.Sprintf(" rules max %s %s require %v", scoreText(r.Max), r.Aggregation, r.Require)
	}
	return s
}

func scoreText(s *judge.Score) string {
	if s == nil {
		return "-"
	}
	return s.String()
}

func describeCase(c judge.Case) string {
	var s string
	if len(c.Args) > 0 {
		s += fmt.Sprintf(" args %q", c.Args)
	}
	if len(c.CheckerArgs) > 0 {
		s += fmt.Sprintf(" checker %q", c.CheckerArgs)
	}
	if len(c.ValidatorArgs) > 0 {
		s += fmt.Sprintf(" validator %q", c.ValidatorArgs)
	}
	for _, f := range c.Files {
		s += fmt.Sprintf(" file %s %d", f.Name, f.Blob.Size())
	}
	if c.Points != nil {
		s += " points " + c.Points.String()
	}
	return s
}

func describeProgram(p judge.Program) string {
	return strings.TrimSpace(fmt.Sprintf("%s %s %s", p.Name, p.Protocol, p.Language)) + describeFiles(p.Files)
}

func describeFiles(files []judge.SourceFile) string {
	var list []string
	for _, f := range files {
		list = append(list, fmt.Sprintf("%s:%d", f.Name, len(f.Data)))
	}
	return fmt.Sprint(list)
}

func describeExpectation(l Labelled) string {
	var s string
	e := l.Expectation
	if e.Low != nil || e.High != nil {
		s += fmt.Sprintf(" score %s..%s", scoreText(e.Low), scoreText(e.High))
	}
	if e.Message != "" {
		s += fmt.Sprintf(" message %q", e.Message)
	}
	for _, p := range e.Parts {
		s += fmt.Sprintf("; %q cases %v group %d permitted %v required %v score %s..%s %q", p.Match, p.Cases, p.Group, p.Permitted, p.Required, scoreText(p.Low), scoreText(p.High), p.Message)
	}
	for _, t := range l.Bounds {
		s += fmt.Sprintf(" bound upper=%v%v", t.Upper, t.Cases)
	}
	return s
}
