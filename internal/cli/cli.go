// Package cli is the command line: it reads arguments, calls the services that
// package app joins, and shows what they give as tables, progress or JSON.
// Start with Main and the root struct; each command lives in a file of its own
// as a struct with Run(ctx, *Env) error.
//
// The package must not know any driver or adapter, and decides nothing itself:
// a verdict or a limit that the command line would treat in a way of its own
// is a mistake.
package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"

	"github.com/alecthomas/kong"

	"assay/internal/fault"
)

// root is the grammar of the command line. A command group is one field here
// and one file beside this one.
type root struct {
	globals

	Run        runCmd        `cmd:"" help:"Run one command in a fresh machine."`
	Sandbox    sandboxCmd    `cmd:"" help:"Make and use sandboxes that outlive one command."`
	Assignment assignmentCmd `cmd:"" help:"Make, show and check assignments."`
	Grade      gradeCmd      `cmd:"" help:"Grade submissions of a class against an assignment."`
	Regrade    regradeCmd    `cmd:"" help:"Grade again from the files that were kept, and say what would change."`
	Course     courseCmd     `cmd:"" help:"Run a course: assignments, groups, extensions, adjustments."`
	Roster     rosterCmd     `cmd:"" help:"Import and show the people of a course."`
	Gradebook  gradebookCmd  `cmd:"" help:"Show and export the marks of a course."`
	Similarity similarityCmd `cmd:"" help:"Find code that submissions share, as a lead for a person."`
	Jobe       jobeCmd       `cmd:"" help:"Run programs for Moodle: serve the wire format of Jobe."`
	Judge      judgeCmd      `cmd:"" help:"Judge submissions against a problem package."`
	Bench      benchCmd      `cmd:"" help:"Measure this host."`
	Doctor     doctorCmd     `cmd:"" help:"Check this host and name what is missing, with its remedy."`
	Languages  languagesCmd  `cmd:"" help:"List the languages of the judge and their versions."`
	Problem    problemCmd    `cmd:"" help:"Make, show and zip problem packages."`
	Rejudge    rejudgeCmd    `cmd:"" help:"Judge again from records and say what changed."`
	Serve      serveCmd      `cmd:"" help:"Serve the API and the pages, and do what is queued."`
	Submit     submitCmd     `cmd:"" help:"Submit files to a problem on a server and follow them to their verdict."`
	Status     statusCmd     `cmd:"" help:"Show submissions on a server."`
	Logs       logsCmd       `cmd:"" help:"Follow a submission on a server, a line for each event."`
	Remote     remoteCmd     `cmd:"" help:"Courses on a server: assignments, handing in, grades, regrades."`
	Usage      usageCmd      `cmd:"" help:"Show what was used on a server and what it costs."`
	Template   templateCmd   `cmd:"" help:"Build, list, show, remove and import templates."`
	Calibrate  calibrateCmd  `cmd:"" help:"Measure how sure times are on this host and say what limits are safe."`
	Verify     verifyCmd     `cmd:"" help:"Check problem packages and judge their labelled submissions."`
	Login      loginCmd      `cmd:"" help:"Sign in to a server by an approval in the browser."`
	Logout     logoutCmd     `cmd:"" help:"Sign out of a server."`
	Whoami     whoamiCmd     `cmd:"" help:"Show who you are at a server."`
	Token      tokenCmd      `cmd:"" help:"Make, list and revoke tokens for programs."`
	User       userCmd       `cmd:"" help:"Make and change the users of a server."`
	Version    versionCmd    `cmd:"" help:"Show the versions of Assay and its drivers."`
}

// globals are the flags of every command.
type globals struct {
	JSON    bool   `name:"json" help:"Write results and errors as JSON."`
	DataDir string `name:"data-dir" env:"ASSAY_DATA_DIR" placeholder:"DIR" help:"Where templates, snapshots and the journal live (default: ${default_data_dir})."`
	Driver  string `name:"driver" env:"ASSAY_DRIVER" enum:"gvisor,qemu" default:"gvisor" help:"How machines are made whose template does not say: gvisor (its kernel in user space) or qemu (a real guest kernel; emulated where there is no KVM)."`
	Accel   string `name:"qemu-accel" env:"ASSAY_QEMU_ACCEL" enum:"auto,kvm,tcg" default:"auto" help:"How driver qemu runs guest code: kvm, tcg (emulated), or auto: kvm where it can be used."`
	Quiet   bool   `name:"quiet" short:"q" help:"No progress and no notes; results and errors only."`
	Color   string `name:"color" enum:"auto,always,never" default:"auto" help:"Colour the output: auto, always or never."`
}

