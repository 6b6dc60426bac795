package judge_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"assay/internal/fault"
	"assay/internal/judge"
	"assay/internal/judge/checker"
	"assay/internal/sandbox"
)

const fakeLanguage = `
id: fake
name: Fake
extensions: [.fk]
source_file: main.fk
template: tiny
compile: {argv: [fakecc, -o, "{out}", "{sources}"], program: [program]}
run: {argv: ["{program}", "{memory_mib}"]}
limits: {out_of_memory_text: "heap is full"}
self_test: {source: print hello, output: "hello\n"}
`

type bundle struct {
	machines *fakeMachines
	judge    *judge.Judge
	problem  judge.Problem
}

// setup gives a problem with the cases a, b and c, each of which wants its own
// input back.
func setup(t *testing.T) *bundle {
	t.Helper()
	langs, err := judge.LoadLanguages(fstest.MapFS{"fake.yaml": {Data: []byte(fakeLanguage)}})
	if err != nil {
		t.Fatal(err)
	}
	b := &bundle{machines: &fakeMachines{runs: map[string]int{}, shape: sandbox.Shape{Memory: 512 << 20}}}
	b.judge = judge.New(b.machines, langs, judge.Options{})
	b.problem = judge.Problem{
		ShortName: "echo", Name: "Echo", Version: "sha256:p", Checker: checker.Default{},
		Limits: judge.ProblemLimits{CPU: time.Second, Memory: 256 << 20, Output: 64 << 10},
	}
	for _, in := range []string{"a", "b", "c"} {
		b.problem.Cases = append(b.problem.Cases, judge.Case{
			Name: "secret/" + in, Input: judge.BytesBlob(in+".in", []byte(in+"\n")), Answer: judge.BytesBlob(in+".ans", []byte("  "+in+"\n\n")),
		})
	}
	return b
}

func source(text string) judge.Submission {
	return judge.Submission{Name: "test", Files: []judge.SourceFile{{Name: "main.fk", Data: []byte(text)}}}
}

func verdicts(r judge.Run) string {
	var list []string
	for _, c := range r.Cases {
		list = append(list, string(c.Verdict))
	}
	return strings.Join(list, " ")
}

