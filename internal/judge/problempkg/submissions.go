package problempkg

import (
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"

	"assay/internal/fault"
	"assay/internal/judge"
)

// Caps on the sources of labelled submissions, in bytes, and on their number.
const (
	maxSource      = 4 << 20
	maxAllSources  = 48 << 20
	maxSubmissions = 2000
)

// submissions reads submissions/<folder>/<file or folder of files>, and what
// says what they must do.
func (r *reader) submissions() error {
	list, err := r.sources()
	if err != nil {
		return err
	}
	paths := newCasePaths(r.pkg.Problem)
	told, err := r.submissionsYAML(paths)
	if err != nil {
		return err
	}
	if err := r.entryPoints(list); err != nil {
		return err
	}
	for i := range list {
		l := &list[i]
		folder := strings.Split(l.Path, "/")[1]
		r.judgeBy(l, folder, told, paths)
	}
	r.pkg.Submissions = list
	return nil
}

// sources reads the files of the labelled submissions.
func (r *reader) sources() ([]Labelled, error) {
	var list []Labelled
	var total int64
	disabled := 0
	for _, name := range r.t.below("submissions") {
		parts := strings.Split(strings.TrimPrefix(name, "submissions/"), "/")
		switch {
		case strings.HasSuffix(parts[min(1, len(parts)-1)], ".disabled"):
			disabled++
			continue
		case len(parts) < 2:
			if parts[0] != "submissions.yaml" {
				r.t.warn("%s is ignored: it lies in no folder that says what it must do", name)
			}
			continue
		}
		data, err := r.source(name, maxSource)
		if err != nil {
			return nil, err
		}
		if total += int64(len(data)); total > maxAllSources {
			return nil, fault.Errorf(fault.Invalid, "the submissions have more than %d bytes", int64(maxAllSources))
		}
		where := path.Join("submissions", parts[0], parts[1])
		if n := len(list); n == 0 || list[n-1].Path != where {
			if n == maxSubmissions {
				return nil, fault.Errorf(fault.Invalid, "the package has more than %d submissions", maxSubmissions)
			}
			list = append(list, Labelled{Path: where, Submission: judge.Submission{Name: path.Join(parts[0], parts[1])}})
		}
		s := &list[len(list)-1].Submission
		if len(s.Files) == judge.MaxSourceFiles {
			return nil, fault.Errorf(fault.Invalid, "submission %s has more than %d files", where, judge.MaxSourceFiles)
		}
		base := parts[1]
		if len(parts) > 2 {
			base = strings.Join(parts[2:], "/")
		}
		s.Files = append(s.Files, judge.SourceFile{Name: base, Data: data})
	}
	for i := range list {
		r.nameLanguage(&list[i].Submission)
	}
	if disabled > 0 {
		r.t.warn("%d files of submissions that are named .disabled are ignored", disabled)
	}
	return list, nil
}

// nameLanguage names the language of a submission in which other files lie
// beside the sources: they are no mistake in a package.
func (r *reader) nameLanguage(s *judge.Submission) {
	if _, err := r.langs.Detect(s.Files); err == nil || len(s.Files) < 2 {
		return
	}
	var id string
	for _, f := range s.Files {
		l, err := r.langs.Detect([]judge.SourceFile{f})
		if err == nil && id != "" && l.ID != id {
			return
		}
		if err == nil {
			id = l.ID
		}
	}
	s.Language = id
}

// entryPoints reads submissions.json, in which some packages name the file that
// a submission starts in.
func (r *reader) entryPoints(list []Labelled) error {
	const name = "submissions.json"
	if r.t.files[name] == nil {
		return nil
	}
	data, err := r.t.text(name, maxTextFile)
	if err != nil {
		return err
	}
	var told map[string]struct {
		EntryPoint string `json:"entry_point"`
		Language   string `json:"language_id"`
	}
	if err := json.Unmarshal(data, &told); err != nil {
		r.t.warn("%s is ignored: %v", name, err)
		return nil
	}
	for i := range list {
		for where, t := range told {
			if strings.Trim(where, "/") == list[i].Path && t.EntryPoint != "" {
				r.setEntry(&list[i], t.EntryPoint, name)
			}
		}
	}
	return nil
}

