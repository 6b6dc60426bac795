package cli

import (
	"bytes"
	"context"

	"assay/internal/fault"
	"assay/internal/guest"
	"assay/internal/sandbox"
)

type sandboxExecCmd struct {
	limitFlags
	oneSandbox
	User    string   `name:"user" enum:"user,root" default:"user" help:"Run as user or root of the sandbox."`
	Env     []string `name:"env" short:"e" sep:"none" placeholder:"NAME=VALUE" help:"Add to the environment; may be repeated."`
	Dir     string   `name:"dir" short:"w" placeholder:"DIR" help:"Working directory (default: the user's home)."`
	Leave   bool     `name:"leave" help:"Let processes that the command started go on after its end."`
	Command []string `arg:"" passthrough:"" help:"Program and arguments, after --."`
}

func (sandboxExecCmd) Help() string {
	return `Input, output and exit code are the command's own, as with "assay run": 124 when the CPU or wall limit ended it, 125 for any other limit, 128 + n for signal n. Ctrl-C kills the command.`
}

func (c sandboxExecCmd) Run(ctx context.Context, env *Env) error {
	command := c.Command
	if len(command) > 0 && command[0] == "--" {
		command = command[1:]
	}
	if len(command) == 0 {
		return fault.Errorf(fault.Invalid, "no command to run").WithHint("put it behind --, for example: assay sandbox exec ID -- ls -l")
	}
	spec := sandbox.ExecSpec{Argv: command, Dir: c.Dir, User: c.User, Leave: c.Leave, Limits: c.limits()}
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
	client, err := connect(ctx, env)
	if err != nil {
		return err
	}
	defer client.Close()
	info, err := client.Get(ctx, c.ID)
	if err != nil {
		return err
	}
	res, err := client.Exec(ctx, info.ID, spec, streams)
	if err != nil {
		return err
	}
	return showOutcome(env, res, info.Info, out.Bytes(), errs.Bytes())
}
