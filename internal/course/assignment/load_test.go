package assignment

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/internal/course"
	"assay/internal/fault"
)

// TestNewLoads holds every sample against the reader.
func TestNewLoads(t *testing.T) {
	t.Parallel()
	for _, mode := range []course.Mode{course.IO, course.Call, course.Pytest, course.Harness} {
		for _, language := range samples(mode) {
			t.Run(string(mode)+"_"+language, func(t *testing.T) {
				t.Parallel()
				dir := filepath.Join(t.TempDir(), "first")
				if _, err := New(dir, Options{Mode: mode, Language: language, Title: "Leap years: a start"}); err != nil {
					t.Fatal(err)
				}
				a, err := Load(dir)
				if err != nil {
					t.Fatal(err)
				}
				if a.Title != "Leap years: a start" || a.Name != "first" || a.Mode != mode || len(a.Solution) == 0 || len(a.Starter) == 0 {
					t.Errorf("title %q, name %q, mode %q, %d and %d files", a.Title, a.Name, a.Mode, len(a.Solution), len(a.Starter))
				}
				for _, f := range a.Files {
					if strings.HasPrefix(f.Name, "solution/") || strings.HasPrefix(f.Name, "starter/") {
						t.Errorf("%s would go to the grader", f.Name)
					}
				}
				if _, err := New(dir, Options{Mode: mode, Language: language}); !fault.Is(err, fault.Conflict) {
					t.Errorf("New over an assignment: %v, want a conflict", err)
				}
			})
		}
	}
}

// TestReadIsAsLoad: what was uploaded is graded as the folder on the disk is.
func TestReadIsAsLoad(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "lab")
	if _, err := New(dir, Options{Mode: course.IO, Language: "python3"}); err != nil {
		t.Fatal(err)
	}
	want, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	files, err := readFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	got, err := Read("lab", append(files, course.File{Name: "tests/__pycache__/x.pyc"}, course.File{Name: "z/.DS_Store"}))
	if err != nil {
		t.Fatal(err)
	}
	if got.Version != want.Version || got.Name != want.Name || len(got.Files) != len(want.Files) {
		t.Errorf("got version %s of %s, want %s of %s", got.Version, got.Name, want.Version, want.Name)
	}
	if _, err := Read("lab", nil); !fault.Is(err, fault.NotFound) {
		t.Errorf("got %v, want not found", err)
	}
}

