package problempkg

import (
	"archive/zip"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"assay/internal/fault"
	"assay/internal/judge"
)

// maxHeap is what reading one package may hold, in bytes.
const maxHeap = 200 << 20

// peak runs a function and gives the largest heap that was seen meanwhile.
func peak(f func()) uint64 {
	runtime.GC()
	stop, done := make(chan struct{}), make(chan uint64)
	go func() {
		var most uint64
		var m runtime.MemStats
		for {
			runtime.ReadMemStats(&m)
			most = max(most, m.HeapAlloc)
			select {
			case <-stop:
				done <- most
				return
			case <-time.After(time.Millisecond):
			}
		}
	}()
	f()
	close(stop)
	return <-done
}

func openFiles(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// sparse makes a file of a size that holds no data.
func sparse(t *testing.T, dir, name string, size int64) {
	t.Helper()
	p := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(p, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(p, size); err != nil {
		t.Fatal(err)
	}
}

// TestLargePackages reads what is large, and what is too large, in bounded
// memory, and leaves no file open. It is not parallel: it looks at the heap.
func TestLargePackages(t *testing.T) {
	answer, over, source, program := writeFolder(t, good()), writeFolder(t, good()), writeFolder(t, good()), writeFolder(t, with("problem.yaml", "name: x\nvalidation: custom\n"))
	sparse(t, answer, "data/secret/9.ans", maxFile)
	sparse(t, over, "data/secret/9.ans", maxFile+1)
	sparse(t, source, "submissions/accepted/large.c", 100<<20)
	sparse(t, program, "output_validators/v.cpp", 100<<20)
	many := with()
	for i := range 10_000 {
		many[fmt.Sprintf("data/secret/more/%05d.in", i)], many[fmt.Sprintf("data/secret/more/%05d.ans", i)] = "1\n", "2\n"
	}
	sources := with()
	for i := range 60 {
		sources[fmt.Sprintf("submissions/accepted/%02d.c", i)] = strings.Repeat("x", 1<<20)
	}
	var polygon strings.Builder
	for range maxXMLNodes - 10 {
		polygon.WriteString(`<test group="aaaaaaaaaaa"/>`)
	}
	tests := []struct {
		name, path, want string
	}{
		{"answer of 1 GiB", answer, ""},
		{"answer of more", over, fmt.Sprintf(`"data/secret/9.ans" has %d bytes, at most`, maxFile+1)},
		{"source of 100 MiB", source, "submissions/accepted/large.c has 104857600 bytes, at most"},
		{"checker of 100 MiB", program, "output_validators/v.cpp has 104857600 bytes, at most"},
		{"10,000 tests", writeZip(t, zipBytes(t, "", many)), ""},
		{"many sources", writeZip(t, zipBytes(t, "", sources)), "the submissions have more than"},
		{"long list", writeZip(t, longList(t)), "its list of entries has more than"},
		{"deep entries", writeZip(t, deepEntries(t)), "files and folders"},
		{"large XML", writeFolder(t, map[string]string{"problem.xml": "<problem>" + polygon.String() + "</problem>"}), "there is no testset"},
	}
	for _, tt := range tests {
		before := openFiles(t)
		var err error
		most := peak(func() {
			var p *Package
			if p, err = Load(tt.path); err == nil {
				err = p.Close()
			}
		})
		switch {
		case tt.want == "" && err != nil:
			t.Errorf("%s: %v", tt.name, err)
		case tt.want != "" && (!fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), tt.want)):
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
		if most > maxHeap {
			t.Errorf("%s: %d MiB of heap", tt.name, most>>20)
		}
		if after := openFiles(t); after != before {
			t.Errorf("%s: %d files are left open", tt.name, after-before)
		}
		t.Logf("%s: %d MiB", tt.name, most>>20)
	}
}

// longList is a zip of names and comments that are as long as they can be.
func longList(t *testing.T) []byte {
	t.Helper()
	var buf bytes.Buffer
	z := zip.NewWriter(&buf)
	for i := range 200 {
		h := &zip.FileHeader{Name: fmt.Sprintf("%d%s", i, strings.Repeat("n", 60_000)), Comment: strings.Repeat("c", 60_000)}
		if _, err := z.CreateHeader(h); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// deepEntries is a zip in which each file brings many folders.
func deepEntries(t *testing.T) []byte {
	t.Helper()
	var buf bytes.Buffer
	z := zip.NewWriter(&buf)
	for i := range 10_000 {
		if _, err := z.Create(fmt.Sprintf("%d/%s/x", i, strings.Repeat("a/", 28)+"b")); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func TestOddBytes(t *testing.T) {
	t.Parallel()
	p := load(t, writeFolder(t, with("data/secret/\xff.in", "", "data/secret/\xff.ans", "", "submissions/accepted/latin.c", "/* \xe4 */", "submissions/accepted/x.unknown", "?")))
	if len(p.Problem.Cases) != 4 || !slices.ContainsFunc(p.Warnings, func(w string) bool { return strings.Contains(w, `"data/secret/\xff.in" is ignored`) }) {
		t.Errorf("%d cases, warnings %q", len(p.Problem.Cases), p.Warnings)
	}
	langs, err := judge.DefaultLanguages()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range p.Submissions {
		_, err := langs.Detect(s.Submission.Files)
		switch s.Path {
		case "submissions/accepted/latin.c":
			if err != nil || string(s.Submission.Files[0].Data) != "/* \xe4 */" {
				t.Errorf("source %q, %v", s.Submission.Files[0].Data, err)
			}
		case "submissions/accepted/x.unknown":
			if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "x.unknown") {
				t.Errorf("Detect = %v, want it to name the file", err)
			}
		}
	}
	if _, err := Load(writeFolder(t, with("problem.yaml", "\xff\xfen\x00a\x00"))); !fault.Is(err, fault.Invalid) {
		t.Errorf("UTF-16: %v, want Invalid", err)
	}
	if p := load(t, writeFolder(t, with("problem.yaml", "name: Caf\xe9\n"))); p.Problem.Name != "Caf\uFFFD" {
		t.Errorf("name %q, want the odd byte replaced", p.Problem.Name)
	}
}

func TestRulesRefuse(t *testing.T) {
	t.Parallel()
	base := archive(t, "testdata/packages/rules_scoring.txtar")
	tests := map[string]struct{ file, text, want string }{
		"max_text":           {"data/secret/a/test_group.yaml", "max_score: lots\n", "data/secret/a/test_group.yaml:1: max_score: expected a whole number"},
		"max_fraction":       {"data/secret/a/test_group.yaml", "max_score: 1.5\n", "expected a whole number"},
		"max_missing":        {"data/secret/a/test_group.yaml", "args: [x]\n", "data/secret/a/test_group.yaml: max_score is missing"},
		"max_unbounded":      {"data/secret/c/test_group.yaml", "max_score: unbounded\nscore_aggregation: sum\n", "max_score is missing"},
		"aggregation":        {"data/secret/a/test_group.yaml", "max_score: 1\nscore_aggregation: avg\n", "test_group.yaml:2: score_aggregation: is not known"},
		"whole_pass_fail":    {"data/secret/test_group.yaml", "score_aggregation: pass-fail\n", "data/secret has the aggregation pass-fail"},
		"require_later":      {"data/secret/a/test_group.yaml", "max_score: 1\nrequire_pass: secret/b\n", `"secret/b" does not come before`},
		"require_unknown":    {"data/secret/a/test_group.yaml", "max_score: 1\nrequire_pass: [x]\n", `there is no test group "x"`},
		"require_sum":        {"data/secret/c/test_group.yaml", "max_score: 1\nrequire_pass: [secret/b]\n", "has not the aggregation pass-fail"},
		"static_too_much":    {"data/secret/b/test_group.yaml", "max_score: 1\nscore_aggregation: sum\nstatic_validation_score: 2\n", "above the group's max_score"},
		"static_pass_fail":   {"data/secret/b/test_group.yaml", "max_score: 1\nscore_aggregation: sum\nstatic_validation_score: pass-fail\n", "test_group.yaml:3: static_validation_score"},
		"static_args":        {"data/secret/a/test_group.yaml", "max_score: 1\nstatic_validator_args: [x]\n", "is given without static_validation_score"},
		"sample_score":       {"data/sample/test_group.yaml", "max_score: 1\n", "data/sample/test_group.yaml:1: max_score: is not allowed in data/sample"},
		"group_in_group":     {"data/secret/a/more/test_group.yaml", "args: [x]\n", "lies too deep"},
		"loose_case":         {"data/secret/1.in", "", "data/secret/1.in has no answer"},
		"checker_args":       {"data/secret/a/test_group.yaml", "max_score: 1\noutput_validator_args: [fuzzy]\n", `data/secret/a/test_group.yaml:2: checker flag "fuzzy"`},
		"case_args":          {"data/secret/b/1.yaml", "\nargs: {a: b}\n", "data/secret/b/1.yaml:2: args: expected text"},
		"case_checker":       {"data/secret/b/1.yaml", "output_validator_args: [x]\n", `data/secret/b/1.yaml:1: checker flag "x"`},
		"submissions_word":   {"submissions/submissions.yaml", "accepted:\n  permitted: [OK]\n", "submissions/submissions.yaml:2: accepted.permitted: verdict \"OK\""},
		"submissions_glob":   {"submissions/submissions.yaml", "a/**:\n  permitted: [AC]\n", "submissions/submissions.yaml:1: a/**: ** is not allowed"},
		"submissions_braces": {"submissions/submissions.yaml", `"` + strings.Repeat("{a,b}", 20) + "\":\n  permitted: [AC]\n", "stands for more than"},
		"submissions_score":  {"submissions/submissions.yaml", "accepted:\n  score: [5, 1]\n", "no score lies between"},
		"submissions_limit":  {"submissions/submissions.yaml", "accepted:\n  use_for_time_limit: maybe\n", "is not known"},
		"submissions_flat":   {"submissions/submissions.yaml", "accepted: x\n", "submissions/submissions.yaml:1: expected keys"},
		"legacy_file":        {"data/secret/test_group.yaml", "-", ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			files := map[string]string{}
			for k, v := range base {
				files[k] = v
			}
			files[tt.file] = tt.text
			if tt.want == "" {
				for k := range files {
					if strings.HasSuffix(k, "test_group.yaml") {
						delete(files, k)
					}
				}
				files["data/secret/testdata.yaml"], tt.want = "\ngrader_flags: min\n", "data/secret/testdata.yaml:2: grader_flags: testdata.yaml is a file of the legacy format"
			}
			if _, err := Load(writeFolder(t, files)); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Load = %v, want %q", err, tt.want)
			}
		})
	}
}

func TestPolygonRefuses(t *testing.T) {
	t.Parallel()
	base := archive(t, "testdata/packages/polygon.txtar")
	const inv, uns = fault.Invalid, fault.Unsupported
	tests := map[string]struct {
		from, to string // in problem.xml
		remove   string
		kind     fault.Kind
		want     string
	}{
		"no_test":      {remove: "tests/03", kind: inv, want: "problem.xml:18: test 3: tests/03 is not in the package"},
		"no_answer":    {remove: "tests/03.a", kind: inv, want: "tests/03.a is not in the package"},
		"no_checker":   {remove: "files/check.cpp", kind: inv, want: "problem.xml:43: files/check.cpp is not in the package"},
		"no_solution":  {remove: "solutions/main.cpp", kind: inv, want: `the solution "solutions/main.cpp" is not in the package`},
		"file_input":   {from: `input-file=""`, to: `input-file="in.txt"`, kind: uns, want: "problem.xml:7: programs that read and write files"},
		"run_count":    {from: `run-count="1"`, to: `run-count="2"`, kind: uns, want: "2 runs of a program"},
		"time":         {from: "1500", to: "-1", kind: inv, want: `problem.xml:10: time-limit "-1"`},
		"memory":       {from: "268435456", to: "1e9", kind: inv, want: `problem.xml:11: memory-limit "1e9"`},
		"count":        {from: "<test-count>5", to: "<test-count>6", kind: inv, want: "test-count is 6, but 5 tests"},
		"pattern":      {from: "tests/%02d<", to: "tests/%s%n<", kind: inv, want: "is no path with one number"},
		"points":       {from: `points="9"`, to: `points="many"`, kind: inv, want: `problem.xml:20: points "many"`},
		"policy":       {from: `points-policy="each-test"`, to: `points-policy="best"`, kind: inv, want: `points-policy "best"`},
		"later_group":  {from: `<dependency group="0"/>`, to: `<dependency group="9"/>`, kind: uns, want: `needs group "9"`},
		"no_testset":   {from: `name="tests">`, to: `name="others">`, kind: inv, want: "no testset named tests"},
		"entity":       {from: "<problem ", to: "<!DOCTYPE x [<!ENTITY a \"aaaa\">]><problem ", kind: inv, want: "problem.xml:2: entities are not allowed"},
		"entity_used":  {from: "Stones", to: "&a;", kind: inv, want: "problem.xml:5: not XML"},
		"cut":          {from: "</problem>", to: "", kind: inv, want: "not XML that can be read"},
		"deep":         {from: "<names>", to: strings.Repeat("<a>", 100) + strings.Repeat("</a>", 100) + "<names>", kind: inv, want: "problem.xml:3: nested too deeply"},
		"no_source":    {from: `<source path="files/check.cpp" type="cpp.g++17"/>`, to: "", kind: uns, want: `no source of the checker "std::ncmp.cpp"`},
		"path_out":     {from: "solutions/odd.py", to: "../../etc/passwd", kind: inv, want: "is not in the package"},
		"other_format": {from: "<problem ", to: "<contest ", kind: inv, want: "not XML"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			files := map[string]string{}
			for k, v := range base {
				files[k] = v
			}
			delete(files, tt.remove)
			if tt.from != "" && !strings.Contains(files["problem.xml"], tt.from) {
				t.Fatalf("problem.xml has no %q", tt.from)
			}
			files["problem.xml"] = strings.Replace(files["problem.xml"], tt.from, tt.to, 1)
			if _, err := Load(writeFolder(t, files)); !fault.Is(err, tt.kind) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Load = %v (%v), want %q", err, fault.KindOf(err), tt.want)
			}
		})
	}
}
