package problempkg

import (
	"path"
	"slices"
	"strings"

	"assay/internal/fault"
	"assay/internal/judge/checker"
)

// gradingFormat reports whether groups are graded by the rules of 2025-09. Its
// drafts had the files of the legacy format.
func (r *reader) gradingFormat() (rules bool, err error) {
	if !r.meta.rules {
		return false, nil
	}
	var old *field
	for _, name := range r.t.below("data") {
		switch path.Base(name) {
		case "test_group.yaml":
			return true, nil
		case "testdata.yaml":
			fields, err := r.t.mapping(name)
			if err != nil {
				return false, err
			}
			if len(fields) > 0 && old == nil {
				old = &fields[0]
			}
		}
	}
	switch {
	case old == nil:
		return true, nil
	case old.key == "scoring":
		return false, old.unsupported("scoring as an early draft of the format had it is not supported").
			WithHint("write max_score and score_aggregation into test_group.yaml")
	case !r.meta.draft:
		return false, old.wrong("testdata.yaml is a file of the legacy format").WithHint("write test_group.yaml, or problem_format_version: legacy")
	}
	r.t.warn("%s: test groups are graded as in the legacy format", old.file)
	return false, nil
}

// checkFlags refuses arguments that the default checker does not know.
func (r *reader) checkFlags() error {
	if r.pkg.Problem.Interactor != nil || len(r.pkg.Problem.Checkers) > 0 {
		return nil
	}
	if _, err := checker.ParseOptions(strings.Fields(r.meta.validatorFlags)); err != nil {
		return at("problem.yaml", r.meta.validatorFlagsLine, err)
	}
	var last []string
	for _, c := range r.pkg.Problem.Cases {
		if slices.Equal(c.CheckerArgs, last) {
			continue
		}
		last = c.CheckerArgs
		if _, err := checker.ParseOptions(c.CheckerArgs); err != nil {
			return fault.Errorf(fault.KindOf(err), "case data/%s.in: %w", c.Name, err)
		}
	}
	return nil
}

// checkedFlags holds arguments against the default checker where they stand, if
// it is the one that decides.
func (r *reader) checkedFlags(f field, flags []string) error {
	if r.pkg.Problem.Interactor != nil || len(r.pkg.Problem.Checkers) > 0 {
		return nil
	}
	if _, err := checker.ParseOptions(flags); err != nil {
		return at(f.file, f.line, err)
	}
	return nil
}

// proofs reads the cases that the validators are tried on.
func (r *reader) proofs() ([]Proof, error) {
	var list []Proof
	for _, kind := range []ProofKind{InvalidInput, InvalidOutput, ValidOutput} {
		dir := "data/" + string(kind)
		bases, err := r.t.caseBases(dir, kind != InvalidInput)
		if err != nil {
			return nil, err
		}
		g := &grouping{reader: r, files: map[string]groupFile{}, settings: map[string]settings{}}
		for _, base := range bases {
			c, err := g.testCase(base)
			if err != nil {
				return nil, err
			}
			p := Proof{Kind: kind, Case: c}
			if kind != InvalidInput {
				if r.t.files[base+".out"] == nil {
					return nil, fault.Errorf(fault.Invalid, "%s.in has no output %s.out", base, base).
						WithHint("a case that tries the output validator has .in, .ans and .out")
				}
				p.Output = r.t.blob(base + ".out")
			}
			list = append(list, p)
		}
	}
	if len(list) > 0 && r.meta.interactive && slices.ContainsFunc(list, func(p Proof) bool { return p.Kind != InvalidInput }) {
		r.t.warn("data/invalid_output and data/valid_output are not for interactive problems")
	}
	return list, nil
}

// warnOfStatement tells when there is nothing to read for people.
func (r *reader) warnOfStatement() {
	for _, name := range r.t.names {
		dir, base := path.Split(name)
		if strings.HasPrefix(base, "problem.") && (dir == "statement/" || dir == "problem_statement/" || dir == "" && base != "problem.yaml" && base != "problem.xml") {
			return
		}
	}
	dir := "problem_statement"
	if r.meta.rules {
		dir = "statement"
	}
	r.t.warn("the package has no problem statement in %s/", dir)
}
