package cli

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/alecthomas/kong"

	"assay/internal/app"
	"assay/internal/bytesize"
	"assay/internal/fault"
	"assay/internal/guest"
	"assay/internal/sandbox"
)

// limitFlags are the limits of one command.
type limitFlags struct {
	CPU    positiveDuration `name:"cpu" placeholder:"1s" help:"CPU time of all processes together."`
	Wall   positiveDuration `name:"wall" placeholder:"3s" help:"Elapsed time."`
	Memory positiveSize     `name:"memory" placeholder:"256MB" help:"Memory of all processes together."`
	Pids   positiveCount    `name:"pids" placeholder:"64" help:"Processes and threads at once."`
	Output positiveSize     `name:"output" placeholder:"8MB" help:"Bytes of stdout and of stderr, each."`
	Disk   positiveSize     `name:"disk" placeholder:"64MB" help:"Bytes added to the disk."`
}

func (l limitFlags) limits() sandbox.Limits {
	return sandbox.Limits{
		CPU: time.Duration(l.CPU), Wall: time.Duration(l.Wall), Memory: int64(l.Memory),
		Processes: int(l.Pids), Output: int64(l.Output), Disk: int64(l.Disk),
	}
}

// The limit types refuse zero and less where the flag is read, so that the
// error names the flag.
type (
	positiveDuration time.Duration
	positiveSize     int64
	positiveCount    int
)

func (d *positiveDuration) Decode(ctx *kong.DecodeContext) error {
	var s string
	if err := ctx.Scan.PopValueInto("duration", &s); err != nil {
		return err
	}
	v, err := time.ParseDuration(s)
	if err != nil {
		return fmt.Errorf("%q is not a duration such as 1s or 300ms", s)
	}
	if v <= 0 {
		return fmt.Errorf("%s is not above zero; leave the flag out for no limit of its own", s)
	}
	*d = positiveDuration(v)
	return nil
}

func (n *positiveSize) Decode(ctx *kong.DecodeContext) error {
	var s string
	if err := ctx.Scan.PopValueInto("size", &s); err != nil {
		return err
	}
	v, err := bytesize.Parse(s)
	if err != nil {
		return err
	}
	if v <= 0 {
		return fmt.Errorf("%s is not above zero; leave the flag out for no limit of its own", s)
	}
	*n = positiveSize(v)
	return nil
}

func (n *positiveCount) Decode(ctx *kong.DecodeContext) error {
	var s string
	if err := ctx.Scan.PopValueInto("count", &s); err != nil {
		return err
	}
	v, err := strconv.Atoi(s)
	if err != nil {
		return fmt.Errorf("%q is not a whole number", s)
	}
	if v <= 0 {
		return fmt.Errorf("%d is not above zero; leave the flag out for no limit of its own", v)
	}
	*n = positiveCount(v)
	return nil
}

type runCmd struct {
	limitFlags
	networkFlags
	Template string   `name:"template" short:"t" default:"base" help:"Template of the machine."`
	User     string   `name:"user" enum:"user,root" default:"user" help:"Run as user or root of the machine."`
	Env      []string `name:"env" short:"e" sep:"none" placeholder:"NAME=VALUE" help:"Add to the environment; may be repeated."`
	Command  []string `arg:"" passthrough:"" help:"Program and arguments, after --."`
}

func (runCmd) Help() string {
	return `The command runs in a fresh machine that is destroyed when it ends. Nothing of this host is in it: no files, no environment, and no network but the names of --allow.

The exit code is the command's own; 124 when the CPU or wall limit ended it, 125 for any other limit, 128 + n for signal n.`
}

// ranJSON is the one object of "assay run --json".
type ranJSON struct {
	Exit    sandbox.Exit  `json:"exit"`
	Usage   sandbox.Usage `json:"usage"`
	Sandbox ranIn         `json:"sandbox"`
	textOrBytes
}

type ranIn struct {
	ID             string           `json:"id"`
	Template       string           `json:"template"`
	TemplateDigest string           `json:"template_digest"`
	Driver         string           `json:"driver"`
	BootMode       sandbox.BootMode `json:"boot_mode"`
	BootUS         int64            `json:"boot_us"`
}

// textOrBytes gives output as text where it is UTF-8, else as base64: JSON has
// no other way to carry bytes unchanged.
type textOrBytes struct {
	Stdout       *string `json:"stdout,omitempty"`
	StdoutBase64 *string `json:"stdout_base64,omitempty"`
	Stderr       *string `json:"stderr,omitempty"`
	StderrBase64 *string `json:"stderr_base64,omitempty"`
}

func asText(b []byte) (text, base *string) {
	if utf8.Valid(b) {
		s := string(b)
		return &s, nil
	}
	s := base64.StdEncoding.EncodeToString(b)
	return nil, &s
}

// jsonOutput bounds what --json collects of each stream when no limit is set.
const jsonOutput = 16 << 20

