package problempkg

import (
	"path"
	"strings"

	"assay/internal/fault"
	"assay/internal/judge"
)

// resources reads the files that are compiled with solutions: they name the
// asset "solution", and the types of source they are for.
func (g *polygon) resources() error {
	for _, f := range g.resourceNodes() {
		forSolutions := false
		for _, a := range f.first("assets").all("asset") {
			forSolutions = forSolutions || strings.EqualFold(a.attr("name"), "solution")
		}
		if !forSolutions {
			continue
		}
		name := f.attr("path")
		if g.t.files[name] == nil {
			return f.wrong("%s is not in the package", clip(name))
		}
		data, err := g.source(name, maxProgramFile)
		if err != nil {
			return err
		}
		p := &g.pkg.Problem
		if p.Include == nil {
			p.Include = map[string][]judge.SourceFile{}
		}
		file := judge.SourceFile{Name: path.Base(name), Data: data}
		for _, id := range g.languagesFor(f) {
			if g.programBytes += int64(len(data)); g.programBytes > maxPrograms {
				return fault.Errorf(fault.Invalid, "%s: included code and programs have more than %d bytes together", name, int64(maxPrograms))
			}
			p.Include[id] = append(p.Include[id], file)
		}
	}
	return nil
}

// languagesFor are the languages of for-types ("cpp.*;java.*"), or of the
// file's own type.
func (g *polygon) languagesFor(f *node) []string {
	types := f.attr("for-types")
	if types == "" {
		types = f.attr("type")
	}
	families := map[string]bool{}
	for _, t := range strings.FieldsFunc(strings.ToLower(types), func(r rune) bool { return r == ';' || r == ',' || r == ' ' }) {
		family, _, _ := strings.Cut(t, ".")
		if family == "h" {
			family = "cpp"
		}
		families[family] = true
	}
	var ids []string
	for _, id := range g.langs.IDs() {
		l, err := g.langs.ByID(id)
		if err != nil {
			continue
		}
		match := families[id]
		for _, alias := range l.Aliases {
			family, _, _ := strings.Cut(alias, ".")
			match = match || families[family]
		}
		if match {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		g.t.warn("problem.xml:%d: resource %s is for no language that is known here (%s)", f.line, f.attr("path"), clip(types))
	}
	return ids
}

// solutionTags are what the tags of solutions ask for. Programs that run out of
// memory may notice it and crash.
var solutionTags = func() map[string]judge.Expectation {
	const (
		ac, wa, pe, tle = judge.Accepted, judge.WrongAnswer, judge.PresentationError, judge.TimeLimitExceeded
		re, mle, ole    = judge.RunTimeError, judge.MemoryLimitExceeded, judge.OutputLimitExceeded
	)
	type list = []judge.Verdict
	anyError := judge.Expectation{Required: list{wa, pe, tle, mle, ole, re, judge.CompileError}}
	m := map[string]judge.Expectation{
		"main":                            {Permitted: list{ac}, Required: list{ac}},
		"accepted":                        {Permitted: list{ac}, Required: list{ac}},
		"rejected":                        anyError,
		"incorrect":                       anyError,
		"failed":                          anyError,
		"wrong-answer":                    {Permitted: list{ac, wa, pe}, Required: list{wa, pe}},
		"presentation-error":              {Permitted: list{ac, wa, pe}, Required: list{wa, pe}},
		"time-limit-exceeded":             {Permitted: list{ac, tle}, Required: list{tle}},
		"time-limit-exceeded-or-accepted": {Permitted: list{ac, tle}},
		"memory-limit-exceeded":           {Permitted: list{ac, mle, re}, Required: list{mle, re}},
		"time-limit-exceeded-or-memory-limit-exceeded": {Permitted: list{ac, tle, mle, re}, Required: list{tle, mle, re}},
		"runtime-error": {Permitted: list{ac, re, mle}, Required: list{re, mle}},
		"do-not-run":    {},
	}
	for tag, e := range m {
		e.Label = tag
		m[tag] = e
	}
	return m
}()

// solutions reads the solutions that the package names.
func (g *polygon) solutions() error {
	var total int64
	paths := newCasePaths(g.pkg.Problem)
	list := g.root.first("assets", "solutions").all("solution")
	if len(list) > maxSubmissions {
		return g.root.wrong("more than %d solutions", maxSubmissions)
	}
	for _, s := range list {
		source := s.first("source")
		name := source.attr("path")
		if g.t.files[name] == nil {
			return source.wrong("the solution %q is not in the package", clip(name))
		}
		data, err := g.source(name, maxSource)
		if err != nil {
			return err
		}
		if total += int64(len(data)); total > maxAllSources {
			return fault.Errorf(fault.Invalid, "the solutions have more than %d bytes", int64(maxAllSources))
		}
		tag := s.attr("tag")
		e, ok := solutionTags[tag]
		if !ok {
			g.t.warn("problem.xml:%d: tag %q of %s is not known: nothing says what it must do", s.line, clip(tag), name)
		}
		l := Labelled{
			Path: name, Expectation: e,
			Submission: judge.Submission{Name: name, Language: g.language(source), Files: []judge.SourceFile{{Name: path.Base(name), Data: data}}},
		}
		switch {
		case tag == "main" || tag == "accepted":
			l.Bounds = []TimeBound{{}}
		case tag == "time-limit-exceeded":
			l.Bounds = []TimeBound{{Upper: true}}
		}
		g.extraTags(&l, s, paths)
		g.pkg.Submissions = append(g.pkg.Submissions, l)
	}
	return nil
}

// extraTags reads what a solution must do in single groups.
func (g *polygon) extraTags(l *Labelled, s *node, paths casePaths) {
	for _, x := range s.first("extra-tags").all("extra-tag") {
		e, ok := solutionTags[x.attr("tag")]
		group, grouped := g.groups[x.attr("group")]
		if !ok || !grouped || x.attr("group") == "" {
			g.t.warn("problem.xml:%d: extra tag %q is ignored: it is of no group or not known", x.line, clip(x.attr("tag")))
			continue
		}
		l.Expectation.Parts = append(l.Expectation.Parts, judge.PartExpectation{
			Match: x.attr("group"), Group: group, Cases: paths.ofGroup(group), Permitted: e.Permitted, Required: e.Required,
		})
	}
}