func TestRunVerdicts(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		source   string
		all      bool
		want     judge.Verdict
		cases    string
		reason   string
		machines int
	}{
		"accepted":             {source: "echo", want: "AC", cases: "AC AC AC", machines: 1},
		"exec_fails_twice":     {source: "nonsense", want: "JE", cases: "JE SK SK", machines: 2, reason: `fake program: unknown word "nonsense"`},
		"stops_at_first":       {source: "on b print x\non a echo\non c echo", want: "WA", cases: "AC WA SK", machines: 1, reason: "the output is wrong"},
		"all_cases":            {source: "on b print x\non a echo\non c exit 1", all: true, want: "WA", cases: "AC WA RE", machines: 1},
		"no_output":            {source: "", want: "WA", cases: "WA SK SK", machines: 1, reason: "no output"},
		"exit_after_right":     {source: "echo\nexit 1", want: "RE", cases: "RE SK SK", machines: 1, reason: "exit code 1"},
		"exit_42":              {source: "echo\nexit 42", want: "RE", cases: "RE SK SK", machines: 1, reason: "exit code 42"},
		"signal":               {source: "signal 11", want: "RE", cases: "RE SK SK", machines: 1, reason: "segmentation fault"},
		"fork_bomb":            {source: "fork", want: "RE", cases: "RE SK SK", machines: 1, reason: "process limit of 64"},
		"loop":                 {source: "cpu 1h", want: "TLE", cases: "TLE SK SK", machines: 1, reason: "CPU time limit of 1.000 s"},
		"right_then_sleep":     {source: "echo\nwall 24h", want: "TLE", cases: "TLE SK SK", machines: 1, reason: "wall time limit of 3.000 s"},
		"memory":               {source: "echo\nmem 999999999", want: "MLE", cases: "MLE SK SK", machines: 1, reason: "256 MiB"},
		"runtime_says_memory":  {source: "echo\ncomplain heap is full\nexit 1", want: "MLE", cases: "MLE SK SK", machines: 1},
		"flood":                {source: "flood stdout", want: "OLE", cases: "OLE SK SK", machines: 1, reason: "64 KiB"},
		"right_then_flood":     {source: "echo\nflood stdout", want: "OLE", cases: "OLE SK SK", machines: 1},
		"flood_past_guest_cap": {source: "floodliar stdout", want: "OLE", cases: "OLE SK SK", machines: 1},
		"invalid_utf8":         {source: "print \xe2", want: "WA", cases: "WA SK SK", machines: 1},
		"time_over_memory":     {source: "cpu 1h\nmem 999999999", want: "TLE", cases: "TLE SK SK", machines: 1},

		"host_memory_wall":      {source: "memwall", want: "MLE", cases: "MLE SK SK", machines: 1, reason: "memory limit"},
		"host_memory_wall_more": {source: "echo\non b memwall", all: true, want: "MLE", cases: "AC MLE AC", machines: 2},
		"lost_once":             {source: "echo\non b first 1 lose", want: "AC", cases: "AC AC AC", machines: 2},
		"lost_always":           {source: "echo\non b lose", want: "JE", cases: "AC JE SK", machines: 2, reason: "the machine was lost"},
		"lost_always_all_cases": {source: "echo\non b lose", all: true, want: "JE", cases: "AC JE SK", machines: 2},
		"broken_link_once":      {source: "echo\nfirst 1 break", want: "AC", cases: "AC AC AC", machines: 4},
		"disagree_once":         {source: "echo\nfirst 1 disagree", want: "AC", cases: "AC AC AC", machines: 1},
		"disagree_on_failure":   {source: "first 1 disagree\nfirst 1 exit 1\necho", want: "AC", cases: "AC AC AC", machines: 1},
		"disagree_always":       {source: "echo\ndisagree", want: "JE", cases: "JE SK SK", machines: 2, reason: "differently in 4 runs"},
		"je_beats_earlier_wa":   {source: "on a print x\non b lose", all: true, want: "JE", cases: "WA JE SK", machines: 2},

		"compile_error":     {source: "compile error", want: "CE", reason: "compiler exit code 1", machines: 1},
		"compile_bomb":      {source: "compile bomb", want: "CE", reason: "compiler memory limit", machines: 1},
		"compile_memwall":   {source: "compile memwall", want: "CE", reason: "compiler memory limit", machines: 1},
		"compile_nothing":   {source: "compile nothing", want: "CE", reason: "the compiler made no program", machines: 1},
		"compile_odd":       {source: "compile odd", want: "CE", reason: "the compiler made no program", machines: 1},
		"compiles_once":     {source: "compile only_first\necho\non b first 1 lose", want: "JE", cases: "AC JE SK", reason: "do not now: compiler exit code 1", machines: 2},
		"compile_lost_once": {source: "compile lose_once\necho", want: "AC", cases: "AC AC AC", machines: 2},
		"compile_lost":      {source: "compile lose", want: "JE", reason: "the machine was lost", machines: 2},
		"compiler_missing":  {source: "compile missing", want: "JE", reason: "the compiler cannot be started", machines: 2},
		"source_too_large":  {source: strings.Repeat("#", 129<<10), want: "CE", reason: "limit 128 KiB"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			got, err := b.judge.With(judge.Options{AllCases: tt.all}).Run(t.Context(), b.problem, source(tt.source), nil)
			if err != nil {
				t.Fatal(err)
			}
			if got.Verdict != tt.want || verdicts(got) != tt.cases || !strings.Contains(got.Reason, tt.reason) {
				t.Errorf("got %s [%s] %q, want %s [%s] %q", got.Verdict, verdicts(got), got.Reason, tt.want, tt.cases, tt.reason)
			}
			if len(b.machines.made) != tt.machines || got.Machines != tt.machines {
				t.Errorf("%d machines made, %d recorded, want %d", len(b.machines.made), got.Machines, tt.machines)
			}
			for _, m := range b.machines.made {
				if m.destroyed == 0 {
					t.Errorf("machine %d was not destroyed", m.id)
				}
			}
		})
	}
}

