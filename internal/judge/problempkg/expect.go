package problempkg

import (
	"slices"
	"strings"

	"assay/internal/judge"
)

// requirement is what submissions.yaml asks of the submissions that a pattern
// matches, of all cases or of some.
type requirement struct {
	glob   glob
	source sourceInfo
	match  string
	cases  []int // nil: all
	group  int
	// permitted and required are nil where nothing is asked.
	permitted, required []judge.Verdict
	tleOnly             bool
	low, high           *judge.Score
	message             string
	use                 string
}

func (q requirement) demands() bool {
	return q.permitted != nil || q.required != nil || q.low != nil || q.high != nil || q.message != "" || q.use != "" && q.use != "false"
}

// sourceInfo is what submissions.yaml says about the program itself.
type sourceInfo struct {
	language, entry string
	line            int
}

func (s sourceInfo) apply(r *reader, l *Labelled) {
	const file = "submissions/submissions.yaml"
	if s.language != "" {
		l.Submission.Language = s.language
		if lang, err := r.langs.ByID(s.language); err == nil {
			l.Submission.Language = lang.ID
		} else {
			r.t.warn("%s:%d: language %q is not known here", file, s.line, clip(s.language))
		}
	}
	if s.entry != "" {
		r.setEntry(l, s.entry, file)
	}
}

// The four verdicts of the format stand for all that a run can end with: a
// memory limit counts as a run-time error, an output limit as that or as a wrong
// answer.
var requirementWords = map[string][]judge.Verdict{
	"AC":  {judge.Accepted},
	"WA":  {judge.WrongAnswer, judge.PresentationError, judge.OutputLimitExceeded},
	"TLE": {judge.TimeLimitExceeded},
	"RTE": {judge.RunTimeError, judge.MemoryLimitExceeded, judge.OutputLimitExceeded},
	"RE":  {judge.RunTimeError, judge.MemoryLimitExceeded, judge.OutputLimitExceeded},
	"MLE": {judge.MemoryLimitExceeded}, "OLE": {judge.OutputLimitExceeded}, "CE": {judge.CompileError},
}

// standardRules are those of the folders in 2025-09.
var standardRules = func() map[string]requirement {
	m := map[string]requirement{}
	for folder, words := range map[string][2]string{
		"accepted": {"AC", ""}, "rejected": {"", "RTE TLE WA"}, "wrong_answer": {"AC WA", "WA"}, "time_limit_exceeded": {"AC TLE", "TLE"},
		"run_time_error": {"AC RTE", "RTE"}, "brute_force": {"AC RTE TLE", "RTE TLE"},
	} {
		q := requirement{glob: glob{text: folder}, match: folder, group: -1, tleOnly: words[1] == "TLE"}
		for _, w := range strings.Fields(words[0]) {
			q.permitted = union(q.permitted, requirementWords[w])
		}
		for _, w := range strings.Fields(words[1]) {
			q.required = union(q.required, requirementWords[w])
		}
		if folder == "rejected" {
			q.required = append(q.required, judge.CompileError)
		}
		m[folder] = q
	}
	return m
}()

func union(a, b []judge.Verdict) []judge.Verdict {
	a = slices.Clone(a)
	for _, v := range b {
		if !slices.Contains(a, v) {
			a = append(a, v)
		}
	}
	return a
}

// submissionsYAML reads submissions/submissions.yaml.
func (r *reader) submissionsYAML(paths casePaths) ([]requirement, error) {
	const name = "submissions/submissions.yaml"
	if r.t.files[name] == nil {
		return nil, nil
	}
	data, err := r.source(name, maxTextFile)
	if err != nil {
		return nil, err
	}
	fields, err := parseMapping(name, data)
	if err != nil {
		return nil, err
	}
	var list []requirement
	for _, f := range fields {
		g, err := parseGlob(f, f.key)
		if err != nil {
			return nil, err
		}
		base := requirement{glob: g, match: f.key, group: -1}
		if standard, ok := standardRules[f.key]; ok {
			base.permitted, base.required, base.tleOnly = standard.permitted, standard.required, standard.tleOnly
		}
		more, err := base.read(r, f, paths)
		if err != nil {
			return nil, err
		}
		list = append(append(list, base), more...)
	}
	return list, nil
}

// read reads the keys below a pattern; those that are no keys are patterns of
// cases.
func (q *requirement) read(r *reader, f field, paths casePaths) (more []requirement, err error) {
	fields, err := f.fields()
	if err != nil {
		return nil, err
	}
	for _, k := range fields {
		key := k.last(f)
		known, err := q.take(r, k, key)
		if err != nil {
			return nil, err
		}
		if known {
			continue
		}
		g, err := parseGlob(k, key)
		if err != nil {
			return nil, err
		}
		part := requirement{glob: q.glob, match: key, group: -1}
		if part.cases, part.group = paths.find(g); len(part.cases) == 0 && part.group < 0 {
			r.t.warn("%s:%d: no test case matches %q", k.file, k.line, clip(key))
			continue
		}
		parts, err := k.fields()
		if err != nil {
			return nil, k.wrong("is neither a key that is known nor a pattern with keys below it")
		}
		for _, p := range parts {
			known, err := part.take(r, p, p.last(k))
			if err != nil {
				return nil, err
			}
			if !known {
				r.t.warn("%s:%d: key %q is not known and is ignored", p.file, p.line, clip(p.key))
			}
		}
		more = append(more, part)
	}
	return more, nil
}