// setEntry takes the name of a file or of what lies in it ("Main" of Main.java).
func (r *reader) setEntry(l *Labelled, entry, from string) {
	for _, f := range l.Submission.Files {
		base := strings.TrimSuffix(f.Name, path.Ext(f.Name))
		if f.Name == entry || base == entry || base+"Kt" == entry {
			l.Submission.Entry = f.Name
			return
		}
	}
	r.t.warn("%s: %s has no file for the entry point %q", from, l.Path, clip(entry))
}

// judgeBy finds what one submission must do.
func (r *reader) judgeBy(l *Labelled, folder string, told []requirement, paths casePaths) {
	rel := strings.TrimPrefix(l.Path, "submissions/")
	var rules []requirement
	own := false
	for _, q := range told {
		if q.glob.matches(rel) {
			rules = append(rules, q)
			own = own || q.glob.text == folder
			q.source.apply(r, l)
		}
	}
	if standard, ok := standardRules[folder]; r.meta.rules && ok && !own {
		rules = append([]requirement{standard}, rules...)
	}
	demands := slices.ContainsFunc(rules, func(q requirement) bool { return q.demands() })
	if demands && (r.meta.rules || own) {
		r.require(l, rules)
		return
	}
	e, warnings := expectation(*l, folder)
	if r.meta.rules && own {
		// The package names the folder and demands nothing of it.
		warnings = nil
	}
	l.Expectation = e
	for _, w := range warnings {
		r.t.warn("%s", w)
	}
	r.gradesByTag(l, paths)
	if folder == "partially_accepted" && len(e.Final) > 0 && e.Low == nil && e.High == nil {
		r.belowBest(l)
	}
	l.Bounds = legacyBounds(l.Expectation, folder)
	if demands {
		r.require(l, rules)
	}
}

// legacyBounds are what a label of the legacy format says about the limit.
func legacyBounds(e judge.Expectation, folder string) []TimeBound {
	only := func(v judge.Verdict) bool { return len(e.Final) == 1 && e.Final[0] == v }
	switch {
	case folder == "accepted" && (len(e.Final) == 0 || only(judge.Accepted)):
		return []TimeBound{{}}
	case folder == "time_limit_exceeded" && (len(e.Final) == 0 || only(judge.TimeLimitExceeded)):
		return []TimeBound{{Upper: true}}
	}
	return nil
}

// belowBest asks for a score that is not the best possible, which only the range
// of the whole problem tells.
func (r *reader) belowBest(l *Labelled) {
	if len(r.pkg.Problem.Groups) == 0 {
		return
	}
	g := r.pkg.Problem.Groups[0].Legacy
	step, _ := judge.ParseScore("0.000000001")
	switch {
	case g != nil && !r.meta.minimize && g.High != nil:
		high := g.High.Sub(step)
		l.Expectation.High = &high
	case g != nil && r.meta.minimize && g.Low != nil:
		low := g.Low.Add(step)
		l.Expectation.Low = &low
	}
}

// gradesByTag reads the verdicts of the groups right below secret, in order.
func (r *reader) gradesByTag(l *Labelled, paths casePaths) {
	words := readTags(l.Submission.Files).grades
	if words == nil {
		return
	}
	var groups []int
	for i, g := range r.pkg.Problem.Groups {
		if strings.HasPrefix(g.Name, "secret/") && strings.Count(g.Name, "/") == 1 {
			groups = append(groups, i)
		}
	}
	if len(groups) != len(words) {
		r.t.warn("%s: %s names %d verdicts, but the problem has %d groups; the tag is ignored", l.Path, gradesTag, len(words), len(groups))
		return
	}
	var parts []judge.PartExpectation
	for i, w := range words {
		verdicts, ok := tagWords[strings.ReplaceAll(strings.ToUpper(w), "_", "-")]
		if !ok || verdicts == nil {
			r.t.warn("%s: %s: %q is not known; the tag is ignored", l.Path, gradesTag, clip(w))
			return
		}
		part := judge.PartExpectation{Match: r.pkg.Problem.Groups[groups[i]].Name, Group: groups[i], Cases: paths.ofGroup(groups[i])}
		if slices.Equal(verdicts, []judge.Verdict{judge.Accepted}) {
			part.Permitted = verdicts
		} else {
			part.Required = verdicts
		}
		parts = append(parts, part)
	}
	label := fmt.Sprintf("%s: %s", gradesTag, strings.Join(words, " "))
	if l.Expectation.Label != "" {
		label = l.Expectation.Label + ", " + label
	}
	l.Expectation.Parts, l.Expectation.Label = append(l.Expectation.Parts, parts...), label
}
