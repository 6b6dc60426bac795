package problempkg

import (
	"slices"
	"strings"
	"time"

	"assay/internal/fault"
	"assay/internal/judge"
)

// Upper bounds of limits: above, a file is taken for a mistake.
const (
	maxSeconds = 3600
	maxMiB     = 1 << 20
	maxKiB     = 64 << 10
	maxPasses  = 1000
	maxFactor  = 1000
)

// metadata is what problem.yaml says.
type metadata struct {
	// rules says that the package is of 2025-09 or one of its drafts, draft that
	// it is of a draft; neither is legacy.
	rules, draft bool
	name         string
	limits       judge.ProblemLimits
	passes       int
	inference    judge.Inference

	scoring, interactive, multiPass, submitAnswer bool
	// minimize says that a low score is good (legacy).
	minimize bool
	// custom is the legacy way to ask for the jury's validators.
	custom             bool
	validatorFlags     string
	validatorFlagsLine int

	languages []string
	writing   bool
	constants constants
	seen      map[string]bool
}

// descriptive keys are known and change no verdict.
var descriptiveKeys = map[string]bool{
	"uuid": true, "author": true, "source": true, "source_url": true, "license": true, "rights_owner": true, "keywords": true,
	"problem_format_version": true, "version": true, "credits": true, "embargo_until": true,
}

// licenses are those that both formats name.
var licenses = []string{"unknown", "public domain", "cc0", "cc by", "cc by-sa", "educational", "permission"}

func readMetadata(t *tree, langs *judge.Languages) (metadata, error) {
	m := metadata{seen: map[string]bool{}, inference: judge.Inference{AcceptFactor: 5, RejectFactor: 2, Resolution: time.Second}}
	if t.files["problem.yaml"] == nil && t.files[iniName] != nil {
		t.warn("problem.yaml is missing: what %s says has to do", iniName)
		return m, nil
	}
	if t.files["problem.yaml"] == nil {
		return m, fault.Errorf(fault.Invalid, "problem.yaml is missing").
			WithHint("give the folder that holds problem.yaml or problem.xml; at the least it names the problem (name: …)")
	}
	fields, err := t.mapping("problem.yaml")
	if err != nil {
		return m, err
	}
	for _, f := range fields {
		m.seen[f.key] = true
		if f.key == "problem_format_version" {
			if err := m.takeFormat(f); err != nil {
				return m, err
			}
		}
	}
	for _, f := range fields {
		if err := m.take(t, f, langs); err != nil {
			return m, err
		}
	}
	return m, m.check(t)
}

func (m *metadata) takeFormat(f field) error {
	v, err := f.text()
	if err != nil {
		return err
	}
	switch v {
	case "legacy", "legacy-icpc":
		return nil
	case "2025-09":
		m.rules = true
	case "2023-07-draft", "2023-07", "2025-09-draft", "draft":
		m.rules, m.draft = true, true
	default:
		return f.wrong("the format %q is not known", clip(v)).WithHint("use legacy, legacy-icpc or 2025-09")
	}
	m.inference.AcceptFactor, m.inference.RejectFactor = 2, 1.5
	return nil
}

func (m *metadata) take(t *tree, f field, langs *judge.Languages) (err error) {
	switch f.key {
	case "name":
		m.name, err = titleOf(f)
		return err
	case "type":
		return m.takeType(f)
	case "validation":
		return m.takeValidation(t, f)
	case "validator_flags":
		m.validatorFlags, err = f.text()
		m.validatorFlagsLine = f.line
		return err
	case "limits":
		return m.takeLimits(t, f)
	case "grading":
		return m.takeGrading(t, f)
	case "languages":
		return m.takeLanguages(t, f, langs)
	case "allow_file_writing":
		m.writing, err = f.yes()
		return err
	case "constants":
		m.constants, err = readConstants(f)
		return err
	case "license":
		if v, err := f.text(); err != nil || !slices.Contains(licenses, v) && v != "" {
			t.warn("problem.yaml:%d: the license is none that the format names (%s)", f.line, strings.Join(licenses, ", "))
		}
		return nil
	}
	if !descriptiveKeys[f.key] {
		t.warn("problem.yaml:%d: key %q is not known and is ignored", f.line, clip(f.key))
	}
	return nil
}

// titleOf takes a text, or of a map from language to text the English one,
// else the first.
func titleOf(f field) (string, error) {
	if s, err := f.text(); err == nil {
		return s, nil
	}
	fields, err := f.fields()
	if err != nil || len(fields) == 0 {
		return "", f.wrong("expected text, or texts by language")
	}
	best := fields[0]
	for _, g := range fields {
		if g.key == "name.en" {
			best = g
		}
	}
	return best.text()
}

