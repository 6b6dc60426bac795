package problempkg

import (
	"maps"
	"path"
	"slices"
	"strings"

	"assay/internal/fault"
	"assay/internal/judge"
)

// settings are what test_group.yaml and <case>.yaml give to cases: their own
// keys, and for the others those of the nearest folder above.
type settings struct {
	args, checkerArgs []string
	validatorArgs     map[string][]string
}

// groupFile is what test_group.yaml says beside the settings.
type groupFile struct {
	name        string
	there       bool
	max         *judge.Score
	maxSpot     *field
	unbounded   bool
	aggregation judge.ScoreMode
	aggSpot     *field
	require     []string
	requireSpot *field
	static      *judge.StaticCase
	staticSpot  *field
	staticArgs  []string
	argsSpot    *field
}

// rulesData reads the test data of 2025-09: data/secret is one group, or each
// folder in it that holds a test_group.yaml.
func (r *reader) rulesData() error {
	g := &grouping{reader: r, files: map[string]groupFile{}, settings: map[string]settings{}}
	if err := g.readFolder("data", settings{}); err != nil {
		return err
	}
	if g.files["data"].there {
		r.t.warn("data/test_group.yaml is a file the format does not know; what it says of arguments holds for all cases")
	}
	p := &r.pkg.Problem
	groupDir := map[string]string{}
	for _, dir := range []string{"data/sample", "data/secret"} {
		if err := g.readFolder(dir, g.settings["data"]); err != nil {
			return err
		}
		bases, err := r.t.caseBases(dir, true)
		if err != nil {
			return err
		}
		for _, base := range bases {
			c, err := g.testCase(base)
			if err != nil {
				return err
			}
			groupDir[c.Name] = g.groupOf(base)
			p.Cases = append(p.Cases, c)
		}
	}
	if err := r.t.checkCases(p.Cases); err != nil {
		return err
	}
	if err := g.checkLayout(p.Cases, groupDir); err != nil {
		return err
	}
	return g.makeGroups(groupDir)
}

// grouping collects the groups while cases are read.
type grouping struct {
	*reader
	files    map[string]groupFile
	settings map[string]settings
}

// readFolder reads the test_group.yaml of a folder, which may be absent.
func (g *grouping) readFolder(dir string, above settings) error {
	if _, done := g.settings[dir]; done {
		return nil
	}
	name := dir + "/test_group.yaml"
	gf := groupFile{name: name}
	if g.t.files[name] == nil {
		g.files[dir], g.settings[dir] = gf, above
		return nil
	}
	gf.there = true
	data, err := g.source(name, maxTextFile)
	if err != nil {
		return err
	}
	fields, err := parseMapping(name, data)
	if err != nil {
		return err
	}
	s := above
	for _, f := range fields {
		known, err := s.take(g.reader, f)
		if err == nil && !known {
			err = gf.take(g.reader, f)
		}
		if err != nil {
			return err
		}
	}
	if gf.static != nil {
		gf.static.Args = gf.staticArgs
	}
	g.files[dir], g.settings[dir] = gf, s
	return g.checkFile(dir, gf)
}

// take reads a key that cases have, too.
func (s *settings) take(r *reader, f field) (known bool, err error) {
	switch f.key {
	case "args":
		s.args, err = f.texts()
	case "output_validator_args":
		if s.checkerArgs, err = f.texts(); err == nil {
			err = r.checkedFlags(f, s.checkerArgs)
		}
	case "output_validator_flags":
		r.t.warn("%s:%d: output_validator_flags is of the legacy format: write output_validator_args", f.file, f.line)
		s.checkerArgs, err = f.words()
	case "input_validator_args", "input_validator_flags":
		s.validatorArgs, err = r.validatorArgs(f)
	case "input_visualizer_args", "output_visualizer_args":
		_, err = f.texts()
	case "full_feedback":
		_, err = f.yes()
	case "hint", "description":
		_, err = f.text()
	default:
		return false, nil
	}
	return true, err
}

// validatorArgs reads one list for all input validators, or a list by name.
func (r *reader) validatorArgs(f field) (map[string][]string, error) {
	if list, err := f.texts(); err == nil {
		return map[string][]string{"": list}, nil
	}
	fields, err := f.fields()
	if err != nil {
		return nil, f.wrong("expected a list of texts, or lists by the name of the validator")
	}
	m := map[string][]string{}
	for _, v := range fields {
		list, err := v.texts()
		if err != nil {
			return nil, err
		}
		m[r.validatorKey(v.last(f))] = list
	}
	return m, nil
}

func (gf *groupFile) take(r *reader, f field) (err error) {
	switch f.key {
	case "max_score":
		gf.maxSpot = &f
		if v, textErr := f.text(); textErr == nil && v == "unbounded" {
			gf.unbounded = true
			return nil
		}
		gf.max, err = f.wholeScore()
	case "score_aggregation":
		gf.aggSpot = &f
		v, textErr := f.text()
		gf.aggregation = judge.ScoreMode(v)
		if textErr != nil || !slices.Contains([]judge.ScoreMode{judge.PassFail, judge.SumScore, judge.MinScore}, gf.aggregation) {
			return f.wrong("is not known").WithHint("use pass-fail, sum or min")
		}
	case "require_pass":
		gf.requireSpot = &f
		gf.require, err = f.texts()
	case "static_validation_score":
		gf.staticSpot, gf.static = &f, &judge.StaticCase{}
		if v, textErr := f.text(); textErr == nil && v == "pass-fail" {
			return nil
		}
		gf.static.Score, err = f.wholeScore()
	case "static_validator_args":
		gf.argsSpot = &f
		gf.staticArgs, err = f.texts()
	default:
		r.t.warn("%s:%d: key %q is not known and is ignored", f.file, f.line, clip(f.key))
	}
	return err
}

