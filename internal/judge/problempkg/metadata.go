package problempkg

import (
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
)

// metadata is what problem.yaml says.
type metadata struct {
	name               string
	limits             judge.ProblemLimits
	validatorFlags     string
	validatorFlagsLine int
}

// descriptive keys are known and change no verdict.
var descriptiveKeys = map[string]bool{
	"uuid": true, "author": true, "source": true, "source_url": true, "license": true, "rights_owner": true, "keywords": true,
	"problem_format_version": true, "grading": true,
}

func readMetadata(t *tree) (metadata, error) {
	var m metadata
	if t.files["problem.yaml"] == nil {
		return m, fault.Errorf(fault.Invalid, "problem.yaml is missing").
			WithHint("give the folder that holds problem.yaml; at the least it names the problem (name: …)")
	}
	data, err := t.text("problem.yaml", maxTextFile)
	if err != nil {
		return m, err
	}
	fields, err := parseMapping("problem.yaml", data)
	if err != nil {
		return m, err
	}
	for _, f := range fields {
		if f.key == "problem_format_version" {
			if err := checkFormat(f); err != nil {
				return m, err
			}
		}
	}
	for _, f := range fields {
		if err := m.take(t, f); err != nil {
			return m, err
		}
	}
	return m, nil
}

func checkFormat(f field) error {
	v, err := f.text()
	if err != nil {
		return err
	}
	switch v {
	case "legacy", "legacy-icpc":
		return nil
	case "2023-07-draft", "2023-07", "2025-09", "2025-09-draft":
		return f.unsupported("the format %s is not supported yet", v).WithHint("packages of the legacy format can be read")
	}
	return f.wrong("the format %q is not known", clip(v)).WithHint("use legacy or legacy-icpc")
}

func (m *metadata) take(t *tree, f field) (err error) {
	switch f.key {
	case "name":
		m.name, err = titleOf(f)
		return err
	case "type":
		v, err := f.text()
		if err == nil && v != "pass-fail" && v != "" {
			return f.unsupported("problems of type %q are not supported yet", clip(v)).WithHint("type: pass-fail can be judged")
		}
		return err
	case "validation":
		v, err := f.text()
		if err == nil && v != "default" && v != "" {
			return f.unsupported("validation %q is not supported yet", clip(v)).WithHint("validation: default can be judged")
		}
		return err
	case "validator_flags":
		m.validatorFlags, err = f.text()
		m.validatorFlagsLine = f.line
		return err
	case "limits":
		return m.takeLimits(t, f)
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

func (m *metadata) takeLimits(t *tree, limits field) error {
	fields, err := limits.fields()
	if err != nil {
		return err
	}
	for _, f := range fields {
		var err error
		switch strings.TrimPrefix(f.key, "limits.") {
		case "time_limit":
			m.limits.CPU, err = f.seconds()
		case "memory":
			m.limits.Memory, err = f.size(maxMiB, 1<<20)
		case "output":
			m.limits.Output, err = f.size(maxMiB, 1<<20)
		case "code":
			m.limits.Code, err = f.size(maxKiB, 1<<10)
		case "compilation_time":
			m.limits.CompileTime, err = f.seconds()
		case "compilation_memory":
			m.limits.CompileMemory, err = f.size(maxMiB, 1<<20)
		case "time_multiplier", "time_safety_margin", "validation_time":
			_, err = f.number(maxSeconds)
		case "validation_memory", "validation_output":
			_, err = f.number(maxMiB)
		default:
			t.warn("problem.yaml:%d: key %q is not known and is ignored", f.line, clip(f.key))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (f field) seconds() (time.Duration, error) {
	v, err := f.number(maxSeconds)
	if err == nil && v < 0.001 {
		err = f.wrong("must be at least 0.001 seconds")
	}
	return time.Duration(v * float64(time.Second)), err
}

func (f field) size(limit, unit float64) (int64, error) {
	v, err := f.number(limit)
	return int64(v * unit), err
}

// testdataKeys change nothing in a pass-fail problem with the default checker.
var testdataKeys = map[string]bool{
	"on_reject": true, "input_validator_flags": true, "grading": true, "accept_score": true, "reject_score": true, "range": true,
}

// checkTestdata refuses group files that would change a verdict.
func (t *tree) checkTestdata() error {
	for _, name := range t.names {
		if !strings.HasPrefix(name, "data/") || !strings.HasSuffix(name, "/testdata.yaml") {
			continue
		}
		data, err := t.text(name, maxTextFile)
		if err != nil {
			return err
		}
		fields, err := parseMapping(name, data)
		if err != nil {
			return err
		}
		for _, f := range fields {
			v, textErr := f.text()
			if testdataKeys[f.key] || textErr == nil && v == "" {
				continue
			}
			return f.unsupported("settings of a test group are not supported yet")
		}
	}
	return nil
}
