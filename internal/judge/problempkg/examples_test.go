package problempkg

import (
	"path/filepath"
	"slices"
	"testing"

	"assay/internal/judge"
)

// TestExamplePackages holds the packages of this repository to their promises:
// they load without a warning, and each submission has a language and a label.
func TestExamplePackages(t *testing.T) {
	t.Parallel()
	langs, err := judge.DefaultLanguages()
	if err != nil {
		t.Fatal(err)
	}
	dirs, err := filepath.Glob("../../../examples/problems/*")
	if err != nil || len(dirs) < 2 {
		t.Fatalf("example packages: %q, %v", dirs, err)
	}
	seen := map[judge.Verdict]bool{}
	for _, dir := range dirs {
		p := load(t, dir)
		if len(p.Warnings) > 0 {
			t.Errorf("%s: %q", dir, p.Warnings)
		}
		for _, s := range p.Submissions {
			if _, err := langs.Detect(s.Submission.Files); err != nil {
				t.Errorf("%s: %v", s.Path, err)
			}
			for _, v := range slices.Concat(s.Expectation.Final, s.Expectation.Required) {
				seen[v] = true
			}
			if s.Expectation.Label == "" {
				t.Errorf("%s: no label", s.Path)
			}
		}
	}
	for _, v := range []judge.Verdict{judge.Accepted, judge.WrongAnswer, judge.TimeLimitExceeded, judge.MemoryLimitExceeded, judge.OutputLimitExceeded, judge.RunTimeError, judge.CompileError} {
		if !seen[v] {
			t.Errorf("no submission is expected to get %s", v)
		}
	}
}