func (q *requirement) take(r *reader, f field, key string) (known bool, err error) {
	switch key {
	case "language":
		q.source.line = f.line
		q.source.language, err = f.text()
	case "entrypoint":
		q.source.entry, err = f.text()
	case "authors", "model_solution":
	case "permitted":
		q.permitted, _, err = f.verdicts()
	case "required":
		q.required, q.tleOnly, err = f.verdicts()
	case "score":
		if !r.pkg.Problem.Scoring {
			return true, f.wrong("is for scoring problems only")
		}
		q.low, q.high, err = f.scores()
	case "message":
		q.message, err = f.text()
	case "use_for_time_limit":
		q.use, err = f.text()
		if err == nil && !slices.Contains([]string{"true", "false", "lower", "upper"}, q.use) {
			err = f.wrong("is not known").WithHint("use true, false, lower or upper")
		}
	default:
		return false, nil
	}
	return true, err
}

// verdicts reads a list of verdicts; all four ask for nothing, but that the
// program compiles.
func (f field) verdicts() (list []judge.Verdict, tleOnly bool, err error) {
	words, err := f.texts()
	if err != nil {
		return nil, false, err
	}
	if len(words) == 0 {
		return nil, false, f.wrong("is empty")
	}
	for _, w := range words {
		v, ok := requirementWords[w]
		if !ok {
			return nil, false, f.wrong("verdict %q is not known", clip(w)).WithHint("use AC, WA, TLE and RTE")
		}
		list = union(list, v)
	}
	return list, len(words) == 1 && words[0] == "TLE", nil
}

// scores reads one score, or the lowest and the highest.
func (f field) scores() (low, high *judge.Score, err error) {
	list, err := f.texts()
	if err != nil || len(list) == 0 || len(list) > 2 {
		return nil, nil, f.wrong("expected one number, or two in a list")
	}
	var got []judge.Score
	for _, text := range list {
		s, err := judge.ParseScore(text)
		if err != nil {
			return nil, nil, f.wrong("expected one number, or two in a list")
		}
		got = append(got, s)
	}
	low, high = &got[0], &got[len(got)-1]
	if low.Cmp(*high) > 0 {
		return nil, nil, f.wrong("no score lies between %s and %s", low, high)
	}
	return low, high, nil
}

// require joins what several patterns ask of one submission: all of it must
// hold.
func (r *reader) require(l *Labelled, rules []requirement) {
	e := &l.Expectation
	var labels []string
	for _, q := range rules {
		if !q.demands() {
			continue
		}
		if !slices.Contains(labels, q.glob.text) {
			labels = append(labels, q.glob.text)
		}
		switch q.use {
		case "lower":
			q.permitted = meet(q.permitted, []judge.Verdict{judge.Accepted, judge.WrongAnswer, judge.PresentationError, judge.OutputLimitExceeded, judge.RunTimeError, judge.MemoryLimitExceeded})
		case "upper":
			q.required, q.tleOnly = requirementWords["TLE"], true
		}
		if q.permitted != nil && len(q.permitted) == 0 {
			r.t.warn("submissions/submissions.yaml: %s: what is permitted contradicts use_for_time_limit", q.match)
		}
		if q.use != "false" {
			if q.tleOnly {
				l.Bounds = append(l.Bounds, TimeBound{Upper: true, Cases: q.cases})
			}
			if q.permitted != nil && !slices.Contains(q.permitted, judge.TimeLimitExceeded) {
				l.Bounds = append(l.Bounds, TimeBound{Cases: q.cases})
			}
		}
		if q.cases == nil && q.group < 0 && joined(e, &q) {
			continue
		}
		e.Parts = append(e.Parts, q.part(len(r.pkg.Problem.Cases)))
	}
	if e.Label != "" {
		labels = append([]string{e.Label}, labels...)
	}
	e.Label = strings.Join(labels, ", ")
}

// joined puts a requirement of all cases into the expectation, as far as there
// is room for it, and reports whether nothing of it is left.
func joined(e *judge.Expectation, q *requirement) bool {
	e.Permitted, q.permitted = meet(e.Permitted, q.permitted), nil
	if e.Required == nil {
		e.Required, q.required = q.required, nil
	}
	if e.Low == nil && e.High == nil {
		e.Low, e.High, q.low, q.high = q.low, q.high, nil, nil
	}
	if e.Message == "" {
		e.Message, q.message = q.message, ""
	}
	q.use = ""
	return !q.demands()
}

// meet gives the verdicts in both lists; nil is all.
func meet(a, b []judge.Verdict) []judge.Verdict {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	both := []judge.Verdict{}
	for _, v := range a {
		if slices.Contains(b, v) {
			both = append(both, v)
		}
	}
	return both
}

// part makes an expectation of some cases; no cases are all of n.
func (q requirement) part(n int) judge.PartExpectation {
	p := judge.PartExpectation{
		Match: q.match, Cases: q.cases, Group: q.group, Permitted: q.permitted, Required: q.required, Low: q.low, High: q.high, Message: q.message,
	}
	for i := 0; q.cases == nil && i < n; i++ {
		p.Cases = append(p.Cases, i)
	}
	return p
}
