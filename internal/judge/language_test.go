package judge_test

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"assay/internal/fault"
	"assay/internal/judge"
	"assay/templates"
)

func languages(t *testing.T) *judge.Languages {
	t.Helper()
	l, err := judge.DefaultLanguages()
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestDetectLanguage(t *testing.T) {
	t.Parallel()
	langs := languages(t)
	tests := map[string]struct {
		files string
		want  string // empty: Invalid
	}{
		"c": {"a.c", "c"}, "cpp": {"a.cpp", "cpp"}, "cc": {"a.cc", "cpp"}, "python": {"a.py", "python3"}, "java": {"Main.java", "java"},
		"rust": {"a.rs", "rust"}, "kotlin": {"a.kt", "kotlin"}, "shell": {"a.sh", "bash"}, "ocaml_interface": {"a.ml a.mli", "ocaml"},
		"dialects_are_by_name": {"a.cpp b.cc", "cpp"}, "pypy_is_by_name": {"a.py3", "python3"},
		"upper_c_is_cpp": {"a.C", "cpp"}, "with_header": {"a.cpp b.h", "cpp"}, "header_first": {"a.h b.c", "c"}, "two_sources": {"a.c b.c", "c"},
		"mixed": {"a.c b.py", ""}, "header_only": {"a.h", ""}, "object": {"a.o", ""}, "elf_beside": {"a.c b", ""}, "none": {"Makefile", ""},
		"header_of_another": {"a.py b.h", ""}, "no_extension": {"py", ""}, "dot": {"a.", ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var files []judge.SourceFile
			for _, n := range strings.Fields(tt.files) {
				files = append(files, judge.SourceFile{Name: n})
			}
			got, err := langs.Detect(files)
			if got.ID != tt.want || (tt.want == "") != fault.Is(err, fault.Invalid) {
				t.Errorf("Detect(%s) = %q, %v, want %q", tt.files, got.ID, err, tt.want)
			}
			if err != nil && fault.HintOf(err) == "" {
				t.Errorf("no hint in %v", err)
			}
		})
	}
}

func TestUnknownLanguageNamesTheKnown(t *testing.T) {
	t.Parallel()
	_, err := languages(t).ByID("cobol")
	if !fault.Is(err, fault.Invalid) || !strings.Contains(fault.HintOf(err), "c, cpp") {
		t.Errorf("ByID = %v, hint %q", err, fault.HintOf(err))
	}
}

func TestLanguageAliases(t *testing.T) {
	t.Parallel()
	langs := languages(t)
	for alias, want := range map[string]string{
		"cpp": "cpp", "C++": "cpp", "cpp.g++17": "cpp17", "cpp.g++20": "cpp", "python": "python3", "python.3": "python3", "pypy": "pypy3",
		"java11": "java", "pas.fpc": "pascal", "kt": "kotlin", "js": "javascript", "ts": "typescript", "c#": "csharp", "golang": "go",
	} {
		if l, err := langs.ByID(alias); err != nil || l.ID != want {
			t.Errorf("ByID(%s) = %q, %v, want %s", alias, l.ID, err, want)
		}
	}
}

// TestLanguageData holds what every language must have, and that the built-in
// templates list the languages that name them.
func TestLanguageData(t *testing.T) {
	t.Parallel()
	langs := languages(t)
	const atLeast = "bash c cpp cpp17 cpp23 csharp go haskell java javascript kotlin lua ocaml pascal perl php pypy3 python3 ruby rust scala typescript"
	if got := strings.Join(langs.IDs(), " "); got != atLeast {
		t.Errorf("languages: %s", got)
	}
	word := regexp.MustCompile(`\{[a-z_]+\}`)
	known := []string{"{sources}", "{out}", "{program}", "{entry}", "{class}", "{dir}", "{memory_mib}"}
	for _, id := range langs.IDs() {
		l, err := langs.ByID(id)
		if err != nil {
			t.Fatal(err)
		}
		if len(l.Version) == 0 || l.SelfTest.Source == "" || l.SelfTest.Output == "" {
			t.Errorf("%s: no version command or self-test", id)
		}
		all := slices.Concat(l.Compile.Argv, l.Compile.Env, l.Run.Argv, l.Run.Env)
		for _, w := range word.FindAllString(strings.Join(all, " "), -1) {
			if !slices.Contains(known, w) {
				t.Errorf("%s: unknown word %s", id, w)
			}
		}
		text := strings.Join(l.Compile.Argv, " ")
		if !strings.Contains(text, "{sources}") && !strings.Contains(text, "{entry}") {
			t.Errorf("%s: the compiler gets no source", id)
		}
		if kept := strings.Contains(strings.Join(all, " "), "{out}"); kept != (len(l.Compile.Program) > 0) {
			t.Errorf("%s: {out} and compile.program do not go together", id)
		}
		runs := strings.Join(l.Run.Argv, " ")
		if want := map[bool]string{true: "{program}", false: "{entry}"}[len(l.Compile.Program) > 0]; !strings.Contains(runs, want) {
			t.Errorf("%s: run.argv has no %s", id, want)
		}
		// A word in the middle of a shell script could be text of a contestant.
		for _, argv := range [][]string{l.Compile.Argv, l.Run.Argv} {
			if i := slices.Index(argv, "-c"); i == 1 && word.MatchString(argv[2]) {
				t.Errorf("%s: a script must get its words as arguments or environment: %s", id, argv[2])
			}
		}
		data, err := fs.ReadFile(templates.FS, l.Template+".yaml")
		if err != nil || !regexp.MustCompile(`(?m)^languages: .*\b`+id+`\b`).Match(data) {
			t.Errorf("%s: template %s does not list it (%v)", id, l.Template, err)
		}
	}
}

