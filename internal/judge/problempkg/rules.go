package problempkg

import (
	"path"
	"slices"
	"strings"

	"assay/internal/fault"
	"assay/internal/judge"
)

// makeGroups makes the groups of a problem that has scores or a static
// validator; any other is one group.
func (g *grouping) makeGroups(groupDir map[string]string) error {
	p := &g.pkg.Problem
	dirs := []string{"data/sample", "data/secret"}
	for _, name := range g.t.below("data/secret") {
		dir := path.Dir(name)
		if path.Base(name) != "test_group.yaml" || path.Dir(dir) != "data/secret" {
			continue
		}
		if err := g.readFolder(dir, g.settings["data/secret"]); err != nil {
			return err
		}
		dirs = append(dirs, dir)
	}
	static := slices.ContainsFunc(dirs, func(d string) bool { return g.files[d].static != nil })
	if p.StaticValidator != nil && !static {
		g.t.warn("static_validator/ is not used: no test_group.yaml gives a static_validation_score")
		p.StaticValidator = nil
	}
	if !p.Scoring && !static {
		return nil
	}
	index := map[string]int{}
	p.Groups = []judge.Group{{Parent: -1}}
	for _, dir := range dirs {
		parent := 0
		if path.Dir(dir) == "data/secret" {
			parent = index["data/secret"]
		}
		index[dir] = len(p.Groups)
		p.Groups = append(p.Groups, judge.Group{Name: strings.TrimPrefix(dir, "data/"), Parent: parent, Static: g.files[dir].static})
	}
	for i := range p.Cases {
		p.Cases[i].Group = index[groupDir[p.Cases[i].Name]]
	}
	for _, dir := range dirs[2:] {
		if g.files[dir].static == nil && !slices.ContainsFunc(p.Cases, func(c judge.Case) bool { return c.Group == index[dir] }) {
			return fault.Errorf(fault.Invalid, "the test group %s has no test cases", dir)
		}
	}
	if !p.Scoring {
		return nil
	}
	for i, dir := range dirs {
		if dir == "data/sample" {
			continue
		}
		rules, err := g.rules(dir, index, i == 1 && len(dirs) > 2)
		if err != nil {
			return err
		}
		p.Groups[index[dir]].Rules = rules
	}
	return g.checkRules(dirs[1:], index)
}

// rules makes the rules of a group with its defaults.
func (g *grouping) rules(dir string, index map[string]int, ofGroups bool) (*judge.GroupRules, error) {
	gf := g.files[dir]
	r := &judge.GroupRules{Max: gf.max, Aggregation: gf.aggregation}
	if dir == "data/secret" {
		if r.Aggregation == "" {
			r.Aggregation = judge.SumScore
		}
		if r.Max == nil && !gf.unbounded {
			hundred := judge.IntScore(100)
			r.Max = &hundred
		}
	} else if r.Aggregation == "" {
		r.Aggregation = judge.PassFail
	}
	if gf.static != nil {
		switch {
		case ofGroups:
			return nil, gf.staticSpot.wrong("data/secret has test groups: give it in one of them")
		case gf.static.Score == nil && r.Aggregation != judge.PassFail:
			return nil, gf.staticSpot.wrong("pass-fail needs score_aggregation: pass-fail").WithHint("give the score as a number")
		case gf.static.Score != nil && r.Aggregation == judge.PassFail:
			return nil, gf.staticSpot.wrong("a group with pass-fail aggregation has no score for it").WithHint("write pass-fail")
		case gf.static.Score != nil && r.Max != nil && gf.static.Score.Cmp(*r.Max) > 0:
			return nil, gf.staticSpot.wrong("is above the group's max_score")
		}
	}
	for _, name := range gf.require {
		i, ok := index["data/"+name]
		if !ok {
			i, ok = index["data/secret/"+name]
		}
		switch {
		case !ok:
			return nil, gf.requireSpot.wrong("there is no test group %q", clip(name)).WithHint("name it by its path below data/ (secret/group1), or sample")
		case i >= index[dir]:
			return nil, gf.requireSpot.wrong("%q does not come before this group", clip(name))
		case g.pkg.Problem.Groups[i].Rules != nil && g.pkg.Problem.Groups[i].Rules.Aggregation != judge.PassFail:
			return nil, gf.requireSpot.wrong("%q has not the aggregation pass-fail", clip(name))
		case dir != "data/secret" && i == index["data/secret"]:
			return nil, gf.requireSpot.wrong("%q holds this group", clip(name))
		}
		r.Require = append(r.Require, i)
	}
	return r, nil
}

// checkRules holds the groups against the whole.
func (g *grouping) checkRules(dirs []string, index map[string]int) error {
	of := func(dir string) *judge.GroupRules { return g.pkg.Problem.Groups[index[dir]].Rules }
	where := func(dir string) string { return dir + "/test_group.yaml" }
	secret := of("data/secret")
	for _, dir := range dirs {
		r := of(dir)
		switch {
		case r.Max == nil && r.Aggregation == judge.PassFail && (dir != "data/secret" || len(dirs) > 1 || secret.Aggregation == judge.PassFail):
			return fault.Errorf(fault.Invalid, "%s: max_score is missing: a group with the aggregation pass-fail has one", where(dir))
		case r.Max == nil && secret.Max != nil:
			return fault.Errorf(fault.Invalid, "%s: max_score is missing: only where data/secret is unbounded, its groups may be", where(dir)).
				WithHint("give max_score, or write max_score: unbounded into data/secret/test_group.yaml")
		case secret.Aggregation == judge.PassFail && r.Aggregation != judge.PassFail:
			return fault.Errorf(fault.Invalid, "%s: data/secret has the aggregation pass-fail, so all of its groups must", where(dir))
		}
	}
	return nil
}