func TestKnifeEdge(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		cpu      string
		want     judge.Verdict
		timeUS   int64
		attempts int
		edge     bool
		atLeast  bool
	}{
		"far_below":          {cpu: "500ms", want: "AC", timeUS: 500000, attempts: 1},
		"just_below_zone":    {cpu: "899ms", want: "AC", timeUS: 899000, attempts: 1},
		"in_zone_and_passes": {cpu: "950ms 960ms", want: "AC", timeUS: 950000, attempts: 2, edge: true},
		"second_passes":      {cpu: "1050ms 980ms", want: "AC", timeUS: 980000, attempts: 2, edge: true},
		"fourth_passes":      {cpu: "1050ms 1060ms 1040ms 990ms", want: "AC", timeUS: 990000, attempts: 4, edge: true},
		"never_passes":       {cpu: "1050ms 1060ms 1040ms 1070ms 1ms", want: "TLE", timeUS: 1040000, attempts: 4, edge: true},
		"leaves_zone_above":  {cpu: "1050ms 1200ms 1ms", want: "TLE", timeUS: 1050000, attempts: 2, edge: true},
		"far_above":          {cpu: "1200ms 1ms", want: "TLE", timeUS: 1000000, attempts: 1, atLeast: true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.problem.Cases = b.problem.Cases[:1]
			got, err := b.judge.Run(t.Context(), b.problem, source("echo\ncpu "+tt.cpu), nil)
			if err != nil {
				t.Fatal(err)
			}
			c := got.Cases[0]
			if c.Verdict != tt.want || c.TimeUS != tt.timeUS || c.Attempts != tt.attempts || c.KnifeEdge != tt.edge || c.TimeAtLeast != tt.atLeast {
				t.Errorf("got %s %d µs, %d attempts, edge %v, at least %v (%s); want %+v", c.Verdict, c.TimeUS, c.Attempts, c.KnifeEdge, c.TimeAtLeast, c.Reason, tt)
			}
			if tt.edge != strings.Contains(c.Reason, "best of") {
				t.Errorf("reason %q must say whether runs were repeated", c.Reason)
			}
		})
	}
}