func (f field) wholeScore() (*judge.Score, error) {
	text, _ := f.text()
	s, err := f.score()
	if err != nil || s.Sign() < 0 || strings.ContainsAny(text, ".eE") {
		return nil, f.wrong("expected a whole number from 0")
	}
	return &s, nil
}

// checkFile refuses keys that do not fit the problem or each other.
func (g *grouping) checkFile(dir string, gf groupFile) error {
	scoring := g.meta.scoring && dir != "data/sample" && dir != "data"
	for _, f := range []*field{gf.maxSpot, gf.aggSpot, gf.requireSpot} {
		switch {
		case f == nil || scoring:
		case dir == "data":
			return f.wrong("is not allowed here").WithHint("put it into data/secret/test_group.yaml")
		case dir == "data/sample":
			return f.wrong("is not allowed in data/sample")
		default:
			return f.wrong("is for scoring problems only").WithHint("write type: scoring into problem.yaml, or leave the key out")
		}
	}
	switch {
	case gf.argsSpot != nil && gf.static == nil:
		return gf.argsSpot.wrong("is given without static_validation_score")
	case gf.static == nil:
	case g.pkg.Problem.StaticValidator == nil:
		return gf.staticSpot.wrong("the package has no static_validator/")
	case dir == "data":
		return gf.staticSpot.wrong("is not allowed here")
	case gf.static.Score != nil && !scoring:
		return gf.staticSpot.wrong("a score is for groups of scoring problems only").WithHint("write pass-fail")
	}
	return nil
}

// groupOf is the folder of the group that a case lies in, by the files: a
// folder right below data/secret that holds a test_group.yaml, or the whole.
func (g *grouping) groupOf(base string) string {
	parts := strings.SplitN(base, "/", 4)
	if dir := strings.Join(parts[:min(3, len(parts))], "/"); parts[1] == "secret" && len(parts) == 4 && g.t.files[dir+"/test_group.yaml"] != nil {
		return dir
	}
	return "data/" + parts[1]
}

// testCase makes a case with its settings and files.
func (g *grouping) testCase(base string) (judge.Case, error) {
	c := g.t.newCase(base)
	s, err := g.caseSettings(base)
	if err != nil {
		return c, err
	}
	c.Args, c.CheckerArgs, c.ValidatorArgs = s.args, s.checkerArgs, s.validatorArgs
	for _, name := range g.t.below(base + ".files") {
		c.Files = append(c.Files, judge.CaseFile{Name: strings.TrimPrefix(name, base+".files/"), Blob: g.t.blob(name)})
	}
	return c, nil
}

// caseSettings reads <case>.yaml over what the folders say.
func (g *grouping) caseSettings(base string) (settings, error) {
	dir := path.Dir(base)
	s, err := g.settingsOf(dir)
	if err != nil {
		return s, err
	}
	name := base + ".yaml"
	if g.t.files[name] == nil {
		return s, nil
	}
	fields, err := g.t.mapping(name)
	if err != nil {
		return s, err
	}
	for _, f := range fields {
		known, err := s.take(g.reader, f)
		if err != nil {
			return s, err
		}
		if !known {
			g.t.warn("%s:%d: key %q is not known and is ignored", f.file, f.line, clip(f.key))
		}
	}
	return s, nil
}

// settingsOf reads what the folders down to this one say.
func (g *grouping) settingsOf(dir string) (settings, error) {
	if s, ok := g.settings[dir]; ok {
		return s, nil
	}
	var above settings
	if dir != "data" {
		var err error
		if above, err = g.settingsOf(path.Dir(dir)); err != nil {
			return settings{}, err
		}
	}
	err := g.readFolder(dir, above)
	return g.settings[dir], err
}

// checkLayout refuses groups in groups, and cases beside groups.
func (g *grouping) checkLayout(cases []judge.Case, groupDir map[string]string) error {
	grouped, loose := "", ""
	for _, c := range cases {
		switch dir := groupDir[c.Name]; dir {
		case "data/sample":
		case "data/secret":
			loose = c.Name
		default:
			grouped = dir
		}
	}
	if grouped != "" && loose != "" {
		err := fault.Errorf(fault.Invalid, "data/%s.in lies beside the test group %s: a problem has groups or single cases", loose, grouped).
			WithHint("put every case into a folder with a test_group.yaml right below data/secret")
		if g.meta.scoring {
			return err
		}
		g.t.warn("%s", err)
	}
	for _, dir := range slices.Sorted(maps.Keys(g.files)) {
		if gf := g.files[dir]; gf.there && strings.Count(dir, "/") > 2 || gf.there && strings.HasPrefix(dir, "data/sample/") {
			return fault.Errorf(fault.Invalid, "%s lies too deep: a group lies right below data/secret and holds no groups", gf.name)
		}
	}
	return nil
}
