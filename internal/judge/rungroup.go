package judge

import (
	"context"
	"fmt"
)

// runAll runs the groups and cases, and concludes.
func (x *session) runAll(ctx context.Context) error {
	for i, c := range x.problem.Cases {
		x.run.Cases = append(x.run.Cases, CaseResult{Number: i + 1, Name: c.Name, Sample: c.Sample, Verdict: Skipped})
	}
	if len(x.problem.Groups) > 0 {
		x.run.Groups = make([]GroupResult, len(x.problem.Groups))
		for g, group := range x.problem.Groups {
			x.run.Groups[g] = GroupResult{Name: group.Name, Verdict: Skipped}
			if group.Rules != nil {
				x.run.Groups[g].Max = group.Rules.Max
			}
		}
	}
	whole, err := x.runGroup(ctx, 0)
	if err != nil {
		return err
	}
	x.conclude(whole)
	return nil
}

// runGroup runs what is in a group, in order, and takes the outcomes together.
// Its errors are those of Judge.Run.
func (x *session) runGroup(ctx context.Context, g int) (member, error) {
	group := x.tree.groups[g]
	if group.Rules != nil {
		for _, r := range group.Rules.Require {
			if x.run.Groups[r].Verdict != Accepted {
				return x.closeGroup(g, member{verdict: Skipped}, fmt.Sprintf("group %s was not accepted", x.run.Groups[r].Name)), nil
			}
		}
	}
	var counted []member
	stopped := false
	add := func(m member) {
		if !stopped {
			counted = append(counted, m)
		}
		stopped = stopped || m.verdict != Accepted && !x.tree.goesOn(g, x.problem.Scoring)
	}
	if group.Static != nil {
		m, err := x.runStatic(ctx, g)
		if err != nil {
			return member{}, err
		}
		add(m)
	}
	for _, k := range x.tree.members[g] {
		if x.stopped || stopped && !x.judge.options.AllCases {
			break
		}
		var m member
		var err error
		if k < 0 {
			m, err = x.runGroup(ctx, -1-k)
		} else {
			m, err = x.runCase(ctx, k)
		}
		if err != nil {
			return member{}, err
		}
		add(m)
	}
	if x.stopped {
		return x.closeGroup(g, member{verdict: JudgeError}, ""), nil
	}
	missing := len(counted) < len(x.tree.members[g])
	m, err := x.grade(ctx, group, counted, missing)
	if err != nil {
		if final := x.failed(ctx, err); final != nil {
			return member{}, final
		}
		x.stopped = true
		return x.closeGroup(g, member{verdict: JudgeError}, fmt.Sprintf("group %q: %v", group.Name, err)), nil
	}
	return x.closeGroup(g, m, ""), nil
}

// grade takes the outcomes of a group's members together.
func (x *session) grade(ctx context.Context, group Group, members []member, missing bool) (member, error) {
	switch {
	case group.Rules != nil:
		return ruled(*group.Rules, members, missing)
	case group.Legacy != nil && x.problem.Scoring:
		m := defaultGrade(group.Legacy.Flags, members)
		if group.Legacy.Grader != nil {
			var err error
			if m, err = x.customGrade(ctx, *group.Legacy, members); err != nil {
				return member{}, err
			}
		}
		return m, group.Legacy.inRange(m.score)
	case x.problem.Scoring && group.Parent < 0:
		return wholeScore(members), nil
	}
	return defaultGrade(GraderFlags{Verdict: FirstError}, members), nil
}

// wholeScore is the outcome of a whole 2025-09 problem: the score is that of
// data/secret, the last member, and samples only take part in the verdict.
func wholeScore(members []member) member {
	m := defaultGrade(GraderFlags{Verdict: FirstError}, members)
	m.score = Score{}
	if len(members) > 0 {
		m.score = members[len(members)-1].score
	}
	return m
}

// customGrade has the package's grader decide, with one more try when we fail.
func (x *session) customGrade(ctx context.Context, l LegacyGrading, members []member) (m member, err error) {
	err = x.try(ctx, "grade", func(ctx context.Context) error {
		m, err = x.jury.grade(ctx, l, members)
		return err
	})
	return m, err
}

// closeGroup writes the outcome of a group into the record.
func (x *session) closeGroup(g int, m member, reason string) member {
	if m.verdict == JudgeError && reason != "" && x.run.Reason == "" {
		x.run.Reason = reason
	}
	if g < len(x.run.Groups) {
		r := &x.run.Groups[g]
		r.Verdict, r.Reason = m.verdict, reason
		if x.problem.Scoring {
			score := m.score
			r.Score = &score
		}
	}
	return m
}

