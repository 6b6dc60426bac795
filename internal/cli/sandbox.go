package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/alecthomas/kong"

	"assay/internal/app"
	"assay/internal/fault"
	"assay/internal/supervisor"
)

// sandboxCmd groups the commands on sandboxes that outlive one command.
type sandboxCmd struct {
	Create    sandboxCreateCmd    `cmd:"" help:"Make a sandbox and print its ID."`
	Exec      sandboxExecCmd      `cmd:"" help:"Run one command in a sandbox."`
	Shell     sandboxShellCmd     `cmd:"" help:"Open a terminal in a sandbox, or attach to one."`
	Cp        sandboxCpCmd        `cmd:"" help:"Copy files and trees into and out of a sandbox."`
	Ls        sandboxLsCmd        `cmd:"" aliases:"list" help:"List sandboxes, or snapshots."`
	Info      sandboxInfoCmd      `cmd:"" help:"Show all there is to know of a sandbox."`
	Snapshot  sandboxSnapshotCmd  `cmd:"" help:"Freeze a sandbox, memory and disk, and let it go on."`
	Snapshots sandboxSnapshotsCmd `cmd:"" help:"List snapshots."`
	Fork      sandboxForkCmd      `cmd:"" help:"Make children of a running sandbox, memory and disk."`
	Pause     sandboxPauseCmd     `cmd:"" help:"Stop everything in a sandbox; its deadline goes on."`
	Resume    sandboxResumeCmd    `cmd:"" help:"Let a paused sandbox go on."`
	Network   sandboxNetworkCmd   `cmd:"" help:"Change what a sandbox may reach, or switch it off."`
	Extend    sandboxExtendCmd    `cmd:"" help:"Set a new deadline."`
	Events    sandboxEventsCmd    `cmd:"" help:"Show what a sandbox did, also after its end."`
	Watch     sandboxWatchCmd     `cmd:"" help:"Print what happens to files below a directory of a sandbox."`
	Port      sandboxPortCmd      `cmd:"" help:"Forward a local port to a port in a sandbox."`
	Preview   sandboxPreviewCmd   `cmd:"" help:"Show a port of a sandbox in a browser; of a server: make a link."`
	Rm        sandboxRmCmd        `cmd:"" aliases:"remove" help:"End sandboxes, or remove snapshots."`
	Supervise sandboxSuperviseCmd `cmd:"" hidden:"" help:"Keep the sandboxes of a data directory; other commands start it."`
}

func (sandboxCmd) Help() string {
	return `Sandboxes live in a supervisor, a small process for each data directory that the first command starts and that ends by itself soon after the last sandbox. A sandbox is named by its ID or an unambiguous beginning of it.`
}

// connect gives a client of the data directory's supervisor, which it starts
// if none lives.
func connect(ctx context.Context, env *Env) (*supervisor.Client, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	var attr *syscall.SysProcAttr
	if os.Geteuid() != 0 {
		attr = app.UserNamespace()
	}
	return supervisor.Connect(ctx, supervisor.Start{
		DataDir: env.DataDir, Attr: attr,
		Command: []string{exe, "sandbox", "supervise", "--started", "--data-dir", env.DataDir, "--driver", env.Driver, "--qemu-accel", env.Accel},
		Started: func(h supervisor.Hello) {
			if h.Adopted > 0 {
				env.UI.Notef("adopted %d persistent %s", h.Adopted, plural(h.Adopted, "sandbox", "sandboxes"))
			}
			if h.Reclaimed > 0 {
				env.UI.Notef("removed %d %s that a supervisor left when it died", h.Reclaimed, plural(h.Reclaimed, "machine", "machines"))
			}
		},
	})
}