// Env is what a command gets besides its own flags. Commands write results to
// Stdout, everything else to Stderr, best through UI.
type Env struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	UI             *UI
	// JSON says that the result is one JSON value on Stdout (see PrintJSON)
	// and that nothing else may be written there.
	JSON bool
	// DataDir is an absolute path. It may not exist yet: the command that
	// needs it makes it.
	DataDir string
	// Driver is the driver of templates that name none, Accel how driver qemu runs
	// guest code.
	Driver, Accel string
	// emulated says that people were told of an emulated processor.
	emulated bool
}

// PrintJSON writes v to Stdout as one indented JSON value.
func (e *Env) PrintJSON(v any) error {
	enc := json.NewEncoder(e.Stdout)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("write result: %w", err)
	}
	return nil
}

// Main runs one command line, args without the program's name, and gives the
// exit code (see exit.go). When ctx ends the command stops, cleans up and
// returns. Main may be called many times in one process, also concurrently
// with different writers.
func Main(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	var r root
	return run(ctx, &r, &r.globals, args, Env{Stdin: stdin, Stdout: stdout, Stderr: stderr})
}

// run parses args by a grammar, whose flags for every command are g, and runs
// the command chosen.
func run(ctx context.Context, grammar any, g *globals, args []string, streams Env) (code int) {
	env := &streams
	// Errors before the flags are parsed must be in the format asked for too.
	env.JSON = asksJSON(args)
	env.UI = newUI(env, globals{Color: "auto"})

	defer func() {
		switch r := recover().(type) {
		case nil:
		case exitNow:
			code = int(r)
		default:
			code = report(env, panicked(r, debug.Stack()))
		}
	}()

	if len(args) == 0 {
		args = []string{"--help"}
	}
	parser, err := kong.New(grammar,
		kong.Name("assay"),
		kong.Description(description),
		kong.Writers(env.Stdout, env.Stderr),
		kong.Exit(func(code int) { panic(exitNow(code)) }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, FlagsLast: true}),
		kong.Configuration(readConfig),
		kong.Vars{"default_data_dir": defaultDataDir()},
	)
	if err != nil {
		return report(env, fmt.Errorf("build command line: %w", err))
	}
	kctx, err := parser.Parse(args)
	if err != nil {
		return report(env, usageError(err))
	}
	env.JSON = g.JSON
	env.UI = newUI(env, *g)
	env.Driver, env.Accel = g.Driver, g.Accel
	if env.DataDir, err = dataDir(g.DataDir); err != nil {
		return report(env, err)
	}
	kctx.Bind(env)
	kctx.BindTo(ctx, (*context.Context)(nil))
	err = kctx.Run()
	env.UI.endProgress()
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		err = errInterrupted
	}
	return report(env, err)
}

const description = `Assay runs code that nobody has reviewed, each time in a throwaway machine, and gives a result that somebody can rely on.

` + exitCodeHelp

// exitNow leaves kong from inside its parser, after --help was printed.
type exitNow int

// asksJSON looks for --json before the flags are parsed; what follows "--" is
// another program's.
func asksJSON(args []string) bool {
	if end := slices.Index(args, "--"); end >= 0 {
		args = args[:end]
	}
	return slices.Contains(args, "--json")
}

// usageError turns what kong says into a fault with a hint.
func usageError(err error) error {
	command := "assay"
	if pe, ok := errors.AsType[*kong.ParseError](err); ok && pe.Context != nil {
		if n := pe.Context.Selected(); n != nil {
			command = "assay " + n.Path()
		}
	}
	return fault.Errorf(fault.Invalid, "%w", err).WithHint("see %q", command+" --help")
}

func defaultDataDir() string {
	if os.Geteuid() == 0 {
		return "/var/lib/assay"
	}
	return "~/.local/share/assay"
}

// dataDir makes the data directory's path absolute; "" is the default.
func dataDir(flag string) (string, error) {
	if flag == "" {
		if os.Geteuid() == 0 {
			return "/var/lib/assay", nil
		}
		home, err := os.UserHomeDir()
		if err != nil {
			return "", fault.Errorf(fault.Invalid, "no data directory: %w", err).
				WithHint("give --data-dir or set ASSAY_DATA_DIR")
		}
		return filepath.Join(home, ".local", "share", "assay"), nil
	}
	abs, err := filepath.Abs(flag)
	if err != nil {
		return "", fault.Errorf(fault.Invalid, "data directory %q: %w", flag, err)
	}
	return abs, nil
}
