package problempkg

import (
	"maps"
	"path"
	"slices"
	"strings"

	"assay/internal/fault"
	"assay/internal/judge"
)

// flagsByName are flags for one program only; an empty name is for all.
type flagsByName struct {
	name  string
	flags []string
}

// testdata is what testdata.yaml says for a group: its own keys, and for the
// others those of the nearest group above.
type testdata struct {
	breaks, custom           bool
	graderFlags              []string
	graderSpot               field
	inputFlags, outputFlags  flagsByName
	outputSpot               field
	acceptScore, rejectScore judge.Score
	low, high                *judge.Score
	gradesChanged            bool
}

// legacyData reads the test data of the legacy format: every folder below data/
// is a group.
func (r *reader) legacyData() error {
	groups := map[string]testdata{}
	root, err := r.testdata("data", testdata{breaks: true, acceptScore: judge.IntScore(1)})
	if err != nil {
		return err
	}
	groups["data"] = root
	p := &r.pkg.Problem
	index := map[string]int{"data": 0}
	list := []judge.Group{{Parent: -1}}
	var open func(dir string) (int, error)
	open = func(dir string) (int, error) {
		if i, ok := index[dir]; ok {
			return i, nil
		}
		parent, err := open(path.Dir(dir))
		if err != nil {
			return 0, err
		}
		td, err := r.testdata(dir, groups[path.Dir(dir)])
		if err != nil {
			return 0, err
		}
		groups[dir], index[dir] = td, len(list)
		list = append(list, judge.Group{Name: strings.TrimPrefix(dir, "data/"), Parent: parent})
		return index[dir], nil
	}
	for _, dir := range []string{"data/sample", "data/secret"} {
		bases, err := r.t.caseBases(dir, true)
		if err != nil {
			return err
		}
		for _, base := range bases {
			g, err := open(path.Dir(base))
			if err != nil {
				return err
			}
			c := r.t.newCase(base)
			c.Group = g
			if err := r.legacyFlags(&c, groups[path.Dir(base)]); err != nil {
				return err
			}
			p.Cases = append(p.Cases, c)
		}
	}
	if err := r.t.checkCases(p.Cases); err != nil {
		return err
	}
	if err := r.unusedTestdata(index); err != nil {
		return err
	}
	graded := slices.ContainsFunc(slices.Collect(maps.Values(groups)), func(td testdata) bool { return td.gradesChanged })
	if !r.meta.scoring && !graded {
		for i := range p.Cases {
			p.Cases[i].Group = 0
		}
		return nil
	}
	grader, err := r.grader(groups)
	if err != nil {
		return err
	}
	for dir, i := range index {
		list[i].Legacy, err = groups[dir].grading(grader, i)
		if err != nil {
			return err
		}
		list[i].Continue = !groups[dir].breaks
	}
	p.Groups = list
	return nil
}

// unusedTestdata reads the files of groups that hold no case, to refuse those
// that are wrong.
func (r *reader) unusedTestdata(used map[string]int) error {
	for _, name := range r.t.below("data") {
		if _, ok := used[path.Dir(name)]; ok || path.Base(name) != "testdata.yaml" {
			continue
		}
		if _, err := r.testdata(path.Dir(name), testdata{}); err != nil {
			return err
		}
	}
	return nil
}

// testdata reads the file of one group over what it inherits.
func (r *reader) testdata(dir string, td testdata) (testdata, error) {
	name := dir + "/testdata.yaml"
	td.gradesChanged = false
	if r.t.files[name] == nil {
		return td, nil
	}
	fields, err := r.t.mapping(name)
	if err != nil {
		return td, err
	}
	for _, f := range fields {
		if err := td.take(r, f); err != nil {
			return td, err
		}
	}
	return td, nil
}

func (td *testdata) take(r *reader, f field) (err error) {
	if f.empty() && f.key != "grader_flags" && !strings.HasSuffix(f.key, "_validator_flags") {
		return nil
	}
	switch f.key {
	case "on_reject":
		td.breaks, err = f.oneOf("break", "continue")
		td.gradesChanged = td.gradesChanged || !td.breaks
	case "grading":
		td.custom, err = f.oneOf("custom", "default")
		td.gradesChanged = td.gradesChanged || td.custom
	case "grader_flags":
		td.graderFlags, err = f.words()
		td.graderSpot, td.gradesChanged = f, td.gradesChanged || len(td.graderFlags) > 0
	case "input_validator_flags":
		td.inputFlags, err = f.named()
	case "output_validator_flags":
		if td.outputFlags, err = f.named(); err == nil {
			err = r.checkedFlags(f, td.outputFlags.flags)
		}
		td.outputSpot = f
	case "accept_score":
		td.acceptScore, err = f.score()
	case "reject_score":
		td.rejectScore, err = f.score()
	case "range":
		td.low, td.high, err = f.scoreRange()
	default:
		r.t.warn("%s:%d: key %q is not known and is ignored", f.file, f.line, clip(f.key))
	}
	return err
}

// oneOf reads a text that is yes or no.
func (f field) oneOf(yes, no string) (bool, error) {
	v, err := f.text()
	switch {
	case err != nil:
		return false, err
	case v != yes && v != no:
		return false, f.wrong("%q is not known", clip(v)).WithHint("use %s or %s", yes, no)
	}
	return v == yes, nil
}

func (f field) words() ([]string, error) {
	list, err := f.texts()
	return strings.Fields(strings.Join(list, " ")), err
}

