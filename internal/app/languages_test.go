package app

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"assay/internal/fault"
	"assay/internal/image"
	"assay/internal/judge"
	"assay/internal/judge/checker"
	"assay/internal/require"
)

// withJudge opens an engine on the tests' data directory. languageTemplate
// ends a test whose template is not built there.
func withJudge(t *testing.T) *Engine {
	t.Helper()
	e, err := OpenEngine(t.Context(), Config{DataDir: testData(t), BinDir: require.Binaries(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Errorf("close the engine: %v", err)
		}
	})
	return e
}

// languageTemplate skips what needs a template other than base: that takes
// minutes to build, so somebody must have wanted it, by ASSAY_TEST_JUDGE=1 or
// ASSAY_TEST_COURSE=1, or by "judge-template" or "course-template" in REQUIRE.
func languageTemplate(t *testing.T, e *Engine, name string) {
	t.Helper()
	if name == "base" {
		return
	}
	built, err := e.Templates.Built(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	thing, variable := name+"-template", "ASSAY_TEST_"+strings.ToUpper(name)
	wanted := os.Getenv(variable) == "1" || slices.Contains(strings.Split(os.Getenv("REQUIRE"), ","), thing)
	require.Thing(t, thing, built && wanted, "template "+name+" is not built in the tests' data directory, or "+variable+" is not 1")
}

// inCourse gives the template in which tests grade Java and JavaScript: a course
// has a small one in place of the judge's.
func inCourse(template string) string {
	if template == "judge" {
		return "course"
	}
	return template
}

// TestLanguages judges six programs in each language. "fits" holds 160 MiB of
// data that it still needs when it ends; "hog" takes more and more.
func TestLanguages(t *testing.T) {
	e := withJudge(t)
	j, err := e.Judge(judge.Options{})
	if err != nil {
		t.Fatal(err)
	}
	set, err := judge.DefaultLanguages()
	if err != nil {
		t.Fatal(err)
	}
	programs := []struct {
		name   string
		memory int64
		cpu    time.Duration
		want   judge.Verdict
		reason string
	}{
		{"hello", 64 << 20, 10 * time.Second, judge.Accepted, ""},
		{"loop", 256 << 20, time.Second, judge.TimeLimitExceeded, "CPU time"},
		{"exit", 256 << 20, 5 * time.Second, judge.RunTimeError, "exit code 7"},
		{"fits", 256 << 20, 5 * time.Second, judge.Accepted, ""},
		{"hog", 256 << 20, 5 * time.Second, judge.MemoryLimitExceeded, "memory"},
		{"broken", 256 << 20, 5 * time.Second, judge.CompileError, "exit code"},
	}
	for _, id := range set.IDs() {
		t.Run(id, func(t *testing.T) {
			l, err := set.ByID(id)
			if err != nil {
				t.Fatal(err)
			}
			languageTemplate(t, e, l.Template)
			for _, p := range programs {
				t.Run(p.name, func(t *testing.T) {
					problem, s := l.SelfTestCase(checker.Default{})
					if p.name != "hello" {
						s.Files[0].Data = languageProgram(t, l, p.name)
					}
					problem.Limits.CPU, problem.Limits.Memory = p.cpu, p.memory
					run, err := j.Run(t.Context(), problem, s, nil)
					if err != nil {
						t.Fatal(err)
					}
					t.Log(outcome(run))
					if run.Verdict != p.want || !strings.Contains(firstReason(run), p.reason) {
						t.Errorf("want %s with %q%s", p.want, p.reason, said(run))
					}
					if len(run.Retries) > 0 {
						t.Errorf("retries: %v", run.Retries)
					}
				})
			}
		})
	}
}

// languageProgram reads a program of testdata; a dialect uses those of the
// language whose extensions it has.
func languageProgram(t *testing.T, l judge.Language, name string) []byte {
	t.Helper()
	dir := map[string]string{"cpp17": "cpp", "cpp23": "cpp", "pypy3": "python3"}[l.ID]
	if dir == "" {
		dir = l.ID
	}
	data, err := os.ReadFile(filepath.Join("testdata", "languages", dir, name+filepath.Ext(l.SourceFile)))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// outcome is a run in one line.
func outcome(run judge.Run) string {
	text := fmt.Sprintf("%s, compiled in %.2f s", run.Verdict, run.Compile.Usage.Counted.Seconds())
	for _, c := range run.Cases {
		text += fmt.Sprintf(", ran %.3f s with %d MiB and %d processes", c.Usage.Counted.Seconds(), c.Usage.MemoryPeak>>20, c.Usage.ProcessesPeak)
	}
	return text + ": " + firstReason(run)
}

func firstReason(run judge.Run) string {
	if run.Reason != "" {
		return run.Reason
	}
	for _, c := range run.Cases {
		if c.Reason != "" {
			return c.Reason
		}
	}
	return ""
}

// TestLanguageChecksAreKept finds that the second look needs no machine, and
// that a self-test is not taken for done by asking for versions.
func TestLanguageChecksAreKept(t *testing.T) {
	e := withJudge(t)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	versions, err := e.Versions(ctx, "base")
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range versions {
		if v.Version == "" {
			t.Errorf("%s has no version", v.ID)
		}
	}
	tested, err := e.TestLanguages(ctx, "base", nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(tested) != len(versions) || slices.ContainsFunc(tested, func(c LanguageCheck) bool { return !c.Tested }) {
		t.Errorf("tested: %v", tested)
	}
	again, err := e.TestLanguages(ctx, "base", func(id string, _, _ int) { t.Errorf("%s is tested again", id) })
	if err != nil || !slices.Equal(again, tested) {
		t.Errorf("again: %v, %v", again, err)
	}
}

// TestTemplateWithoutItsLanguage is one that promises what it does not have.
func TestTemplateWithoutItsLanguage(t *testing.T) {
	t.Cleanup(func() { // after the engine, which holds them, is closed
		store, err := image.Open(filepath.Join(os.Getenv("ASSAY_TEST_DATA"), "templates"), image.Options{Guestd: filepath.Join(os.Getenv("ASSAY_BIN"), "guestd")})
		if err != nil {
			return // the test was skipped
		}
		for _, name := range []string{"test-no-compiler", "test-no-room"} {
			if err := store.Remove(name); err != nil && !fault.Is(err, fault.NotFound) {
				t.Error(err)
			}
		}
	})
	e := withJudge(t)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	for name, tt := range map[string]struct{ definition, want string }{
		"no_compiler": {"from: {template: base}\nlanguages: [ruby]\n", "version command of Ruby"},
		// The compiler is there and answers, but has no room for its work.
		"no_room": {"from: {template: base}\nshape: {disk: 1MiB}\n", "self-test of C++20 (GCC): compile error"},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "test-"+strings.ReplaceAll(name, "_", "-")+".yaml")
			if err := os.WriteFile(file, []byte(tt.definition), 0o644); err != nil {
				t.Fatal(err)
			}
			_, err := e.TestLanguages(ctx, file, nil)
			t.Log(err)
			if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), tt.want) || fault.HintOf(err) == "" {
				t.Errorf("TestLanguages = %v, want Invalid with %q and a hint", err, tt.want)
			}
		})
	}
}
