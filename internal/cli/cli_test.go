package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/testscript"

	"assay/internal/doctor"
	"assay/internal/fault"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"assay": func() {
			os.Exit(Main(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
		},
	})
}

// TestScripts runs the command line as a user does; testdata/*.txtar.
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{Dir: "testdata"})
}

// outcomeCmd ends as its test wants.
type outcomeCmd struct {
	run func(ctx context.Context, env *Env) error
}

func (c *outcomeCmd) Run(ctx context.Context, env *Env) error { return c.run(ctx, env) }

// runOutcome runs a command line whose only command ends with outcome.
func runOutcome(ctx context.Context, outcome func(context.Context, *Env) error, args ...string) (code int, stdout, stderr string) {
	var grammar struct {
		globals
		Do outcomeCmd `cmd:""`
	}
	grammar.Do.run = outcome
	var out, errs bytes.Buffer
	code = run(ctx, &grammar, &grammar.globals, append([]string{"do"}, args...),
		Env{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs})
	return code, out.String(), errs.String()
}

func TestExitCodeAndMessage(t *testing.T) {
	t.Parallel()
	withKind := func(kind fault.Kind) error { return fault.Errorf(kind, "the thing") }
	tests := []struct {
		name   string
		err    error
		code   int
		stderr string
	}{
		{"done", nil, 0, ""},
		{"negative", errNegative, 1, ""},
		{"negative_wrapped", fmt.Errorf("judge: %w", errNegative), 1, ""},
		{"status", status(42), 42, ""},
		{"invalid", withKind(fault.Invalid), 2, "assay: error: the thing\n"},
		{"not_found", withKind(fault.NotFound), 3, "assay: error: the thing\n"},
		{"conflict", withKind(fault.Conflict), 4, "assay: error: the thing\n"},
		{"exhausted", withKind(fault.Exhausted), 5, "assay: error: the thing\n"},
		{"unavailable", withKind(fault.Unavailable), 6, "assay: error: the thing\n"},
		{"unsupported", withKind(fault.Unsupported), 7, "assay: error: the thing\n"},
		{"denied", withKind(fault.Denied), 8, "assay: error: the thing\n"},
		{"internal", withKind(fault.Internal), 70, "assay: error: the thing\n"},
		{"no_kind", errors.New("disk on fire"), 70, "assay: error: disk on fire\n"},
		{
			"hint", fault.Errorf(fault.NotFound, "no template %q", "x").WithHint("build it"), 3,
			"assay: error: no template \"x\"\nassay: hint: build it\n",
		},
		{
			"hint_below", fmt.Errorf("judge: %w", fault.Errorf(fault.NotFound, "no template").WithHint("build it")), 3,
			"assay: error: judge: no template\nassay: hint: build it\n",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			code, stdout, stderr := runOutcome(t.Context(), func(context.Context, *Env) error { return tt.err })
			if code != tt.code || stdout != "" {
				t.Errorf("code %d, stdout %q; want %d, none", code, stdout, tt.code)
			}
			if diff := cmp.Diff(tt.stderr, stderr); diff != "" {
				t.Errorf("stderr (-want +got):\n%s", diff)
			}
		})
	}
}

func TestEveryKindHasItsOwnExitCode(t *testing.T) {
	t.Parallel()
	seen := map[int]fault.Kind{}
	// Kinds are numbered without a gap; an unknown one reads as internal.
	for kind := fault.Internal; kind == fault.Internal || kind.String() != fault.Internal.String(); kind++ {
		code, listed := exitCodes[kind]
		if !listed {
			t.Errorf("kind %s has no exit code", kind)
		}
		if other, taken := seen[code]; taken {
			t.Errorf("kinds %s and %s share exit code %d", kind, other, code)
		}
		seen[code] = kind
	}
	if len(seen) != len(exitCodes) {
		t.Errorf("table has %d codes, %d kinds exist", len(exitCodes), len(seen))
	}
}