// TestVersion says what makes a new version: what can change a grade.
func TestVersion(t *testing.T) {
	t.Parallel()
	version := func(change func(dir string)) string {
		dir := filepath.Join(t.TempDir(), "a")
		if _, err := New(dir, Options{Mode: course.Pytest, Language: "python3", Title: "A"}); err != nil {
			t.Fatal(err)
		}
		change(dir)
		a, err := Load(dir)
		if err != nil {
			t.Fatal(err)
		}
		return a.Version
	}
	appendTo := func(name, text string) func(string) {
		return func(dir string) {
			f, err := os.OpenFile(filepath.Join(dir, name), os.O_APPEND|os.O_WRONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if _, err := f.WriteString(text); err != nil {
				t.Fatal(err)
			}
		}
	}
	first := version(func(string) {})
	tests := []struct {
		name   string
		change func(string)
		same   bool
	}{
		{"nothing", func(string) {}, true},
		{"due date", appendTo(FileName, "due: 2026-12-01T12:00\n"), true},
		{"starter code", appendTo("starter/account.py", "# more\n"), true},
		{"seed", appendTo(FileName, "seed: 7\n"), false},
		{"a test", appendTo("tests/test_account.py", "# more\n"), false},
		{"the solution", appendTo("solution/account.py", "# more\n"), false},
	}
	for _, tt := range tests {
		if got := version(tt.change); (got == first) != tt.same {
			t.Errorf("%s: same version %t, want %t", tt.name, got == first, tt.same)
		}
	}
}

func TestBadAssignments(t *testing.T) {
	t.Parallel()
	const io = "title: A\nmode: io\nlanguage: python3\nfiles: [a.py]\n"
	tests := []struct{ name, text, want string }{
		{"empty", "", "expected one mapping"},
		{"no title", "mode: io\n", "title is missing"},
		{"unknown key", io + "colour: red\n", "assignment.yaml:5:1"},
		{"unknown mode", "title: A\nmode: oral\nfiles: [a]\n", `mode "oral" is not known`},
		{"no files", "title: A\nmode: io\nlanguage: python3\n", "files is missing"},
		{"leads out", "title: A\nmode: io\nlanguage: python3\nfiles: [../a]\n", "not a relative name"},
		{"no language", "title: A\nmode: io\nfiles: [a.py]\n", "needs a language"},
		{"unknown language", "title: A\nmode: io\nlanguage: klingon\nfiles: [a.py]\n", "klingon"},
		{"no tests", io, "tests is missing"},
		{"tests is text", io + "tests: many\n", "tests must be a list"},
		{"test without name", io + "tests: [{stdout: x}]\n", "the test has no name"},
		{"compares nothing", io + "tests: [{name: t}]\n", "compares nothing"},
		{"two of a name", io + "tests: [{name: t, stdout: x}, {name: t, stdout: y}]\n", `two tests are called "t"`},
		{"unknown key of a test", io + "tests: [{name: t, stdout: x, colour: red}]\n", "colour"},
		{"unknown flag", io + "tests: [{name: t, stdout: x, check: almost}]\n", "almost"},
		{"points below zero", io + "tests: [{name: t, stdout: x, points: -1}]\n", "below zero"},
		{"points not a number", io + "tests: [{name: t, stdout: x, points: many}]\n", "many"},
		{"wrong sum", io + "points: 5\ntests: [{name: t, stdout: x, points: 2}]\n", "add up to 2"},
		{"file not there", io + "tests: [{name: t, stdin_file: in.txt, stdout: x}]\n", "there is no in.txt"},
		{"visibility", io + "visibility: sometimes\ntests: [{name: t, stdout: x}]\n", "not a visibility"},
		{"visibility of a test", io + "tests: [{name: t, stdout: x, visibility: sometimes}]\n", "not a visibility"},
		{"size without unit", io + "limits: {memory: 512}\ntests: [{name: t, stdout: x}]\n", "number with a unit"},
		{"alias", io + "seed: &a 1\ntests: [{name: t, stdout: x}]\n", "aliases"},
		{"mode's own keys", io + "pytest: {paths: [x]}\ntests: [{name: t, stdout: x}]\n", "belong to the modes"},
		{"no harness", "title: A\nmode: harness\nfiles: [a.py]\n", "needs the key harness"},
		{"no such folder", "title: A\nmode: pytest\nfiles: [a.py]\n", "there is no tests"},
		{"proof without score", io + "proofs: [{files: b}]\ntests: [{name: t, stdout: x}]\n", "score is missing"},
		{"proof not there", io + "proofs: [{files: b, score: 1}]\ntests: [{name: t, stdout: x}]\n", "there is no b"},
		{"deep", strings.Repeat(" ", 300) + "a: 1\n", "nested too deeply"},
		{"call compares nothing", "title: A\nmode: call\nlanguage: python3\nfiles: [a.py]\ntests: [{name: t, call: f}]\n", "compares nothing"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, FileName), []byte(tt.text), 0o644); err != nil {
				t.Fatal(err)
			}
			_, err := Load(dir)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want one that says %q", err, tt.want)
			}
			if k := fault.KindOf(err); err != nil && k != fault.Invalid && k != fault.NotFound {
				t.Errorf("kind %s", k)
			}
		})
	}
}

func TestLinkInFolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.Symlink("/etc/passwd", filepath.Join(dir, "input.txt")); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(dir); err == nil || !strings.Contains(err.Error(), "input.txt is a link") {
		t.Errorf("error %v, want one that names the link", err)
	}
}

func FuzzParse(f *testing.F) {
	for _, mode := range []course.Mode{course.IO, course.Call, course.Pytest, course.Harness} {
		for _, language := range samples(mode) {
			data, err := scaffold.ReadFile("scaffold/" + string(mode) + "/" + language + "/" + FileName)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(data)
		}
	}
	f.Add([]byte("tests: [{name: t, args: [!!float nan]}]\nlate: {per_day: 10%}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		parsed, err := parseFile(FileName, data)
		if err != nil {
			if k := fault.KindOf(err); k != fault.Invalid {
				t.Fatalf("kind %s of %v", k, err)
			}
			return
		}
		l := loader{file: parsed, files: []course.File{{Name: FileName, Data: data}, {Name: "tests/t.py"}}, a: &course.Assignment{Name: "fuzz"}}
		_ = l.load() // Must come back.
	})
}
