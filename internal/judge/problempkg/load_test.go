package problempkg

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"assay/internal/fault"
	"assay/internal/judge"
)

// good is a small sound package; tests change copies of it. A value that begins
// with "-> " is a symbolic link.
func good() map[string]string {
	return map[string]string{
		"problem.yaml":                  "name: Sum\nvalidator_flags: float_tolerance 1e-6\nlimits:\n  memory: 64\n  output: 1\n  code: 12\n",
		".timelimit":                    "2\n",
		"problem_statement/problem.tex": "Sum.",
		"data/sample/1.in":              "1 2\n",
		"data/sample/1.ans":             "3\n",
		"data/secret/10.in":             "2 2\n",
		"data/secret/10.ans":            "4\n",
		"data/secret/9.in":              "",
		"data/secret/9.ans":             "0\n",
		"data/secret/a/1.in":            "5\n",
		"data/secret/a/1.ans":           "5\n",
		"submissions/accepted/a.py":     "print(3)\n",
		"submissions/wrong_answer/b.c":  "int main(){}\n",
	}
}

func with(changes ...string) map[string]string {
	p := good()
	for i := 0; i < len(changes); i += 2 {
		p[changes[i]] = changes[i+1]
	}
	return p
}

func without(names ...string) map[string]string {
	p := good()
	for _, n := range names {
		maps.DeleteFunc(p, func(k, _ string) bool { return k == n || strings.HasPrefix(k, n+"/") })
	}
	return p
}

