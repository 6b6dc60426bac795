package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"assay/internal/judge"
	"assay/internal/judge/problempkg"
)

func TestCollectSubmissions(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "sum")
	if err := problempkg.New(dir, problempkg.PassFailTemplate, ""); err != nil {
		t.Fatal(err)
	}
	contest := filepath.Join(filepath.Dir(dir), "contest")
	for name, text := range map[string]string{
		"ada/main.py": "import lib", "ada/lib.py": "", "bob.cpp": "int main() {}", "notes.md": "", ".hidden.py": "",
		"empty/readme.md": "",
	} {
		path := filepath.Join(contest, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("nowhere.py", filepath.Join(contest, "gone.py")); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(contest, "empty")); err != nil {
		t.Fatal(err)
	}
	pkg, err := problempkg.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := pkg.Close(); err != nil {
			t.Error(err)
		}
	}()
	all := []string{"accepted/even.cpp", "accepted/even.py", "wrong_answer/remainder_one.cpp", "wrong_answer/without_zero.py"}
	tests := []struct {
		name     string
		paths    []string
		folders  bool
		want     []string
		warnings int
		err      string
	}{
		{"none_is_all_labelled", nil, false, all, 0, ""},
		{"submissions", []string{filepath.Join(dir, "submissions")}, false, all, 0, ""},
		{"one_label", []string{filepath.Join(dir, "submissions", "accepted")}, false, all[:2], 0, ""},
		{"folder_of_files_and_folders", []string{contest}, false, []string{"contest/ada", "contest/bob.cpp"}, 2, ""},
		{"folder_as_one", []string{filepath.Join(contest, "ada")}, true, []string{"contest/ada"}, 0, ""},
		{"folder_of_files", []string{filepath.Join(contest, "ada")}, false, []string{"ada/lib.py", "ada/main.py"}, 0, ""},
		{"not_there", []string{filepath.Join(contest, "eve.py")}, false, nil, 0, "does not exist"},
		{"no_submissions", []string{filepath.Join(dir, "data", "sample")}, false, nil, 0, "has no submissions"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			list, warnings, err := collect(pkg, tt.paths, tt.folders)
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("error %v, want %q", err, tt.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, l := range list {
				names = append(names, l.Submission.Name)
				if slices.Contains(all, l.Submission.Name) && l.Expectation.Label == "" {
					t.Errorf("%s has no label", l.Submission.Name)
				}
			}
			if diff := cmp.Diff(tt.want, names); diff != "" || len(warnings) != tt.warnings {
				t.Errorf("warnings %q, submissions (-want +got):\n%s", warnings, diff)
			}
		})
	}
}

func TestBoardTallies(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	env := &Env{Stdout: &out, Stderr: &out}
	env.UI = newUI(env, globals{Color: "never"})
	b := newBoard(env, "judge sum", make([]judge.Job, 3))
	b.observe(0, judge.Event{Step: judge.StepCompiling})
	b.observe(1, judge.Event{Step: judge.StepCompiling})
	b.observe(0, judge.Event{Step: judge.StepDone, Text: "WA"})
	b.observe(1, judge.Event{Step: judge.StepCase, Case: 2, Cases: 5})
	b.observe(0, judge.Event{Step: judge.StepCompiling}) // once more, on all cases
	if got := b.tally(); got != "" {
		t.Errorf("tally %q of one that is judged once more", got)
	}
	b.observe(0, judge.Event{Step: judge.StepDone, Text: "TLE"})
	b.observe(1, judge.Event{Step: judge.StepDone, Text: "AC"})
	b.take(1, judge.Accepted)
	b.take(2, judge.Skipped)
	if got, want := b.tally(), "AC 1, TLE 1, SK 1"; got != want {
		t.Errorf("tally %q, want %q", got, want)
	}
	b.finish(b.tally())
	if !strings.Contains(out.String(), "assay: judge sum: AC 1, TLE 1, SK 1 (") {
		t.Errorf("left behind: %q", out.String())
	}
}

func TestTextOfStrangersIsTame(t *testing.T) {
	t.Parallel()
	if got, want := oneLine("a\x1b[2J\nb\tc\xff\r\n"), "a\uFFFD[2J b c\uFFFD"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := visible("a\x1b[2J\r\nb\tc\x9b"), "a\uFFFD[2J\nb\tc\uFFFD"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