func TestKnifeEdgeLeavesOtherVerdictsAlone(t *testing.T) {
	t.Parallel()
	b := setup(t)
	got, err := b.judge.Run(t.Context(), b.problem, source("cpu 950ms\nexit 1"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if c := got.Cases[0]; c.Verdict != judge.RunTimeError || c.Attempts != 1 {
		t.Errorf("got %s after %d attempts, want RE after 1", c.Verdict, c.Attempts)
	}
}

func TestExpectedOutputsNeverEnterAMachine(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for i := range b.problem.Cases {
		b.problem.Cases[i].Answer = judge.BytesBlob("x.ans", []byte("SECRET\n"))
	}
	var written []int
	observe := func(e judge.Event) {
		if e.Step == judge.StepCase {
			written = append(written, strings.Count(strings.Join(b.machines.writes, ""), "\n"))
		}
	}
	got, err := b.judge.With(judge.Options{AllCases: true}).Run(t.Context(), b.problem, source("print SECRE"), observe)
	if err != nil || got.Verdict != judge.WrongAnswer {
		t.Fatalf("Run = %s, %v", got.Verdict, err)
	}
	for _, w := range b.machines.writes {
		if strings.Contains(w, "SECRET") {
			t.Error("an expected output was written into the machine")
		}
	}
	// One line of input more for each case that began: none came early.
	if diff := cmp.Diff([]int{0, 1, 2}, written); diff != "" {
		t.Error(diff)
	}
}

func TestExecSpecs(t *testing.T) {
	t.Parallel()
	b := setup(t)
	got, err := b.judge.Run(t.Context(), b.problem, source("echo"), nil)
	if err != nil {
		t.Fatal(err)
	}
	m := b.machines.made[0]
	if len(m.specs) != 5 {
		t.Fatalf("%d execs, want 5", len(m.specs))
	}
	compile, run := m.specs[0], m.specs[2]
	wantRun := sandbox.ExecSpec{
		Argv: []string{"/box/prog/program", "256"}, Dir: "/box/work", User: "user", StdinFile: "/box/in", Isolated: true,
		Env:       []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/box/work", "TMPDIR=/tmp", "LANG=C.UTF-8"},
		FreshDirs: []string{"/box/work", "/home/user", "/run/lock"},
		Limits: sandbox.Limits{
			CPU: 1100 * time.Millisecond, Wall: 3 * time.Second, Memory: 256 << 20, Processes: 64, Output: 64 << 10,
			FileSize: 64 << 20, Disk: 256 << 20,
		},
	}
	if diff := cmp.Diff(wantRun, run); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"fakecc", "-o", "/box/build/program", "/box/src/main.fk"}, compile.Argv); diff != "" {
		t.Error(diff)
	}
	if compile.Limits.CPU != time.Minute || compile.Limits.Memory != 512<<20 || !compile.KeepOutput {
		t.Errorf("compile limits %+v", compile.Limits)
	}
	if m.dirs["/box/build"] {
		t.Error("the build directory is still there when cases run")
	}
	if got.Limits.CPUUS != 1000000 || got.Limits.WallUS != 3000000 {
		t.Errorf("recorded limits %+v, want those the case is judged by", got.Limits)
	}
}

func TestRunRecord(t *testing.T) {
	t.Parallel()
	b := setup(t)
	s := source("echo\non b complain oops\non b print wrong")
	got, err := b.judge.Run(t.Context(), b.problem, s, nil)
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`"verdict":"WA"`, `"failed_case":2`, `"digest":"` + s.Digest() + `"`, `"version":"sha256:p"`, `"template_digest":"sha256:t"`,
		`"driver":"fake"`, `"driver_identity":"fake 1"`, `"memory_bytes":`, `"cpu_us":1000000`, `"language":"fake"`, `"checker":"default"`, `"vcpus":0`,
		`"check_message":"word 2, line 2, column 1 (byte 2): output goes on after the end: got \"wrong\\n\""`, `"stderr":"oops\n"`,
	} {
		if !bytes.Contains(data, []byte(want)) {
			t.Errorf("record lacks %s:\n%s", want, data)
		}
	}
	var back judge.Run
	if err := json.Unmarshal(data, &back); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(got, back); diff != "" {
		t.Errorf("record does not survive JSON:\n%s", diff)
	}
}

