package app

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"assay/internal/judge"
	"assay/internal/judge/checker"
)

func languageOf(id string) (judge.Language, error) {
	set, err := judge.DefaultLanguages()
	if err != nil {
		return judge.Language{}, err
	}
	return set.ByID(id)
}

// judged judges one source of the judge's testdata, in the problem that the
// language's self-test is for.
func judged(t *testing.T, j *judge.Judge, language, source string, data []byte, limits judge.ProblemLimits) judge.Run {
	t.Helper()
	l, err := languageOf(language)
	if err != nil {
		t.Fatal(err)
	}
	p, s := l.SelfTestCase(checker.Default{})
	if data == nil {
		if data, err = os.ReadFile(filepath.Join("..", "judge", "testdata", source)); err != nil {
			t.Fatal(err)
		}
	}
	s.Files[0] = judge.SourceFile{Name: filepath.Base(source), Data: data}
	p.Limits = limits
	run, err := j.Run(t.Context(), p, s, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Log(outcome(run))
	if len(run.Retries) > 0 {
		t.Errorf("our own failures: %v", run.Retries)
	}
	return run
}

// TestHostileCompiles judges sources that attack the compiler or use it to
// look around. They end within the compiler's limits and tell nothing.
func TestHostileCompiles(t *testing.T) {
	e := withJudge(t)
	j, err := e.Judge(judge.Options{})
	if err != nil {
		t.Fatal(err)
	}
	elf := append([]byte("\x7fELF\x02\x01\x01\x00"), bytes.Repeat([]byte{0, 1, 2, 0xff}, 100)...)
	tests := map[string]struct {
		language, source string
		data             []byte
		// reason is part of what the run says, output of what the compiler said.
		reason, output string
		want           judge.Verdict // empty: CE
		limit          time.Duration // of the compiler; zero: 3 s
	}{
		// Such a file has no size, so the compiler finds nothing in it.
		"environment":  {language: "c", source: "compile/environ.c", want: judge.WrongAnswer},
		"shadow":       {language: "c", source: "compile/shadow.c", reason: "exit code", output: "Permission denied"},
		"incbin":       {language: "c", source: "compile/incbin.c", reason: "exit code", output: "/etc/shadow"},
		"self_include": {language: "c", source: "compile/self_include.c", reason: "limit"},
		"templates":    {language: "cpp", source: "compile/templates.cpp", reason: "limit"},
		"constexpr":    {language: "cpp", source: "compile/constexpr.cpp", reason: "exit code"},
		"macros":       {language: "cpp", source: "compile/macros.cpp", reason: "limit"},
		"gigabyte":     {language: "c", source: "compile/gigabyte.c", reason: ""},
		"zeros":        {language: "c", source: "compile/zeros.c", reason: ""},
		"dev_zero":     {language: "c", source: "compile/dev_zero.c", reason: ""},
		"dev_random":   {language: "c", source: "compile/dev_random.c", reason: ""},
		"dev_stdin":    {language: "c", source: "compile/dev_stdin.c", reason: "exit code"},
		"rust_shadow":  {language: "rust", source: "compile/shadow.rs", reason: "exit code", output: "Permission denied"},
		"type_bomb":    {language: "typescript", source: "compile/types.ts", limit: 10 * time.Second},
		"elf":          {language: "cpp", source: "main.cpp", data: elf, reason: "exit code"},
		"empty":        {language: "cpp", source: "main.cpp", data: []byte{}, reason: "exit code"},
		"not_utf8":     {language: "cpp", source: "main.cpp", data: []byte("int main() { int \xff\xfe = 0; }\n"), reason: "exit code"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			l, err := languageOf(tt.language)
			if err != nil {
				t.Fatal(err)
			}
			languageTemplate(t, e, l.Template)
			tt.limit = max(tt.limit, 3*time.Second)
			began := time.Now()
			run := judged(t, j, tt.language, tt.source, tt.data, judge.ProblemLimits{CPU: time.Second, CompileTime: tt.limit})
			if tt.want == "" {
				tt.want = judge.CompileError
			}
			if run.Verdict != tt.want || !strings.Contains(run.Reason, tt.reason) || !strings.Contains(run.Compile.Output, tt.output) {
				t.Errorf("%s (%s), want %s with %q%s", run.Verdict, run.Reason, tt.want, tt.reason, said(run))
			}
			if took := time.Since(began); took > 30*time.Second {
				t.Errorf("took %s", took)
			}
			// It is ended by the net behind the limit at the latest. That it then has to
			// give back much memory is counted, too, and takes seconds on a busy host.
			const giveBack = 5 * time.Second
			if most := judge.DefaultWall(tt.limit) + giveBack; run.Compile.Usage.Counted > most {
				t.Errorf("the compiler used %s, limit %s, at most %s", run.Compile.Usage.Counted, tt.limit, most)
			}
			for _, secret := range []string{"root:", "ASSAY", os.Getenv("HOME") + "/"} {
				if len(secret) > 1 && strings.Contains(run.Compile.Output, secret) {
					t.Errorf("the compiler printed %q%s", secret, said(run))
				}
			}
			if len(run.Compile.Output) > judge.MaxCompilerOutput+4 {
				t.Errorf("%d bytes of output kept", len(run.Compile.Output))
			}
		})
	}
}

// TestSourcesWithOddContents are compiled like any other.
func TestSourcesWithOddContents(t *testing.T) {
	e := withJudge(t)
	j, err := e.Judge(judge.Options{})
	if err != nil {
		t.Fatal(err)
	}
	hello := "#include <cstdio>\nint main() { puts(\"hello\"); }\n"
	for name, tt := range map[string]struct{ file, text string }{
		"other_charset": {"main.cpp", "// \xd6\xd0\xce\xc4 \xe9\n" + hello},
		"windows_lines": {"main.cpp", strings.ReplaceAll(hello, "\n", "\r\n")},
		"mark":          {"main.cpp", "\ufeff" + hello},
		"odd_name":      {"test-file name#\\.bogus ext", hello},
		"command_name":  {"$(touch x);`id`.cpp", hello},
		"option_name":   {"-o.cpp", hello},
	} {
		t.Run(name, func(t *testing.T) {
			run := judged(t, j, "cpp", tt.file, []byte(tt.text), judge.ProblemLimits{CPU: time.Second})
			if run.Verdict != judge.Accepted {
				t.Errorf("%s (%s)%s", run.Verdict, firstReason(run), said(run))
			}
		})
	}
}

// TestMemoryVerdicts holds what is a memory limit and what is not.
func TestMemoryVerdicts(t *testing.T) {
	e := withJudge(t)
	j, err := e.Judge(judge.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for source, want := range map[string]judge.Verdict{
		"run/static_array.cpp":   judge.MemoryLimitExceeded,
		"run/calloc_touched.c":   judge.MemoryLimitExceeded,
		"run/malloc_refused.c":   judge.RunTimeError,
		"run/static_untouched.c": judge.Accepted,
	} {
		t.Run(strings.NewReplacer("/", "_", ".", "_").Replace(source), func(t *testing.T) {
			language := strings.TrimPrefix(filepath.Ext(source), ".")
			run := judged(t, j, language, source, nil, judge.ProblemLimits{CPU: 3 * time.Second, Memory: 256 << 20})
			if run.Verdict != want {
				t.Errorf("%s (%s), want %s%s", run.Verdict, firstReason(run), want, said(run))
			}
		})
	}
}