func plural(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// metadata is a flag of the form k=v that may be repeated.
type metadata map[string]string

func (m *metadata) Decode(ctx *kong.DecodeContext) error {
	var s string
	if err := ctx.Scan.PopValueInto("metadata", &s); err != nil {
		return err
	}
	k, v, found := strings.Cut(s, "=")
	if !found || k == "" {
		return fmt.Errorf("%q is not of the form key=value", s)
	}
	if *m == nil {
		*m = metadata{}
	}
	(*m)[k] = v
	return nil
}

// IsCumulative makes kong keep what earlier flags said.
func (metadata) IsCumulative() bool { return true }

// termFlags bound the life of a new sandbox.
type termFlags struct {
	TTL  positiveDuration `name:"ttl" default:"1h" help:"Hard end of the sandbox, from now."`
	Idle positiveDuration `name:"idle" placeholder:"10m" help:"End the sandbox after so long without a use."`
	networkFlags
	Persistent bool     `name:"persistent" help:"Let the sandbox outlive the supervisor, also a killed one: the next adopts it. It has no network."`
	Metadata   metadata `name:"metadata" short:"m" sep:"none" placeholder:"KEY=VALUE" help:"Kept and shown with the sandbox; may be repeated."`
}

func (t termFlags) terms() supervisor.Terms {
	return supervisor.Terms{TTL: time.Duration(t.TTL), Idle: time.Duration(t.Idle), Metadata: t.Metadata, Network: t.policy(), Persistent: t.Persistent}
}

type sandboxCreateCmd struct {
	termFlags
	Template string `name:"template" short:"t" xor:"from" help:"Template of the sandbox (default: base)."`
	Snapshot string `name:"snapshot" short:"s" xor:"from" placeholder:"ID" help:"Restore this snapshot instead."`
}

// defaultTemplate is the template when none is asked for.
const defaultTemplate = "base"

// buildFirst builds the template as the user: the supervisor is in a namespace
// that has too few user IDs for it.
func (sandboxCreateCmd) buildFirst(ctx context.Context, env *Env, template string) error {
	if template == "" {
		return nil
	}
	store, err := openTemplates(env)
	if err != nil {
		return err
	}
	_, err = buildTemplate(ctx, env, store, template)
	return err
}

func (c sandboxCreateCmd) Run(ctx context.Context, env *Env) error {
	req := supervisor.CreateRequest{Template: c.Template, Snapshot: c.Snapshot, Terms: c.terms()}
	if req.Template == "" && req.Snapshot == "" {
		req.Template = defaultTemplate
	}
	if strings.ContainsRune(req.Template, '/') || filepath.Ext(req.Template) == ".yaml" {
		abs, err := filepath.Abs(req.Template) // the supervisor works elsewhere
		if err != nil {
			return fault.Errorf(fault.Invalid, "template %q: %w", req.Template, err)
		}
		req.Template = abs
	}
	if os.Geteuid() != 0 {
		env.UI.Warnf("%s", app.Weaker)
		if err := c.buildFirst(ctx, env, req.Template); err != nil {
			return err
		}
	}
	client, err := connect(ctx, env)
	if err != nil {
		return err
	}
	defer client.Close()
	if has := client.Hello().Driver; has != env.Driver {
		return fault.Errorf(fault.Conflict, "the sandboxes of this data directory are made with driver %s now, not %s", has, env.Driver).
			WithHint("say --driver %s, or remove its sandboxes first: assay sandbox ls", has)
	}
	view := &createView{ui: env.UI}
	sb, err := client.Create(ctx, req, view.show)
	if err != nil {
		return err
	}
	view.finish()
	if env.JSON {
		return env.PrintJSON(sb)
	}
	env.UI.Printf("%s\n", sb.ID)
	return nil
}

// createView shows what a creation does while it takes long.
type createView struct {
	ui       *UI
	title    string
	progress *Progress
}

func (v *createView) show(p supervisor.Progress) {
	if p.Queued > 0 {
		v.ui.Notef("the host is full: number %d in the queue", p.Queued)
		return
	}
	if v.progress == nil || v.title != p.Title {
		v.finish()
		v.title, v.progress = p.Title, v.ui.Progress(p.Title, 0)
	}
	if p.Stage != "" {
		v.progress.Stage(p.Stage)
	}
	v.progress.Set(p.Done, p.Total)
}

func (v *createView) finish() {
	if v.progress != nil {
		v.progress.Finish("done")
	}
}