func TestCompilerOutputIsCapped(t *testing.T) {
	t.Parallel()
	b := setup(t)
	got, err := b.judge.Run(t.Context(), b.problem, source("compile error"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Compile.Output) > 3*judge.MaxCompilerOutput || !got.Compile.OutputTruncated || !strings.Contains(got.Compile.Output, "syntax error \uFFFD") {
		t.Errorf("%d bytes of compiler output, truncated %v", len(got.Compile.Output), got.Compile.OutputTruncated)
	}
}

func TestRunErrors(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		change func(*bundle, *judge.Submission)
		kind   fault.Kind
	}{
		"unknown_extension": {func(_ *bundle, s *judge.Submission) { s.Files[0].Name = `test-file name#\.bogus ext` }, fault.Invalid},
		"unknown_language":  {func(_ *bundle, s *judge.Submission) { s.Language = "cobol" }, fault.Invalid},
		"no_files":          {func(_ *bundle, s *judge.Submission) { s.Files = nil }, fault.Invalid},
		"bad_name_of_two": {func(_ *bundle, s *judge.Submission) {
			s.Files = append(s.Files, judge.SourceFile{Name: "../x.fk"})
		}, fault.Invalid},
		"same_name_twice":   {func(_ *bundle, s *judge.Submission) { s.Files = append(s.Files, s.Files[0]) }, fault.Invalid},
		"no_checker":        {func(b *bundle, _ *judge.Submission) { b.problem.Checker = nil }, fault.Invalid},
		"no_time_limit":     {func(b *bundle, _ *judge.Submission) { b.problem.Limits.CPU = 0 }, fault.Invalid},
		"negative_limit":    {func(b *bundle, _ *judge.Submission) { b.problem.Limits.Memory = -1 }, fault.Invalid},
		"more_than_machine": {func(b *bundle, _ *judge.Submission) { b.problem.Limits.Memory = 1 << 30 }, fault.Unsupported},
		"compile_more":      {func(b *bundle, _ *judge.Submission) { b.problem.Limits.CompileMemory = 1 << 30 }, fault.Unsupported},
		"template_is_missing": {func(b *bundle, _ *judge.Submission) {
			b.machines.createErrs = []error{fault.Errorf(fault.NotFound, "no such template")}
		}, fault.NotFound},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			s := source("echo")
			tt.change(b, &s)
			_, err := b.judge.Run(t.Context(), b.problem, s, nil)
			if !fault.Is(err, tt.kind) {
				t.Errorf("Run = %v (%v), want kind %v", err, fault.KindOf(err), tt.kind)
			}
			for _, m := range b.machines.made {
				if m.destroyed == 0 {
					t.Error("a machine was not destroyed")
				}
			}
		})
	}
}

func TestJudgeErrors(t *testing.T) {
	t.Parallel()
	full := fault.Errorf(fault.Exhausted, "no room")
	tests := map[string]struct {
		change func(*bundle)
		want   judge.Verdict
		reason string
	}{
		"no_tests":       {func(b *bundle) { b.problem.Cases = nil }, "JE", "no test cases"},
		"no_machine":     {func(b *bundle) { b.machines.createErrs = []error{full, full} }, "JE", "no room"},
		"machine_second": {func(b *bundle) { b.machines.createErrs = []error{full} }, "AC", ""},
		"answer_gone": {func(b *bundle) {
			b.problem.Cases[1].Answer = judge.NewBlob("b.ans", 1, "", func() (io.ReadCloser, error) { return nil, errors.New("gone") })
		}, "JE", "gone"},
		"answer_changed": {func(b *bundle) {
			c := &b.problem.Cases[1]
			c.Answer = judge.NewBlob("b.ans", 2, c.Answer.SHA256(), func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader("b\n")), nil })
		}, "JE", "changed after"},
		"input_changed": {func(b *bundle) {
			b.problem.Cases[1].Input = judge.NewBlob("b.in", 2, "00", func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader("b\n")), nil })
		}, "JE", "changed after"},
		"checker_fails":   {func(b *bundle) { b.problem.Checker = badChecker{err: errors.New("broken checker")} }, "JE", "broken checker"},
		"checker_is_mute": {func(b *bundle) { b.problem.Checker = badChecker{} }, "JE", "gave no answer"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			tt.change(b)
			got, err := b.judge.Run(t.Context(), b.problem, source("echo"), nil)
			if err != nil {
				t.Fatal(err)
			}
			if got.Verdict != tt.want || !strings.Contains(got.Reason, tt.reason) {
				t.Errorf("got %s %q, want %s %q", got.Verdict, got.Reason, tt.want, tt.reason)
			}
			if ours := tt.want == "JE" && name != "no_tests"; ours != (got.Failure != nil) {
				t.Errorf("the failure is %v, is it ours: %v", got.Failure, ours)
			}
		})
	}
}

