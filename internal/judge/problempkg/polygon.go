package problempkg

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"assay/internal/fault"
	"assay/internal/judge"
)

// Caps on what one Polygon package may ask for.
const (
	maxTests        = 20_000
	maxPolygonMilli = maxSeconds * 1000
	maxMemoryBytes  = 1 << 50
)

// polygon reads a package of Codeforces Polygon (problem.xml).
type polygon struct {
	*reader
	root *node
	set  *node
	// groups are indexes in Problem.Groups by the name of the group.
	groups map[string]int
}

func (r *reader) polygon() error {
	data, err := r.t.text("problem.xml", maxXML)
	if err != nil {
		return err
	}
	root, err := parseXML("problem.xml", data)
	if err != nil {
		return err
	}
	if root.name != "problem" {
		return root.wrong("the element %q is no problem", clip(root.name))
	}
	g := &polygon{reader: r, root: root}
	p := &r.pkg.Problem
	if short := root.attr("short-name"); entryName.MatchString(short) {
		p.ShortName = short
	}
	for i, n := range root.first("names").all("name") {
		if i == 0 || n.attr("language") == "english" {
			p.Name = n.attr("value")
		}
	}
	for _, step := range []func() error{g.testset, g.limits, g.digest, g.cases, g.programs, g.solutions} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func (g *polygon) digest() (err error) {
	g.pkg.Problem.Version, err = g.t.digest()
	return err
}

// testset finds the tests that decide: those called "tests", or the only ones.
func (g *polygon) testset() error {
	judging := g.root.first("judging")
	for _, attr := range []string{"input-file", "output-file"} {
		if name := judging.attr(attr); name != "" {
			return judging.unsupported("programs that read and write files (%s %q) are not supported", attr, clip(name)).
				WithHint("let the problem use standard input and output, and make the package again")
		}
	}
	if n := judging.attr("run-count"); n != "" && n != "1" {
		return judging.unsupported("%s runs of a program on one test are not supported", clip(n))
	}
	sets := judging.all("testset")
	for _, s := range sets {
		if s.attr("name") == "tests" || len(sets) == 1 {
			g.set = s
			return nil
		}
	}
	return judging.wrong("there is no testset named tests")
}

func (n *node) number(limit int64) (int64, error) {
	v, err := strconv.ParseInt(n.text, 10, 64)
	if err != nil || v < 1 || v > limit {
		return 0, n.wrong("%s %q is not a whole number from 1 to %d", n.name, clip(n.text), limit)
	}
	return v, nil
}

func (g *polygon) limits() error {
	ms, err := g.set.first("time-limit").number(maxPolygonMilli)
	if err != nil {
		return err
	}
	g.pkg.Problem.Limits.CPU = time.Duration(ms) * time.Millisecond
	if m := g.set.first("memory-limit"); m.text != "" {
		g.pkg.Problem.Limits.Memory, err = m.number(maxMemoryBytes)
	}
	return err
}

var pathPattern = regexp.MustCompile(`^[^%]*%(0[1-9])?d[^%]*$`)

// cases reads the tests, their groups and points.
func (g *polygon) cases() error {
	var patterns [2]string
	for i, name := range []string{"input-path-pattern", "answer-path-pattern"} {
		n := g.set.first(name)
		if patterns[i] = n.text; !pathPattern.MatchString(n.text) {
			return n.wrong("%s %q is no path with one number in it (tests/%%02d)", name, clip(n.text))
		}
	}
	tests := g.set.first("tests").all("test")
	count := len(tests)
	if n := g.set.first("test-count"); n.text != "" && n.text != "0" {
		v, err := n.number(maxTests)
		if err != nil {
			return err
		}
		if count > 0 && int(v) != count {
			return n.wrong("test-count is %d, but %d tests are listed", v, count)
		}
		count = int(v)
	}
	if count == 0 {
		return fault.Errorf(fault.Invalid, "the package has no test cases").WithHint("make a package with tests")
	}
	if count > maxTests {
		return g.set.wrong("more than %d tests", maxTests)
	}
	p := &g.pkg.Problem
	for i := range count {
		t := g.set
		if i < len(tests) {
			t = tests[i]
		}
		c := judge.Case{Name: fmt.Sprintf(patterns[0], i+1), Sample: t.attr("sample") == "true"}
		for k, into := range []*judge.Blob{&c.Input, &c.Answer} {
			name := fmt.Sprintf(patterns[k], i+1)
			if g.t.files[name] == nil {
				return t.wrong("test %d: %s is not in the package", i+1, name).
					WithHint("a standard package has no generated tests: take the full package (linux or windows), or run doall.sh in this one")
			}
			b, err := g.t.lineFeedBlob(name)
			if err != nil {
				return err
			}
			*into = b
		}
		p.Cases = append(p.Cases, c)
	}
	return g.score(tests)
}

// points reads the attribute, zero where it is not given.
func (n *node) points() (judge.Score, error) {
	text := n.attr("points")
	if text == "" {
		return judge.Score{}, nil
	}
	s, err := judge.ParseScore(text)
	if err != nil || s.Sign() < 0 {
		return s, n.wrong("points %q is not a number from 0", clip(text))
	}
	return s, nil
}

// score makes the groups of a problem whose tests or groups have points. The
// groups lie in one that adds them up.
func (g *polygon) score(tests []*node) error {
	p := &g.pkg.Problem
	declared := map[string]*node{}
	for _, n := range g.set.first("groups").all("group") {
		declared[n.attr("name")] = n
		if n.attr("points") != "" && n.attr("points") != "0" && n.attr("points") != "0.0" {
			p.Scoring = true
		}
	}
	sums := map[string]judge.Score{}
	for _, t := range tests {
		s, err := t.points()
		if err != nil {
			return err
		}
		p.Scoring = p.Scoring || s.Sign() > 0
		sums[t.attr("group")] = sums[t.attr("group")].Add(s)
	}
	if !p.Scoring {
		return nil
	}
	const all = 1
	p.Groups = []judge.Group{{Parent: -1}, {Name: g.setName(), Parent: 0, Rules: &judge.GroupRules{Aggregation: judge.SumScore}}}
	total := sums[""]
	g.groups = map[string]int{"": all}
	for i, t := range tests {
		name := t.attr("group")
		if _, ok := g.groups[name]; !ok {
			max, err := g.addGroup(name, declared[name], sums[name])
			if err != nil {
				return err
			}
			total = total.Add(max)
		}
		points, err := t.points()
		if err != nil {
			return err
		}
		p.Cases[i].Group, p.Cases[i].Points = g.groups[name], &points
	}
	p.Groups[all].Rules.Max = &total
	return nil
}

func (g *polygon) setName() string {
	if name := g.set.attr("name"); name != "" {
		return name
	}
	return "tests"
}

// addGroup makes a group where its first test stands, and gives its points. n is
// nil for one that only its tests name.
func (g *polygon) addGroup(name string, n *node, sum judge.Score) (judge.Score, error) {
	p := &g.pkg.Problem
	max := sum
	rules := &judge.GroupRules{Aggregation: judge.SumScore, Max: &max}
	if n != nil {
		switch policy := n.attr("points-policy"); policy {
		case "complete-group":
			rules.Aggregation = judge.PassFail
			if n.attr("points") != "" {
				given, err := n.points()
				if err != nil {
					return max, err
				}
				if given.Sign() > 0 {
					max = given
				}
			}
		case "each-test", "":
		default:
			return max, n.wrong("points-policy %q is not known", clip(policy)).WithHint("use complete-group or each-test")
		}
		for _, d := range n.first("dependencies").all("dependency") {
			i, ok := g.groups[d.attr("group")]
			if !ok {
				return max, d.unsupported("group %q needs group %q, which does not come before it", clip(name), clip(d.attr("group"))).
					WithHint("put the tests of a group behind those of the groups it needs")
			}
			rules.Require = append(rules.Require, i)
		}
	}
	g.groups[name] = len(p.Groups)
	p.Groups = append(p.Groups, judge.Group{Name: path.Join(g.setName(), name), Parent: 1, Rules: rules})
	return max, nil
}

// std are checkers of testlib that the default checker stands in for, where the
// package has no source of them.
var std = map[string][]string{
	"wcmp": {"case_sensitive"}, "yesno": {}, "nyesno": {},
	"rcmp4": {"case_sensitive", "float_tolerance", "1e-4"}, "rcmp6": {"case_sensitive", "float_tolerance", "1e-6"}, "rcmp9": {"case_sensitive", "float_tolerance", "1e-9"},
}

// programs reads checker, interactor, validators and resources.
func (g *polygon) programs() error {
	p := &g.pkg.Problem
	assets := g.root.first("assets")
	checker := assets.first("checker")
	source := checker.first("source")
	switch name := strings.TrimSuffix(strings.TrimPrefix(checker.attr("name"), "std::"), ".cpp"); {
	case source.attr("path") != "" && g.t.files[source.attr("path")] != nil || source.attr("path") != "" && std[name] == nil:
		c, err := g.program(source)
		if err != nil {
			return err
		}
		p.Checkers = []judge.Program{c}
	case std[name] != nil:
		g.t.warn("problem.xml:%d: the package has no source of the checker %s; the default checker decides with %q", checker.line, checker.attr("name"), std[name])
		for i := range p.Cases {
			p.Cases[i].CheckerArgs = std[name]
		}
	case checker.name == "":
		return assets.wrong("the package has no checker")
	default:
		return checker.unsupported("the package has no source of the checker %q", clip(checker.attr("name"))).
			WithHint("take a package in which files/ holds it")
	}
	if source := assets.first("interactor", "source"); source.name != "" {
		c, err := g.program(source)
		if err != nil {
			return err
		}
		p.Interactor = &c
	}
	for _, v := range assets.first("validators").all("validator") {
		c, err := g.program(v.first("source"))
		if err != nil {
			return err
		}
		p.InputValidators = append(p.InputValidators, c)
	}
	return g.resources()
}

// program reads a source with the headers that lie in files/.
func (g *polygon) program(source *node) (judge.Program, error) {
	name := source.attr("path")
	p := judge.Program{Name: name, Protocol: judge.Testlib, Language: g.language(source)}
	names := []string{name}
	for _, f := range g.resourceNodes() {
		if other := f.attr("path"); isHeader(other) && !slices.Contains(names, other) {
			names = append(names, other)
		}
	}
	for _, other := range g.t.below("files") {
		if isHeader(other) && !slices.Contains(names, other) {
			names = append(names, other)
		}
	}
	seen := map[string]bool{}
	for _, n := range names {
		if g.t.files[n] == nil {
			return p, source.wrong("%s is not in the package", clip(n)).WithHint("make the package again; a source that it names must be in it")
		}
		data, err := g.source(n, maxProgramFile)
		if err != nil {
			return p, err
		}
		if g.programBytes += int64(len(data)); g.programBytes > maxPrograms {
			return p, fault.Errorf(fault.Invalid, "%s: the jury's programs have more than %d bytes together", n, int64(maxPrograms))
		}
		if base := path.Base(n); !seen[base] {
			seen[base] = true
			p.Files = append(p.Files, judge.SourceFile{Name: base, Data: data})
		}
	}
	return p, nil
}

func isHeader(name string) bool {
	return slices.Contains([]string{".h", ".hh", ".hpp"}, path.Ext(name))
}

func (g *polygon) resourceNodes() []*node {
	return g.root.first("files", "resources").all("file")
}

// language is the ID for a type such as cpp.g++17, or "" if only the extension
// can tell.
func (g *polygon) language(source *node) string {
	kind := strings.ToLower(source.attr("type"))
	for kind != "" {
		if l, err := g.langs.ByID(kind); err == nil {
			return l.ID
		}
		i := strings.LastIndexByte(kind, '.')
		if i < 0 {
			break
		}
		kind = kind[:i]
	}
	return ""
}