func TestErrorAsJSON(t *testing.T) {
	t.Parallel()
	code, _, stderr := runOutcome(t.Context(), func(context.Context, *Env) error {
		return fault.Errorf(fault.Exhausted, "no disk for <base>").WithHint("free some")
	}, "--json")
	want := `{"error":{"kind":"exhausted","message":"no disk for <base>","hint":"free some"}}` + "\n"
	if code != 5 || stderr != want {
		t.Errorf("code %d, stderr %s; want 5, %s", code, stderr, want)
	}
}

// The tests of panics set ASSAY_DEBUG, so they are not parallel.
func TestPanicIsAnInternalError(t *testing.T) {
	boom := func(context.Context, *Env) error { panic("boom") }
	t.Setenv("ASSAY_DEBUG", "")
	code, _, stderr := runOutcome(t.Context(), boom)
	if code != 70 || !strings.HasPrefix(stderr, "assay: error: internal error: boom\nassay: hint: ") || strings.Contains(stderr, "goroutine") {
		t.Errorf("code %d, stderr %q; want 70 and no stack trace", code, stderr)
	}
	t.Setenv("ASSAY_DEBUG", "1")
	if _, _, stderr = runOutcome(t.Context(), boom); !strings.Contains(stderr, "cli_test.go") {
		t.Errorf("no stack trace with ASSAY_DEBUG: %q", stderr)
	}
}

func TestInterruptedCommand(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	code, _, stderr := runOutcome(ctx, func(ctx context.Context, _ *Env) error {
		cancel()
		<-ctx.Done()
		return fmt.Errorf("wait for sandbox: %w", ctx.Err())
	})
	if code != 130 || stderr != "assay: error: interrupted\n" {
		t.Errorf("code %d, stderr %q; want 130, interrupted", code, stderr)
	}
}

// TestEveryCommandIsWhole looks at the grammar: each command says what it does
// and can be run, and so does each flag.
func TestEveryCommandIsWhole(t *testing.T) {
	t.Parallel()
	parser, err := kong.New(&root{}, kong.Vars{"default_data_dir": defaultDataDir()})
	if err != nil {
		t.Fatal(err)
	}
	for _, node := range parser.Model.Leaves(false) {
		if node.Help == "" {
			t.Errorf("command %s has no help", node.FullPath())
		}
		if !node.Target.Addr().MethodByName("Run").IsValid() {
			t.Errorf("command %s has no Run", node.FullPath())
		}
		for _, flag := range node.Flags {
			if flag.Help == "" {
				t.Errorf("flag --%s of %s has no help", flag.Name, node.FullPath())
			}
		}
	}
}

func TestDataDirIsAbsolute(t *testing.T) {
	t.Parallel()
	_, stdout, _ := runOutcome(t.Context(), func(_ context.Context, env *Env) error {
		return env.PrintJSON(env.DataDir)
	}, "--data-dir", "some/where")
	wd, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	var got string
	if err := json.Unmarshal([]byte(stdout), &got); err != nil || got != wd+"/some/where" {
		t.Errorf("got %q, %v; want %q", got, err, wd+"/some/where")
	}
}

func TestReadyDoctorIsNoError(t *testing.T) {
	t.Parallel()
	code, stdout, stderr := runOutcome(t.Context(), func(_ context.Context, env *Env) error {
		return showDoctor(env, doctor.Report{Findings: []doctor.Finding{
			{Check: "kernel", Level: doctor.OK, Detail: "6.1"},
			{Check: "swap", Level: doctor.Warn, Detail: "1 GiB", Remedy: "swapoff -a"},
		}})
	})
	want := `STATE  CHECK   FOUND  REMEDY
ok     kernel  6.1
warn   swap    1 GiB  swapoff -a

1 ok, 1 warn, 0 fail
`
	if code != 0 || stderr != "" {
		t.Errorf("code %d, stderr %q; want 0, none", code, stderr)
	}
	if diff := cmp.Diff(want, stdout); diff != "" {
		t.Errorf("stdout (-want +got):\n%s", diff)
	}
}