// badChecker reads nothing and fails, or says nothing.
type badChecker struct{ err error }

func (c badChecker) Describe() string { return "bad" }

func (c badChecker) Check(context.Context, judge.CheckRequest) (judge.Check, error) {
	return judge.Check{}, c.err
}

func TestCancelledRunIsNoVerdict(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("the server stops")
	observe := func(e judge.Event) {
		if e.Step == judge.StepCase && e.Case == 2 {
			cancel(why)
		}
	}
	_, err := b.judge.Run(ctx, b.problem, source("echo"), observe)
	if !errors.Is(err, why) {
		t.Errorf("Run = %v, want the cause", err)
	}
	if m := b.machines.made; len(m) != 1 || m[0].destroyed == 0 {
		t.Error("the machine was not destroyed, or a second one was made")
	}
}

func TestSelfTestIsAccepted(t *testing.T) {
	t.Parallel()
	b := setup(t)
	langs, err := judge.LoadLanguages(fstest.MapFS{"fake.yaml": {Data: []byte(fakeLanguage)}})
	if err != nil {
		t.Fatal(err)
	}
	lang, err := langs.ByID("fake")
	if err != nil {
		t.Fatal(err)
	}
	p, s := lang.SelfTestCase(checker.Default{})
	got, err := b.judge.Run(t.Context(), p, s, nil)
	if err != nil || got.Verdict != judge.Accepted {
		t.Errorf("Run = %s %q, %v", got.Verdict, got.Reason, err)
	}
}

// A timer that ran on while a machine is cleaned up has made programs slow
// elsewhere.
func TestSlowCleaningIsNobodysTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t)
		b.machines.destroyTakes = 10 * time.Second
		run, err := b.judge.Run(t.Context(), b.problem, source("cpu 100ms\necho"), nil)
		if err != nil || run.Verdict != judge.Accepted || run.TimeUS != 100_000 || len(run.Warnings) > 0 {
			t.Errorf("Run = %s %q in %d us, warnings %q, %v", run.Verdict, run.Reason, run.TimeUS, run.Warnings, err)
		}
		if took := run.FinishedAt.Sub(run.StartedAt); took < b.machines.destroyTakes {
			t.Errorf("all was over after %v: the machine was not cleaned up", took)
		}
	})
}

func TestObserver(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var got []string
	_, err := b.judge.Run(t.Context(), b.problem, source("echo\non b first 1 lose\non c exit 1"), func(e judge.Event) {
		line := fmt.Sprintf("%s %d/%d %s", e.Step, e.Case, e.Cases, e.Text)
		if e.Result != nil {
			line += string(e.Result.Verdict)
		}
		got = append(got, line)
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"compiling 0/0 ", "compiled 0/0 ", "case 1/3 ", "case_done 1/3 AC", "case 2/3 ", "retrying 0/0 run the program: the machine was lost",
		"case_done 2/3 AC", "case 3/3 ", "case_done 3/3 RE", "done 0/0 RE",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestFreshMachineAfterALossCompilesAgain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	got, err := b.judge.Run(t.Context(), b.problem, source("echo\non b first 1 lose"), nil)
	if err != nil || got.Verdict != judge.Accepted {
		t.Fatalf("Run = %s, %v", got.Verdict, err)
	}
	var commands []string
	for _, m := range b.machines.made {
		for _, spec := range m.specs {
			commands = append(commands, fmt.Sprintf("%d %s", m.id, spec.Argv[0]))
		}
	}
	want := []string{"1 fakecc", "1 /bin/sh", "1 /box/prog/program", "1 /box/prog/program", "2 fakecc", "2 /bin/sh", "2 /box/prog/program", "2 /box/prog/program"}
	if diff := cmp.Diff(want, commands); diff != "" {
		t.Error(diff)
	}
	if len(got.Retries) != 1 || got.Retries[0].Doing != "run case 2" {
		t.Errorf("retries %+v", got.Retries)
	}
}