// runCase judges one case, with one more try when we fail.
func (x *session) runCase(ctx context.Context, i int) (member, error) {
	res := &x.run.Cases[i]
	n := len(x.problem.Cases)
	x.observe.tell(Event{Step: StepCase, Case: i + 1, Cases: n})
	err := x.try(ctx, fmt.Sprintf("run case %d", i+1), func(ctx context.Context) error { return x.judgeCase(ctx, i, res) })
	if err != nil {
		if final := x.failed(ctx, err); final != nil {
			return member{}, final
		}
		res.Verdict, res.Reason, res.Score = JudgeError, err.Error(), nil
		x.stopped = true
	}
	x.observe.tell(Event{Step: StepCaseDone, Case: i + 1, Cases: n, Result: res})
	m := member{verdict: res.Verdict}
	if res.Score != nil {
		m.score = *res.Score
	}
	return m, nil
}

// runStatic has the static validator judge the source as a case of group g.
func (x *session) runStatic(ctx context.Context, g int) (member, error) {
	s := *x.tree.groups[g].Static
	res := &CaseResult{Name: joinPath(x.tree.groups[g].Name, "static validation"), Verdict: Skipped}
	x.run.Groups[g].Static = res
	err := x.try(ctx, "run the static validator", func(ctx context.Context) error {
		word, err := x.jury.static(ctx, s)
		if err != nil {
			return err
		}
		res.Verdict, res.Reason = RunTimeError, ""
		switch word.Outcome {
		case CheckAccepted:
			res.Verdict = Accepted
		default:
			res.Verdict, res.Reason = WrongAnswer, "the source was rejected"
		}
		res.Message = word.TeamMessage
		if word.Message != "" {
			res.Staff = &StaffInfo{CheckMessage: word.Message}
		}
		rules := x.tree.groups[g].Rules
		scored := s.Score != nil || rules != nil && rules.Max == nil && rules.Aggregation != PassFail && rules.Aggregation != ""
		score, wrong := caseScore(res.Verdict == Accepted, word, s.Score, scored)
		if wrong != "" {
			return juryFaultf("static validator: %s", wrong)
		}
		if scored {
			res.Score = &score
		}
		return nil
	})
	if err != nil {
		if final := x.failed(ctx, err); final != nil {
			return member{}, final
		}
		res.Verdict, res.Reason = JudgeError, err.Error()
		x.run.Reason = err.Error()
		x.stopped = true
	}
	m := member{verdict: res.Verdict}
	if res.Score != nil {
		m.score = *res.Score
	}
	return m, nil
}

func joinPath(group, name string) string {
	if group == "" {
		return name
	}
	return group + "/" + name
}

// conclude sets the run's verdict: our failure first, else that of the whole
// problem, with the first case that shows it.
func (x *session) conclude(whole member) {
	r := &x.run
	for _, c := range r.Cases {
		r.TimeUS = max(r.TimeUS, c.TimeUS)
		r.MemoryBytes = max(r.MemoryBytes, c.MemoryBytes)
	}
	r.Verdict = whole.verdict
	if x.stopped {
		r.Verdict = JudgeError
	}
	if r.Verdict != JudgeError && x.problem.Scoring {
		score := whole.score
		r.Score = &score
	}
	if r.Verdict == Accepted {
		return
	}
	for _, c := range r.Cases {
		if c.Verdict == r.Verdict {
			r.FailedCase, r.Reason = c.Number, c.Reason
			return
		}
	}
	for _, g := range r.Groups {
		if g.Static != nil && g.Static.Verdict == r.Verdict && r.Reason == "" {
			r.Reason = g.Static.Reason
		}
	}
}

// score sets the score of a case that was judged, by its group's rules. An
// error is a checker that wrote a score it may not write.
func (x *session) score(i int, res *CaseResult, word Check) error {
	c := x.problem.Cases[i]
	group := x.tree.groups[c.Group]
	if !x.problem.Scoring {
		return nil
	}
	if l := group.Legacy; l != nil {
		score := l.RejectScore
		if res.Verdict == Accepted {
			score = l.AcceptScore
			if word.Score != nil {
				score = *word.Score
			}
		}
		res.Score = &score
		return nil
	}
	points, scored := x.tree.casePoints(c)
	if word.Outcome == CheckNone {
		word.Score, word.Multiplier = nil, nil
	}
	score, wrong := caseScore(res.Verdict == Accepted, word, points, scored)
	if wrong != "" {
		return &juryFault{wrong}
	}
	if scored {
		res.Score = &score
	}
	return nil
}