func writeFolder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "sum")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, content := range files {
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		var err error
		if target, ok := strings.CutPrefix(content, "-> "); ok {
			err = os.Symlink(target, p)
		} else {
			err = os.WriteFile(p, []byte(content), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func zipBytes(t *testing.T, prefix string, files map[string]string) []byte {
	t.Helper()
	var buf bytes.Buffer
	z := zip.NewWriter(&buf)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		h := &zip.FileHeader{Name: prefix + name, Method: zip.Deflate}
		content := files[name]
		if target, ok := strings.CutPrefix(content, "-> "); ok {
			h.SetMode(fs.ModeSymlink | 0o777)
			content = target
		}
		w, err := z.CreateHeader(h)
		if err == nil {
			_, err = io.WriteString(w, content)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func writeZip(t *testing.T, data []byte) string {
	t.Helper()
	p := filepath.Join(t.TempDir(), "sum.zip")
	if err := os.WriteFile(p, data, 0o644); err != nil {
		t.Fatal(err)
	}
	return p
}

func load(t *testing.T, path string) *Package {
	t.Helper()
	p, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

func content(t *testing.T, b judge.Blob) string {
	t.Helper()
	r, err := b.Open()
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestLoadFolderAndZip(t *testing.T) {
	t.Parallel()
	paths := map[string]string{
		"folder":       writeFolder(t, good()),
		"zip":          writeZip(t, zipBytes(t, "", good())),
		"zip_with_top": writeZip(t, zipBytes(t, "top/", good())),
		"ignored":      writeFolder(t, with(".git/config", "x", "__MACOSX/.x", "x", ".DS_Store", "x", "-x", "x", "a b", "x", `submissions/accepted/test-file name#\.bogus ext`, "x")),
	}
	var version string
	for _, name := range slices.Sorted(maps.Keys(paths)) {
		p := load(t, paths[name])
		got := p.Problem
		if version == "" {
			version = got.Version
		}
		if got.Version != version || !strings.HasPrefix(version, "sha256:") {
			t.Errorf("%s: version %s, want %s", name, got.Version, version)
		}
		if got.Name != "Sum" || got.ShortName != "sum" || got.Checker.Describe() != "default" {
			t.Errorf("%s: %q %q %q", name, got.Name, got.ShortName, got.Checker.Describe())
		}
		if diff := cmp.Diff(judge.ProblemLimits{CPU: 2 * time.Second, Memory: 64 << 20, Output: 1 << 20, Code: 12 << 10}, got.Limits); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		var cases []string
		for _, c := range got.Cases {
			cases = append(cases, c.Name+"="+content(t, c.Input)+content(t, c.Answer))
		}
		// Byte order: 10 before 9.
		if diff := cmp.Diff([]string{"sample/1=1 2\n3\n", "secret/10=2 2\n4\n", "secret/9=0\n", "secret/a/1=5\n5\n"}, cases); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if !got.Cases[0].Sample || got.Cases[1].Sample {
			t.Errorf("%s: samples are not marked", name)
		}
		if len(p.Submissions) != 2 || p.Submissions[0].Path != "submissions/accepted/a.py" || p.Submissions[0].Expectation.Label != "accepted" {
			t.Errorf("%s: submissions %+v", name, p.Submissions)
		}
	}
	if got := load(t, paths["ignored"]).Warnings; len(got) != 3 {
		t.Errorf("warnings %q, want one for each odd name", got)
	}
	changed := load(t, writeFolder(t, with("data/secret/9.ans", "1\n")))
	if changed.Problem.Version == version {
		t.Error("another answer gave the same version")
	}
}

func TestLoadRefuses(t *testing.T) {
	t.Parallel()
	const inv, uns = fault.Invalid, fault.Unsupported
	yaml := func(s string) map[string]string { return with("problem.yaml", s) }
	tests := map[string]struct {
		files map[string]string
		kind  fault.Kind
		want  string // part of the message
	}{
		"empty":              {map[string]string{}, inv, "the package is empty"},
		"no_yaml":            {without("problem.yaml"), inv, "problem.yaml is missing"},
		"no_tests":           {without("data"), inv, "no test cases"},
		"no_answer":          {without("data/secret/9.ans"), inv, "data/secret/9.in has no answer data/secret/9.ans"},
		"no_input":           {without("data/secret/9.in"), inv, "data/secret/9.ans has no input"},
		"yaml_syntax":        {yaml("name: x\nlimits: [1\n"), inv, "problem.yaml:"},
		"yaml_list":          {yaml("- a\n- b\n"), inv, "problem.yaml:1: expected keys and values"},
		"yaml_alias":         {yaml("name: x\nauthor: &a b\nsource: *a\n"), inv, "problem.yaml:2: anchors, aliases"},
		"yaml_merge":         {yaml("name: x\nlimits: &a {memory: 1}\nx:\n  <<: *a\n"), inv, "anchors, aliases"},
		"yaml_tag":           {yaml("name: !!binary aGVsbG8=\n"), inv, "tags"},
		"yaml_key_twice":     {yaml("name: x\nname: y\n"), inv, "problem.yaml:2"},
		"yaml_two_documents": {yaml("name: x\n---\nname: y\n"), inv, "second document"},
		"yaml_brackets":      {yaml("name: " + strings.Repeat("[", 2000)), inv, "too many brackets"},
		"yaml_too_large":     {yaml("name: x\n#" + strings.Repeat("x", 70000)), inv, "at most 65536"},
		"memory_zero":        {yaml("name: x\nlimits:\n  memory: 0\n"), inv, "problem.yaml:3: limits.memory: must be above zero\n  3 |   memory: 0"},
		"memory_negative":    {yaml("name: x\nlimits:\n  memory: -5\n"), inv, "must be above zero"},
		"memory_text":        {yaml("name: x\nlimits:\n  memory: lots\n"), inv, "problem.yaml:3: limits.memory: expected a number"},
		"memory_nan":         {yaml("name: x\nlimits:\n  memory: .nan\n"), inv, "limits.memory"},
		"memory_huge":        {yaml("name: x\nlimits:\n  memory: 99999999999\n"), inv, "must be at most"},
		"limits_text":        {yaml("name: x\nlimits: none\n"), inv, "problem.yaml:2: expected keys"},
		"name_list":          {yaml("name: [a, b]\n"), inv, "problem.yaml:1: name"},
		"flag_unknown":       {yaml("name: x\nvalidator_flags: fuzzy\n"), inv, `problem.yaml:2: checker flag "fuzzy"`},
		"flag_no_value":      {yaml("name: x\nvalidator_flags: float_tolerance\n"), inv, "has no value"},
		"custom_without":     {yaml("name: x\nvalidation: custom\n"), inv, "output_validators/ holds no program"},
		"validation_unknown": {yaml("name: x\nvalidation: diff\n"), inv, `problem.yaml:2: validation: "diff" is not known`},
		"default_score":      {yaml("name: x\nvalidation: default score\n"), inv, "needs a custom validator"},
		"interactive":        {yaml("name: x\ntype: interactive\n"), inv, "no output validator"},
		"multi_pass":         {yaml("name: x\ntype: multi-pass\n"), inv, "no output validator"},
		"both_types":         {yaml("name: x\ntype: [scoring, pass-fail]\n"), inv, "problem.yaml:2: type: pass-fail and scoring exclude"},
		"type_unknown":       {yaml("name: x\ntype: [a]\n"), inv, `problem.yaml:2: type: "a" is not known`},
		"submit_answer":      {yaml("name: x\ntype: submit-answer\n"), uns, "problem.yaml:2: type: submissions that are answers"},
		"languages_unknown":  {yaml("name: x\nlanguages: [apl]\n"), uns, "none of the languages"},
		"passes":             {yaml("name: x\ntype: multi-pass\nlimits:\n  validation_passes: 1.5\n"), inv, "problem.yaml:4"},
		"multiplier":         {yaml("name: x\nlimits:\n  time_multipliers:\n    ac_to_time_limit: 0.5\n"), inv, "problem.yaml:4"},
		"constant_name":      {yaml("name: x\nconstants:\n  1a: 2\n"), inv, "problem.yaml:3"},
		"constant_value":     {yaml("name: x\nconstants:\n  a:\n    b: 2\n"), inv, "has no value"},
		"unknown_format":     {yaml("problem_format_version: 1999\nname: x\n"), inv, "is not known"},
		"special_compare":    {with("domjudge-problem.ini", "\nspecial_compare = 'cmp'\n"), uns, "domjudge-problem.ini:2: special_compare"},
		"special_out":        {with("domjudge-problem.ini", "special_run = '../data'\n"), uns, "domjudge-problem.ini:1: special_run"},
		"ini_no_value":       {with("domjudge-problem.ini", "timelimit\n"), inv, "domjudge-problem.ini:1: expected key = value"},
		"ini_time_negative":  {with("domjudge-problem.ini", "x=1\ntimelimit=-1\n"), inv, "domjudge-problem.ini:2"},
		"time_zero":          {with(".timelimit", "0\n"), inv, ".timelimit:1"},
		"time_text":          {with(".timelimit", "two\n"), inv, "is not a number of seconds"},
		"time_nan":           {with(".timelimit", "NaN"), inv, "is not a number of seconds"},
		"time_huge":          {with(".timelimit", "999999999"), inv, "from 0.001 to"},
		"include_folder":     {with("include/cpp/a/x.h", ""), uns, "include/cpp/a/x.h"},
		"group_flags":        {with("data/secret/testdata.yaml", "on_reject: break\noutput_validator_flags: fuzzy\n"), inv, `data/secret/testdata.yaml:2: checker flag "fuzzy"`},
		"on_reject":          {with("data/secret/testdata.yaml", "on_reject: stop\n"), inv, `data/secret/testdata.yaml:1: on_reject: "stop"`},
		"range_reversed":     {with("data/secret/a/testdata.yaml", "x: 1\nrange: 5 1\n"), inv, "data/secret/a/testdata.yaml:2: range"},
		"range_one":          {with("data/testdata.yaml", "range: 5\n"), inv, "expected two numbers"},
		"accept_score":       {with("data/testdata.yaml", "accept_score: 1e999\n"), inv, "data/testdata.yaml:1: accept_score"},
		"grader_flag":        {with("data/testdata.yaml", "\ngrader_flags: median\n"), inv, "data/testdata.yaml:2: grader_flags: flag"},
		"grader_missing":     {with("data/testdata.yaml", "grading: custom\n"), inv, "graders/ holds no program"},
		"grader_pass_fail":   {with("data/testdata.yaml", "grading: custom\n", "graders/g.py", ""), inv, "for scoring problems only"},
		"graders_two":        {with("data/testdata.yaml", "grading: custom\n", "graders/g.py", "", "graders/h.py", ""), inv, "holds 2 programs"},
		"case_test_group":    {with("data/secret/test_group.in", "", "data/secret/test_group.ans", ""), inv, "must not be named test_group"},
		"program_too_large":  {with("problem.yaml", "name: x\nvalidation: custom\n", "output_validators/v.py", strings.Repeat("x", maxProgramFile+1)), inv, "output_validators/v.py has"},
		"source_too_large":   {with("submissions/accepted/b.py", strings.Repeat("x", maxSource+1)), inv, "submissions/accepted/b.py has"},
		"link_out":           {with("data/secret/x.in", "-> ../../../outside"), inv, `"data/secret/x.in" is a link that leads out`},
		"link_absolute":      {with("data/secret/x.in", "-> /etc/passwd"), inv, "leads out of the package"},
		"link_folder_out":    {with("data/more", "-> ../../.."), inv, "leads out of the package"},
		"link_through_link":  {with("up", "-> data", "data/secret/x.in", "-> ../../up/../../x"), inv, "leads out"},
		"link_to_nothing":    {with("data/secret/x.in", "-> y.in"), inv, "is not there"},
		"link_to_itself":     {with("data/secret/x.in", "-> x.in"), inv, "too many links"},
		"link_circle":        {with("data/secret/loop", "-> .."), inv, "lies in"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			paths := []string{writeFolder(t, tt.files)}
			if len(tt.files) > 0 {
				paths = append(paths, writeZip(t, zipBytes(t, "", tt.files)))
			}
			for _, p := range paths {
				_, err := Load(p)
				if fault.KindOf(err) != tt.kind || err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), p) {
					t.Errorf("Load = %v (%v), want %v with %q", err, fault.KindOf(err), tt.kind, tt.want)
				}
			}
		})
	}
}

func TestLoadOddPaths(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	noZip := filepath.Join(dir, "x.zip")
	if err := os.WriteFile(noZip, []byte("not a zip"), 0o644); err != nil {
		t.Fatal(err)
	}
	fifo := filepath.Join(dir, "fifo")
	withFIFO := writeFolder(t, good())
	for _, p := range []string{fifo, filepath.Join(withFIFO, "data", "pipe.in")} {
		if err := syscall.Mkfifo(p, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for path, kind := range map[string]fault.Kind{
		filepath.Join(dir, "none"): fault.NotFound, noZip: fault.Invalid, fifo: fault.Invalid, withFIFO: fault.Invalid,
	} {
		if _, err := Load(path); !fault.Is(err, kind) {
			t.Errorf("Load(%s) = %v, want %v", path, err, kind)
		}
	}
}

func TestZipRefuses(t *testing.T) {
	t.Parallel()
	lie := zipBytes(t, "", good())
	// The size of the last entry in the central directory is made 1.
	at := bytes.LastIndex(lie, []byte("PK\x01\x02"))
	binary.LittleEndian.PutUint32(lie[at+24:], 1)
	tests := map[string]struct {
		data []byte
		want string
	}{
		"dot_dot":    {zipBytes(t, "../", good()), `".."`},
		"inner_dots": {zipBytes(t, "a/../../", good()), `".."`},
		"absolute":   {zipBytes(t, "/", good()), "absolute"},
		"backslash":  {zipBytes(t, `..\`, good()), "backslash"},
		"empty_part": {zipBytes(t, "a//", good()), "empty part"},
		"too_deep":   {zipBytes(t, strings.Repeat("a/", 40), good()), "too deep"},
		"long_name":  {zipBytes(t, strings.Repeat("a", 2000), good()), "too long"},
		"bomb":       {zipBomb(t), "zip bomb"},
		"lie":        {lie, "not a valid zip"},
		"cut":        {zipBytes(t, "", good())[:400], "not a zip"},
		"empty":      {zipBytes(t, "", nil), "the package is empty"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := Load(writeZip(t, tt.data))
			if !fault.Is(err, fault.Invalid) {
				t.Fatalf("Load = %v, want Invalid", err)
			}
			if text := err.Error() + fault.HintOf(err); !strings.Contains(text, tt.want) {
				t.Errorf("Load = %s, want %q", text, tt.want)
			}
		})
	}
}

// zipBomb is a small zip of 300 MiB of zeros.
func zipBomb(t *testing.T) []byte {
	t.Helper()
	var buf bytes.Buffer
	z := zip.NewWriter(&buf)
	w, err := z.Create("data/secret/big.in")
	if err != nil {
		t.Fatal(err)
	}
	zeros := make([]byte, 1<<20)
	for range 300 {
		if _, err := w.Write(zeros); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func TestZipTwice(t *testing.T) {
	t.Parallel()
	var buf bytes.Buffer
	z := zip.NewWriter(&buf)
	for _, name := range []string{"problem.yaml", "problem.yaml"} {
		if _, err := z.Create(name); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(writeZip(t, buf.Bytes())); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "twice") {
		t.Errorf("Load = %v, want Invalid", err)
	}
}

func TestInnerLinks(t *testing.T) {
	t.Parallel()
	files := with("data/secret/b", "-> a", "data/secret/z.in", "-> ../sample/1.in", "data/secret/z.ans", "-> ./b/../b/1.ans")
	for _, path := range []string{writeFolder(t, files), writeZip(t, zipBytes(t, "sum/", files))} {
		var got []string
		for _, c := range load(t, path).Problem.Cases {
			got = append(got, c.Name+"="+content(t, c.Input)+content(t, c.Answer))
		}
		want := []string{"sample/1=1 2\n3\n", "secret/10=2 2\n4\n", "secret/9=0\n", "secret/a/1=5\n5\n", "secret/b/1=5\n5\n", "secret/z=1 2\n5\n"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	}
}

func TestCaseFilesAreReadBeneathTheFolderOnly(t *testing.T) {
	t.Parallel()
	dir := writeFolder(t, good())
	p := load(t, dir)
	secret := filepath.Join(t.TempDir(), "outside")
	if err := os.WriteFile(secret, []byte("2 2\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	in := filepath.Join(dir, "data/secret/10.in")
	if err := os.Remove(in); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(secret, in); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Problem.Cases[1].Input.Open(); err == nil {
		t.Error("a file that became a link out of the folder was opened")
	}
}

func TestWarnings(t *testing.T) {
	t.Parallel()
	p := load(t, writeFolder(t, with(
		"problem.yaml", "name:\n  de: Summe\n  en: Sum\ncolour: red\nlimits:\n  speed: 3\n  time_multiplier: 5\nkeywords: [a, b]\ngrading: {objective: max}\n",
		"domjudge-problem.ini", "; x\n[s]\nshort-name = \"A\"\ntimelimit='3'\nfoo=bar\n",
		"data/secret/9.ans", "\xef\xbb\xbf0\n", "submissions/odd/x.py", "", "submissions/README", "x",
		"data/secret/testdata.yaml", "on_reject: break\ngrader_flags:\n",
	)))
	if p.Problem.Name != "Sum" || p.Problem.ShortName != "A" || p.Problem.Limits.CPU != 2*time.Second {
		t.Errorf("problem %+v", p.Problem)
	}
	for _, want := range []string{"problem.yaml:4: key \"colour\"", "problem.yaml:6: key \"limits.speed\"", "domjudge-problem.ini:5", "byte order mark", ".timelimit says 2s", "submissions/odd/x.py", "submissions/README"} {
		if !slices.ContainsFunc(p.Warnings, func(w string) bool { return strings.Contains(w, want) }) {
			t.Errorf("no warning with %q in %q", want, p.Warnings)
		}
	}
}

func TestTimeLimitOption(t *testing.T) {
	t.Parallel()
	p, err := Options{TimeLimit: 5 * time.Second}.Load(writeFolder(t, without(".timelimit")))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	if p.Problem.Limits.CPU != 5*time.Second {
		t.Errorf("time limit %v, want the option's", p.Problem.Limits.CPU)
	}
}

func TestLabels(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		dir, source, want string
	}{
		"accepted":      {"accepted", "", "AC"},
		"wrong":         {"wrong_answer", "", "WA or PE or OLE, else AC"},
		"slow":          {"time_limit_exceeded", "", "TLE, else AC WA PE"},
		"crash":         {"run_time_error", "", "RE or MLE or OLE, else AC WA PE TLE"},
		"crash_typo":    {"runtime_error", "", "RE or MLE or OLE, else AC WA PE TLE"},
		"compile":       {"compiler_error", "", "CE"},
		"memory":        {"memory_limit_exceeded", "", "MLE, else AC"},
		"output":        {"output_limit", "", "OLE, else AC"},
		"rejected":      {"rejected", "", "WA or PE or TLE or MLE or OLE or RE or CE"},
		"unknown":       {"mixed", "", "anything"},
		"tag":           {"mixed", "/* @EXPECTED_RESULTS@: TIMELIMIT, RUN-ERROR */", "TLE or RE or MLE"},
		"tag_over_dir":  {"accepted", "# @EXPECTED_RESULTS@: WA\n", "WA or PE"},
		"tag_letters":   {"mixed", "// @EXPECTED_RESULTS@: re,CE,OLE,MLE,TLE,AC\r\nx", "RE or CE or OLE or MLE or TLE or AC"},
		"tag_ccs":       {"mixed", "// @EXPECTED_RESULTS@: TIME_LIMIT_EXCEEDED,ACCEPTED", "TLE or AC"},
		"tag_html":      {"mixed", "<!-- @EXPECTED_RESULTS@: CORRECT -->", "AC"},
		"tag_manual":    {"accepted", "# @EXPECTED_RESULTS@: CHECK-MANUALLY", "anything"},
		"tag_unknown":   {"accepted", "# @EXPECTED_RESULTS@: FINE", "AC"},
		"tag_is_empty":  {"accepted", "# @EXPECTED_RESULTS@:", "AC"},
		"tag_ends_file": {"accepted", "# @EXPECTED_RESULTS@", "AC"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			files := without("submissions")
			files["submissions/"+tt.dir+"/x/main.py"] = tt.source
			files["submissions/"+tt.dir+"/x/more.py"] = ""
			p := load(t, writeFolder(t, files))
			if len(p.Submissions) != 1 || len(p.Submissions[0].Submission.Files) != 2 {
				t.Fatalf("submissions %+v", p.Submissions)
			}
			if got := p.Submissions[0].Expectation.Text(); got != tt.want {
				t.Errorf("expected %q, want %q", got, tt.want)
			}
		})
	}
}

func TestPackageWithoutProblemYAML(t *testing.T) {
	t.Parallel()
	files := without("problem.yaml", ".timelimit")
	files["domjudge-problem.ini"] = "name = 'The Sum'\ntimelimit = 4\nspecial_compare_args = case_sensitive\n"
	for _, path := range []string{writeFolder(t, files), writeZip(t, zipBytes(t, "", files)), writeZip(t, zipBytes(t, "x/", files))} {
		p := load(t, path)
		if q := p.Problem; q.Name != "The Sum" || q.Limits.CPU != 4*time.Second || !slices.Equal(q.Cases[0].CheckerArgs, []string{"case_sensitive"}) {
			t.Errorf("problem %+v", q)
		}
	}
}

func TestSpecialCompareInThePackage(t *testing.T) {
	t.Parallel()
	p := load(t, writeFolder(t, with("domjudge-problem.ini", "special_compare = mycmp\nspecial_compare_args = a b\n", "problem.yaml", "name: x\n", "mycmp/build", "", "mycmp/cmp.c", "")))
	if c := p.Problem.Checkers; len(c) != 1 || c[0].Name != "mycmp" || len(c[0].Files) != 2 || !slices.Equal(p.Problem.Cases[0].CheckerArgs, []string{"a", "b"}) {
		t.Errorf("checkers %+v, arguments %q", c, p.Problem.Cases[0].CheckerArgs)
	}
	p = load(t, writeFolder(t, with("domjudge-problem.ini", "special_run = r\n", "output_validators/r/r.py", "")))
	if i := p.Problem.Interactor; i == nil || i.Name != "output_validators/r" {
		t.Errorf("interactor %+v", i)
	}
}

func TestOtherFilesBesideSources(t *testing.T) {
	t.Parallel()
	p := load(t, writeFolder(t, with("submissions/accepted/x/main.c", "", "submissions/accepted/x/notes.txt", "", "submissions/accepted/y/a.c", "", "submissions/accepted/y/b.py", "", "submissions/accepted/y/c.txt", "")))
	for _, s := range p.Submissions {
		if want := map[string]string{"submissions/accepted/x": "c"}[s.Path]; s.Submission.Language != want {
			t.Errorf("%s has the language %q, want %q", s.Path, s.Submission.Language, want)
		}
	}
}

func TestFind(t *testing.T) {
	t.Parallel()
	dir := writeFolder(t, with("submissions/accepted/x/main.c", ""))
	p := load(t, dir)
	for name, want := range map[string]string{
		"submissions/accepted/a.py": "submissions/accepted/a.py", "submissions/../submissions/accepted/x/": "submissions/accepted/x", "submissions/accepted/x/main.c": "", "none": "",
	} {
		if s, ok := p.Find(dir + "/" + name); s.Path != want || ok != (want != "") {
			t.Errorf("Find(%s) = %q %v, want %q", name, s.Path, ok, want)
		}
	}
}
