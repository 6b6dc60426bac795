package judge

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"assay/internal/fault"
)

func TestArrange(t *testing.T) {
	t.Parallel()
	langs, err := DefaultLanguages()
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		language, files string // files separated by |
		sources, entry  string // no entry: Invalid
	}{
		"single":            {"cpp", "sum.cpp", "sum.cpp", "sum.cpp"},
		"odd_name":          {"cpp", "$(touch x); .cpp", "main.cpp", "main.cpp"},
		"option_as_name":    {"c", "-o.c", "main.c", "main.c"},
		"path_as_name":      {"c", "../../etc/x.c", "main.c", "main.c"},
		"named_language":    {"python3", "prog.txt", "main.py", "main.py"},
		"java_keeps_class":  {"java", "Solve.java", "Solve.java", "Solve.java"},
		"two_c":             {"c", "b.c|a.c|a.h", "a.c b.c", "a.c"},
		"python_main":       {"python3", "b.py|main.py", "b.py main.py", "main.py"},
		"python_no_main":    {"python3", "a.py|b.py", "", ""},
		"odd_name_of_two":   {"c", "a.c|b b.c", "", ""},
		"only_headers":      {"c", "a.h|b.h", "", ""},
		"too_long_name":     {"c", strings.Repeat("a", 300) + ".c|b.c", "", ""},
		"newline_of_two":    {"c", "a\n.c|b.c", "", ""},
		"no_files_at_all":   {"c", "", "", ""},
		"hidden_of_two":     {"c", ".a.c|b.c", "", ""},
		"a_hundred_and_one": {"c", strings.Repeat("a.c|", 100) + "b.c", "", ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lang, err := langs.ByID(tt.language)
			if err != nil {
				t.Fatal(err)
			}
			var s Submission
			for n := range strings.SplitSeq(tt.files, "|") {
				if n != "" {
					s.Files = append(s.Files, SourceFile{Name: n})
				}
			}
			got, err := arrange(s, lang, nil)
			if tt.entry == "" {
				if !fault.Is(err, fault.Invalid) {
					t.Errorf("arrange = %+v, %v, want Invalid", got, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{tt.sources, tt.entry}, []string{strings.Join(got.sources, " "), got.entry}); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestDigestTellsFilesApart(t *testing.T) {
	t.Parallel()
	f := func(pairs ...string) string {
		var s Submission
		for i := 0; i < len(pairs); i += 2 {
			s.Files = append(s.Files, SourceFile{Name: pairs[i], Data: []byte(pairs[i+1])})
		}
		return s.Digest()
	}
	seen := map[string]bool{}
	for _, d := range []string{f(), f("a", ""), f("a", "x"), f("b", "x"), f("a", "x", "b", ""), f("a", "", "b", "x"), f("a", "\"b\" 1\nx")} {
		if seen[d] {
			t.Errorf("digest %s is there twice", d)
		}
		seen[d] = true
	}
}