// takeType reads one type or a list of them; some packages write the list as
// words of one text.
func (m *metadata) takeType(f field) error {
	list, err := f.texts()
	if err != nil {
		return err
	}
	passFail := false
	for _, word := range strings.Fields(strings.Join(list, " ")) {
		switch word {
		case "pass-fail":
			passFail = true
		case "scoring":
			m.scoring = true
		case "interactive":
			m.interactive = true
		case "multi-pass":
			m.multiPass = true
		case "submit-answer":
			m.submitAnswer = true
		default:
			return f.wrong("%q is not known", clip(word)).WithHint("use pass-fail, scoring, interactive, multi-pass or submit-answer")
		}
	}
	switch {
	case passFail && m.scoring:
		return f.wrong("pass-fail and scoring exclude each other")
	case m.submitAnswer && (m.interactive || m.multiPass):
		return f.wrong("submit-answer excludes interactive and multi-pass")
	case m.submitAnswer:
		return f.unsupported("submissions that are answers instead of programs cannot be judged").
			WithHint("leave submit-answer out and let submissions print the answer to the given input")
	}
	return nil
}

func (m *metadata) takeValidation(t *tree, f field) error {
	v, err := f.text()
	if err != nil {
		return err
	}
	words := strings.Fields(v)
	if m.rules {
		if len(words) > 0 && words[0] != "default" {
			t.warn("problem.yaml:%d: validation is a key of the legacy format and is ignored: output_validator/ and type say it now", f.line)
		}
		return nil
	}
	for i, word := range words {
		switch {
		case i == 0 && word == "default":
		case i == 0 && word == "custom":
			m.custom = true
		case i == 0:
			return f.wrong("%q is not known", clip(word)).WithHint("begin with default or custom")
		case !m.custom:
			return f.wrong("%q needs a custom validator", clip(word)).WithHint("write custom %s", word)
		case word == "score":
		case word == "interactive":
			m.interactive = true
		case word == "multi-pass":
			m.multiPass = true
		default:
			return f.wrong("%q is not known", clip(word)).WithHint("use score, interactive and multi-pass after custom")
		}
	}
	return nil
}

func (m *metadata) takeGrading(t *tree, f field) error {
	fields, err := f.fields()
	if err != nil {
		return err
	}
	for _, g := range fields {
		switch g.key {
		case "grading.objective":
			v, err := g.text()
			if err != nil {
				return err
			}
			if v != "min" && v != "max" && v != "" {
				return g.wrong("%q is not known", clip(v)).WithHint("use min or max")
			}
			m.minimize = v == "min"
		case "grading.show_test_data_groups":
		default:
			t.warn("problem.yaml:%d: key %q is not known and is ignored", g.line, clip(g.key))
		}
	}
	return nil
}

// takeLanguages takes IDs and names that Assay knows. One it does not know is
// one nobody can submit.
func (m *metadata) takeLanguages(t *tree, f field, langs *judge.Languages) error {
	list, err := f.texts()
	if err != nil {
		return err
	}
	if len(list) == 1 && (list[0] == "all" || list[0] == "") {
		return nil
	}
	for _, code := range list {
		l, err := langs.ByID(code)
		if err != nil {
			t.warn("problem.yaml:%d: language %q is not known here: nobody can submit in it", f.line, clip(code))
			continue
		}
		if !slices.Contains(m.languages, l.ID) {
			m.languages = append(m.languages, l.ID)
		}
	}
	if len(m.languages) == 0 {
		return f.unsupported("none of the languages is known here").WithHint("known languages: %s", strings.Join(langs.IDs(), ", "))
	}
	return nil
}

// check holds the keys against each other.
func (m *metadata) check(t *tree) error {
	if m.multiPass && m.passes == 0 {
		m.passes = 2
	}
	if !m.multiPass && m.passes != 0 {
		t.warn("problem.yaml: limits.validation_passes is given, but the problem is not multi-pass")
		m.passes = 0
	}
	if m.rules && !m.seen["uuid"] {
		t.warn("problem.yaml: uuid is missing")
	}
	if m.rules && !m.seen["name"] {
		t.warn("problem.yaml: name is missing")
	}
	if step := m.inference.Resolution; m.seen["limits.time_limit"] && m.limits.CPU%step != 0 {
		t.warn("problem.yaml: limits.time_limit %s is not a multiple of time_resolution %s", m.limits.CPU, step)
	}
	return nil
}
