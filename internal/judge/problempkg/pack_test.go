package problempkg

import (
	"archive/zip"
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"assay/internal/fault"
	"assay/internal/judge"
)

var fixed = time.Date(2001, 2, 3, 4, 5, 6, 0, time.UTC)

func TestZip(t *testing.T) {
	t.Parallel()
	dir := writeFolder(t, with("data/secret/z", "-> a", "output_validators/v/run", "", ".git/x", "", "bad name", ""))
	var first, second bytes.Buffer
	warnings, err := Zip(dir, &first)
	if err != nil || len(warnings) == 0 {
		t.Fatalf("Zip = %q, %v, want a warning of the name that is not allowed", warnings, err)
	}
	if err := os.Chtimes(filepath.Join(dir, "problem.yaml"), fixed, fixed); err != nil {
		t.Fatal(err)
	}
	if _, err := Zip(dir, &second); err != nil || !bytes.Equal(first.Bytes(), second.Bytes()) {
		t.Errorf("a second zip differs, or %v", err)
	}
	folder, zipped := load(t, dir), load(t, writeZip(t, first.Bytes()))
	if folder.Problem.Version != zipped.Problem.Version || len(zipped.Problem.Cases) != 5 {
		t.Errorf("versions %s and %s, %d cases", folder.Problem.Version, zipped.Problem.Version, len(zipped.Problem.Cases))
	}
	z, err := zip.NewReader(bytes.NewReader(first.Bytes()), int64(first.Len()))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range z.File {
		names = append(names, f.Name)
		if !f.Mode().IsRegular() || !strings.HasPrefix(f.Name, "sum/") || strings.HasSuffix(f.Name, "/run") != (f.Mode().Perm() == 0o755) {
			t.Errorf("entry %s has the mode %v", f.Name, f.Mode())
		}
	}
	if !slices.IsSorted(names) || !slices.Contains(names, "sum/.timelimit") || !slices.Contains(names, "sum/data/secret/z/1.in") || slices.Contains(names, "sum/.git/x") {
		t.Errorf("names %q", names)
	}
}

func TestZipRefusesFolders(t *testing.T) {
	t.Parallel()
	broken := writeFolder(t, without("problem.yaml"))
	for dir, kind := range map[string]fault.Kind{broken: fault.Invalid, filepath.Join(broken, "none"): fault.NotFound, filepath.Join(broken, ".timelimit"): fault.Invalid} {
		var buf bytes.Buffer
		if _, err := Zip(dir, &buf); !fault.Is(err, kind) || buf.Len() > 0 {
			t.Errorf("Zip(%s) = %v and %d bytes, want %v", dir, err, buf.Len(), kind)
		}
	}
}

func TestNew(t *testing.T) {
	t.Parallel()
	langs, err := judge.DefaultLanguages()
	if err != nil {
		t.Fatal(err)
	}
	for _, template := range Templates() {
		t.Run(string(template), func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "first")
			if err := New(dir, template, `A "new" problem: {x}`); err != nil {
				t.Fatal(err)
			}
			p := load(t, dir)
			q := p.Problem
			if len(p.Warnings) > 0 || q.Name != `A "new" problem: {x}` || q.ShortName != "first" || q.Limits.CPU == 0 || len(q.InputValidators) != 1 {
				t.Errorf("problem %+v, warnings %q", q, p.Warnings)
			}
			if got := (q.Interactor != nil); got != (template == InteractiveTemplate) || q.Scoring != (template == ScoringTemplate) {
				t.Errorf("interactive %v, scoring %v", got, q.Scoring)
			}
			seen := map[string]int{}
			for _, s := range p.Submissions {
				lang, err := langs.Detect(s.Submission.Files)
				if err != nil || s.Expectation.Label == "" {
					t.Errorf("%s: label %q, %v", s.Path, s.Expectation.Label, err)
				}
				seen[lang.ID]++
				seen[strings.Split(s.Path, "/")[1]]++
			}
			if seen["cpp"] < 2 || seen["python3"] < 2 || seen["accepted"] != 2 || seen["wrong_answer"] == 0 {
				t.Errorf("submissions %v", seen)
			}
			if err := New(dir, template, ""); !fault.Is(err, fault.Conflict) {
				t.Errorf("a second New = %v, want Conflict", err)
			}
			other := filepath.Join(t.TempDir(), "second")
			if err := New(other, template, ""); err != nil {
				t.Fatal(err)
			}
			if second := load(t, other).Problem; second.Name != "Second" || second.Version == q.Version {
				t.Errorf("second problem %q %s", second.Name, second.Version)
			}
		})
	}
	if err := New(filepath.Join(t.TempDir(), "x"), "riddle", ""); !fault.Is(err, fault.Invalid) {
		t.Errorf("an unknown template: %v", err)
	}
	if err := New(filepath.Join(t.TempDir(), "Not-A-Name"), PassFailTemplate, ""); !fault.Is(err, fault.Invalid) {
		t.Errorf("a name that is not allowed: %v", err)
	}
}