func (c runCmd) Run(ctx context.Context, env *Env) (err error) {
	command := c.Command
	if len(command) > 0 && command[0] == "--" {
		command = command[1:]
	}
	if len(command) == 0 {
		return fault.Errorf(fault.Invalid, "no command to run").WithHint("put it behind --, for example: assay run -- python3 -c 'print(6*7)'")
	}
	if err := enterRoot(ctx, env, c.Template); err != nil {
		return err
	}
	e, t, err := openWith(ctx, env, c.Template)
	if err != nil {
		return err
	}
	defer func() { err = closeEngine(e, err) }()
	s, err := createShown(ctx, env, e, sandbox.Spec{Template: &t, Network: c.policy()})
	if err != nil {
		return err
	}
	spec := sandbox.ExecSpec{Argv: command, Limits: c.limits(), User: c.User}
	if len(c.Env) > 0 {
		spec.Env = append(append([]string{}, guest.DefaultEnv...), c.Env...)
	}
	streams := guest.IO{Stdin: stdinOf(env), Stdout: env.Stdout, Stderr: env.Stderr}
	var out, errs bytes.Buffer
	if env.JSON {
		streams.Stdout, streams.Stderr = &out, &errs
		if spec.Limits.Output == 0 {
			spec.Limits.Output, spec.KeepOutput = jsonOutput, true
		}
	}
	res, err := s.Exec(ctx, spec, streams)
	if err != nil {
		return err
	}
	return showOutcome(env, res, s.Info(), out.Bytes(), errs.Bytes())
}

// showOutcome tells how a command ended, as one object with what it wrote or
// as a line for people, and gives the exit code that a shell expects. What it
// wrote has gone to people before.
func showOutcome(env *Env, res sandbox.Result, info sandbox.Info, stdout, stderr []byte) error {
	if env.JSON {
		j := ranJSON{Exit: res.Exit, Usage: res.Usage, Sandbox: ranIn{
			info.ID, info.Template, info.TemplateDigest, info.Driver, info.BootMode, info.Boot.Microseconds(),
		}}
		j.Stdout, j.StdoutBase64 = asText(stdout)
		j.Stderr, j.StderrBase64 = asText(stderr)
		if err := env.PrintJSON(j); err != nil {
			return err
		}
	} else if res.Exit.Cause != guest.Exited {
		env.UI.Notef("ended by %s after %s of CPU, %s elapsed, %d MiB of memory", res.Exit.Cause,
			res.Usage.CPU().Round(time.Millisecond), res.Usage.Wall.Round(time.Millisecond), res.Usage.MemoryPeak>>20)
	}
	if code := shellCode(res.Exit); code != 0 {
		return status(code)
	}
	return nil
}

// stdinOf gives the command's input. A terminal that nobody types into would
// keep the command's stdin open: it is passed on all the same, as a shell does.
func stdinOf(env *Env) io.Reader {
	if f, ok := env.Stdin.(*os.File); ok && f == nil {
		return nil
	}
	return env.Stdin
}

// shellCode is the exit code that a shell user expects for an exit.
func shellCode(x sandbox.Exit) int {
	switch x.Cause {
	case guest.Exited:
		return x.Code
	case guest.Signaled:
		return 128 + x.Signal
	case guest.CPULimit, guest.WallLimit:
		return 124
	default:
		return 125
	}
}

// enterRoot makes a command that needs machines work for an ordinary user: it
// runs the whole command again as root of a user namespace, and its outcome is
// the one to return. Templates are built before, since building them needs more
// user IDs than such a namespace has. For root it does nothing.
func enterRoot(ctx context.Context, env *Env, templates ...string) error {
	if os.Geteuid() == 0 {
		if app.InUserNamespace() {
			env.UI.Warnf("%s", app.Weaker)
		}
		return nil
	}
	store, err := openTemplates(env)
	if err != nil {
		return err
	}
	for _, name := range templates {
		if _, err := buildTemplate(ctx, env, store, name); err != nil {
			return err
		}
	}
	code, err := app.RunInUserNamespace(ctx, os.Args[1:], append(os.Environ(), "ASSAY_DATA_DIR="+env.DataDir))
	if err != nil {
		return err
	}
	return status(code)
}

// openWith opens the engine and gives a template, built and warm, with
// progress for what takes long.
func openWith(ctx context.Context, env *Env, template string) (*app.Engine, sandbox.Template, error) {
	e, err := app.OpenEngine(ctx, app.Config{DataDir: env.DataDir, Driver: env.Driver, Accel: env.Accel})
	if err != nil {
		return nil, sandbox.Template{}, err
	}
	t, err := prepareShown(ctx, env, e, template)
	if err != nil {
		return nil, t, closeEngine(e, err)
	}
	return e, t, nil
}

// prepareShown builds and warms a template.
func prepareShown(ctx context.Context, env *Env, e *app.Engine, name string) (sandbox.Template, error) {
	view := &buildView{ui: env.UI, title: "build " + name}
	t, err := e.Template(ctx, name, view)
	if err != nil {
		return t, err
	}
	view.finish("done")
	warnEmulated(env, e, t)
	if e.Manager.Prepared(t) {
		return t, nil
	}
	p := env.UI.Progress("warm up "+name, 0)
	if _, err := e.Manager.Prepare(ctx, t); err != nil {
		return t, err
	}
	p.Finish("done")
	return t, nil
}

// createShown creates a sandbox and says so when it has to wait for room.
func createShown(ctx context.Context, env *Env, e *app.Engine, spec sandbox.Spec) (*sandbox.Sandbox, error) {
	spec.Queued = func(place int) { env.UI.Notef("the host is full: number %d in the queue", place) }
	return e.Manager.Create(ctx, spec)
}

// closeEngine closes the engine; its failure does not hide an earlier one.
func closeEngine(e *app.Engine, err error) error {
	if closeErr := e.Close(); err == nil {
		return closeErr
	}
	return err
}