// named reads flags, or a map of the name of a program and its flags.
func (f field) named() (flagsByName, error) {
	var n flagsByName
	var err error
	if n.flags, err = f.words(); err == nil {
		return n, nil
	}
	fields, err := f.fields()
	if err != nil {
		return n, f.wrong("expected flags, or name and flags")
	}
	for _, g := range fields {
		switch g.last(f) {
		case "name":
			n.name, err = g.text()
		case "flags":
			n.flags, err = g.words()
		default:
			err = g.wrong("is not known").WithHint("use name and flags")
		}
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

// scoreRange reads two numbers, of which each may be infinite.
func (f field) scoreRange() (low, high *judge.Score, err error) {
	list, err := f.words()
	if err != nil {
		return nil, nil, err
	}
	if len(list) != 2 {
		return nil, nil, f.wrong("expected two numbers").WithHint("write it like 0 100 or -inf +inf")
	}
	for i, text := range list {
		switch strings.TrimLeft(text, "+-") {
		case "inf", ".inf", "infinity":
			if strings.HasPrefix(text, "-") != (i == 0) {
				return nil, nil, f.wrong("no score lies between %s and %s", list[0], list[1])
			}
			continue
		}
		s, err := judge.ParseScore(text)
		if err != nil {
			return nil, nil, f.wrong("%q is not a number", clip(text))
		}
		if i == 0 {
			low = &s
		} else {
			high = &s
		}
	}
	if low != nil && high != nil && low.Cmp(*high) > 0 {
		return nil, nil, f.wrong("no score lies between %s and %s", list[0], list[1])
	}
	return low, high, nil
}

// grader is the one program in graders/, if a group asks for it.
func (r *reader) grader(groups map[string]testdata) (*judge.Program, error) {
	list, err := r.programs("graders", judge.Kattis)
	if err != nil {
		return nil, err
	}
	asked := ""
	for _, dir := range slices.Sorted(maps.Keys(groups)) {
		if groups[dir].custom {
			asked = dir
			break
		}
	}
	switch {
	case asked == "":
		if len(list) > 0 {
			r.t.warn("graders/ is not used: no testdata.yaml says grading: custom")
		}
		return nil, nil
	case len(list) == 0:
		return nil, fault.Errorf(fault.Invalid, "%s/testdata.yaml says grading: custom, but graders/ holds no program", asked)
	case len(list) > 1:
		return nil, fault.Errorf(fault.Invalid, "graders/ holds %d programs, at most one is allowed", len(list))
	case !r.meta.scoring:
		return nil, fault.Errorf(fault.Invalid, "%s/testdata.yaml says grading: custom, which is for scoring problems only", asked).
			WithHint("write type: scoring into problem.yaml, or leave the grader out")
	}
	return &list[0], nil
}

// grading makes the group's grading; i is its index.
func (td testdata) grading(grader *judge.Program, i int) (*judge.LegacyGrading, error) {
	g := &judge.LegacyGrading{AcceptScore: td.acceptScore, RejectScore: td.rejectScore, Low: td.low, High: td.high}
	if td.custom {
		g.Grader, g.Args = grader, td.graderFlags
		return g, nil
	}
	for _, flag := range td.graderFlags {
		switch flag {
		case "worst_error", "first_error", "always_accept":
			g.Flags.Verdict = judge.VerdictMode(flag)
		case "sum", "avg", "min", "max":
			g.Flags.Score = judge.ScoreMode(flag)
		case "ignore_sample":
			// Inherited by the groups below, where it means nothing.
			g.Flags.IgnoreSample = i == 0
		case "accept_if_any_accepted":
			g.Flags.AcceptIfAnyAccepted = true
		default:
			return nil, td.graderSpot.wrong("flag %q of the default grader is not known", clip(flag)).
				WithHint("use worst_error, first_error, always_accept, sum, avg, min, max, ignore_sample or accept_if_any_accepted")
		}
	}
	return g, nil
}

// legacyFlags gives a case the flags of its group.
func (r *reader) legacyFlags(c *judge.Case, td testdata) error {
	c.CheckerArgs = strings.Fields(r.meta.validatorFlags)
	out := td.outputFlags
	if len(out.flags) > 0 && out.name != "" {
		names := r.pkg.Problem.Checkers
		if r.pkg.Problem.Interactor != nil {
			names = []judge.Program{*r.pkg.Problem.Interactor}
		}
		if len(names) > 1 {
			return td.outputSpot.unsupported("flags for one of several output validators are not supported").
				WithHint("give all of them the same flags, or join the validators")
		}
		if len(names) == 1 && !isCalled(names[0], out.name) {
			out.flags = nil
		}
	}
	c.CheckerArgs = append(c.CheckerArgs, out.flags...)
	if len(td.inputFlags.flags) > 0 {
		c.ValidatorArgs = map[string][]string{r.validatorKey(td.inputFlags.name): td.inputFlags.flags}
	}
	return nil
}

// isCalled reports whether a program has the name, with or without extension.
func isCalled(p judge.Program, name string) bool {
	base := path.Base(p.Name)
	return base == name || strings.TrimSuffix(base, path.Ext(base)) == name
}

// validatorKey is the base name of the input validator that a package means.
func (r *reader) validatorKey(name string) string {
	for _, p := range r.pkg.Problem.InputValidators {
		if name != "" && isCalled(p, name) {
			return path.Base(p.Name)
		}
	}
	return name
}