func TestLoadLanguagesRefuses(t *testing.T) {
	t.Parallel()
	const good = "id: x\nname: X\nextensions: [.x]\nsource_file: main.x\ntemplate: base\ncompile: {argv: [cc]}\nrun: {argv: [run]}\n"
	tests := map[string]struct{ text, want string }{
		"unknown_key":       {good + "speed: fast\n", "[8:1] unknown field"},
		"bad_yaml":          {"id: [\n", "x.yaml"},
		"no_id":             {strings.Replace(good, "id: x", "id: ''", 1), "id"},
		"no_run":            {strings.Replace(good, "[run]", "[]", 1), "run.argv"},
		"no_compile":        {strings.Replace(good, "[cc]", "[]", 1), "compile.argv"},
		"dotless":           {strings.Replace(good, "[.x]", "[.x, y]", 1), "dot"},
		"odd_source_name":   {strings.Replace(good, "main.x", "../main.x", 1), "source_file"},
		"program_path":      {strings.Replace(good, "{argv: [cc]}", "{argv: [cc], program: [/bin/sh]}", 1), "program"},
		"alias_in_capitals": {good + "aliases: [X1]\n", "lower case"},
		"negative":          {good + "limits: {processes: -1}\n", "negative"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := judge.LoadLanguages(fstest.MapFS{"x.yaml": {Data: []byte(tt.text)}})
			if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), "x.yaml") {
				t.Errorf("LoadLanguages = %v, want Invalid with %q", err, tt.want)
			}
		})
	}
	for name, files := range map[string]fstest.MapFS{
		"none":            {},
		"id_twice":        {"a.yaml": {Data: []byte(good)}, "b.yaml": {Data: []byte(strings.ReplaceAll(good, ".x", ".y"))}},
		"extension_twice": {"a.yaml": {Data: []byte(good)}, "b.yaml": {Data: []byte(strings.Replace(good, "id: x", "id: y", 1))}},
		"alias_twice":     {"a.yaml": {Data: []byte(good + "aliases: [z]\n")}, "b.yaml": {Data: []byte(strings.ReplaceAll(good, "x", "y") + "aliases: [z]\n")}},
		"alias_is_an_id":  {"a.yaml": {Data: []byte(good + "aliases: [y]\n")}, "b.yaml": {Data: []byte(strings.ReplaceAll(good, "x", "y"))}},
	} {
		if _, err := judge.LoadLanguages(files); !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: LoadLanguages = %v, want Invalid", name, err)
		}
	}
}

// TestCommandsOfLanguages runs the commands of the language data on this host,
// with the paths of the machine replaced: that they are right at all is found
// here, not in a machine.
func TestCommandsOfLanguages(t *testing.T) {
	t.Parallel()
	langs := languages(t)
	for _, id := range langs.IDs() {
		t.Run(id, func(t *testing.T) {
			t.Parallel()
			l, err := langs.ByID(id)
			if err != nil {
				t.Fatal(err)
			}
			if out, err := exec.CommandContext(t.Context(), l.Version[0], l.Version[1:]...).CombinedOutput(); err != nil {
				t.Skipf("%s is not installed here: %v %s", l.Name, err, out)
			}
			if slices.Contains(l.Compile.Argv, "-fuse-ld=gold") {
				if _, err := exec.LookPath("ld.gold"); err != nil {
					t.Skip("this host has no gold linker")
				}
			}
			src, build := t.TempDir(), t.TempDir()
			entry := filepath.Join(src, l.SourceFile)
			if err := os.WriteFile(entry, []byte(l.SelfTest.Source), 0o444); err != nil {
				t.Fatal(err)
			}
			program := ""
			if len(l.Compile.Program) > 0 {
				program = filepath.Join(build, l.Compile.Program[0])
			}
			class := strings.TrimSuffix(l.SourceFile, filepath.Ext(l.SourceFile))
			words := strings.NewReplacer("{sources}", entry, "{entry}", entry, "{out}", program, "{program}", program, "{class}", class, "{dir}", src, "{memory_mib}", "256")
			run := func(argv, env []string) string {
				for i := range argv {
					argv[i] = words.Replace(argv[i])
				}
				cmd := exec.CommandContext(t.Context(), argv[0], argv[1:]...)
				cmd.Dir = build
				for _, e := range env {
					cmd.Env = append(cmd.Env, words.Replace(e))
				}
				cmd.Env = append(cmd.Env, "PATH="+os.Getenv("PATH"))
				out, err := cmd.Output()
				if err != nil {
					t.Fatalf("%s: %v\n%s", argv[0], err, out)
				}
				return string(out)
			}
			run(append([]string{}, l.Compile.Argv...), l.Compile.Env)
			if got := run(append([]string{}, l.Run.Argv...), l.Run.Env); got != l.SelfTest.Output {
				t.Errorf("self-test printed %q, want %q", got, l.SelfTest.Output)
			}
		})
	}
}
