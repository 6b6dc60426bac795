package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"assay/internal/fault"
	"assay/internal/sandbox"
	"assay/internal/supervisor"
)

type sandboxLsCmd struct {
	Snapshots bool `name:"snapshots" help:"List snapshots instead."`
}

func (c sandboxLsCmd) Run(ctx context.Context, env *Env) error {
	if c.Snapshots {
		return sandboxSnapshotsCmd{}.Run(ctx, env)
	}
	client, err := connect(ctx, env)
	if err != nil {
		return err
	}
	defer client.Close()
	list, err := client.List(ctx)
	if err != nil {
		return err
	}
	if env.JSON {
		return env.PrintJSON(list)
	}
	rows := make([][]string, 0, len(list))
	for _, sb := range list {
		rows = append(rows, []string{
			sb.ID, sb.Template, string(sb.BootMode), age(sb.Created), ahead(sb.Deadline), state(env.UI, sb.State), pairs(sb.Metadata),
		})
	}
	env.UI.Table([]Column{
		Left("ID"), Left("TEMPLATE"), Left("MODE"), Right("AGE"), Right("DEADLINE"), Left("STATE"), Left("METADATA"),
	}, rows)
	return nil
}

func state(ui *UI, s string) string {
	if s == supervisor.StateRunning {
		return ui.Good(s)
	}
	return ui.Warn(s)
}

// age is how long ago, ahead how long to go.
func age(t time.Time) string   { return roughly(time.Since(t)) }
func ahead(t time.Time) string { return "in " + roughly(time.Until(t)) }

// roughly writes a duration with two units at most.
func roughly(d time.Duration) string {
	switch d = max(d, 0); {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	default:
		return fmt.Sprintf("%dd%02dh", int(d.Hours())/24, int(d.Hours())%24)
	}
}

func pairs(m map[string]string) string {
	var all []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		all = append(all, k+"="+m[k])
	}
	return strings.Join(all, " ")
}

type sandboxSnapshotsCmd struct{}

func (sandboxSnapshotsCmd) Run(ctx context.Context, env *Env) error {
	client, err := connect(ctx, env)
	if err != nil {
		return err
	}
	defer client.Close()
	list, err := client.Snapshots(ctx)
	if err != nil {
		return err
	}
	if env.JSON {
		return env.PrintJSON(list)
	}
	rows := make([][]string, 0, len(list))
	for _, s := range list {
		expires := "never"
		if !s.Expires.IsZero() {
			expires = ahead(s.Expires)
		}
		rows = append(rows, []string{s.ID, s.TemplateName, s.Sandbox, age(s.Taken), expires, fmt.Sprintf("%.1f MiB", float64(s.Bytes)/(1<<20))})
	}
	env.UI.Table([]Column{Left("ID"), Left("TEMPLATE"), Left("SANDBOX"), Right("AGE"), Right("EXPIRES"), Right("SIZE")}, rows)
	return nil
}

// oneSandbox is the argument of most commands.
type oneSandbox struct {
	ID string `arg:"" name:"id" help:"The sandbox."`
}

// showSandbox runs a call that answers with a sandbox and shows it.
func (o oneSandbox) showSandbox(ctx context.Context, env *Env, call func(*supervisor.Client) (supervisor.Sandbox, error)) error {
	client, err := connect(ctx, env)
	if err != nil {
		return err
	}
	defer client.Close()
	sb, err := call(client)
	if err != nil {
		return err
	}
	if env.JSON {
		return env.PrintJSON(sb)
	}
	idle := "none"
	if sb.IdleLimit > 0 {
		idle = sb.IdleLimit.String()
	}
	after := "it ends with the supervisor"
	if sb.Persistent {
		after = "persistent: the next supervisor adopts it"
	}
	driver, _, _ := strings.Cut(sb.DriverIdentity, "; cpu ") // hundreds of flags: --json has them
	env.UI.Table([]Column{Left("ID"), Left(sb.ID)}, [][]string{
		{"state", state(env.UI, sb.State)},
		{"template", sb.Template + " " + sb.TemplateDigest},
		{"mode", fmt.Sprintf("%s, up after %v", sb.BootMode, sb.Boot.Round(100*time.Microsecond))},
		{"driver", driver},
		{"shape", fmt.Sprintf("%d vCPUs, %d MiB memory, %d MiB disk, %d processes", sb.Shape.VCPUs, sb.Shape.Memory>>20, sb.Shape.Disk>>20, sb.Shape.Processes)},
		{"created", sb.Created.Format(time.RFC3339) + ", " + age(sb.Created) + " ago"},
		{"deadline", sb.Deadline.Format(time.RFC3339) + ", " + ahead(sb.Deadline)},
		{"idle limit", idle},
		{"afterwards", after},
		{"metadata", pairs(sb.Metadata)},
	})
	return nil
}

type sandboxInfoCmd struct{ oneSandbox }

func (c sandboxInfoCmd) Run(ctx context.Context, env *Env) error {
	return c.showSandbox(ctx, env, func(s *supervisor.Client) (supervisor.Sandbox, error) { return s.Get(ctx, c.ID) })
}

type sandboxPauseCmd struct{ oneSandbox }

func (c sandboxPauseCmd) Run(ctx context.Context, env *Env) error {
	return c.quietly(ctx, env, func(s *supervisor.Client) (supervisor.Sandbox, error) { return s.Pause(ctx, c.ID) })
}

type sandboxResumeCmd struct{ oneSandbox }

func (c sandboxResumeCmd) Run(ctx context.Context, env *Env) error {
	return c.quietly(ctx, env, func(s *supervisor.Client) (supervisor.Sandbox, error) { return s.Resume(ctx, c.ID) })
}

type sandboxExtendCmd struct {
	oneSandbox
	TTL time.Duration `arg:"" name:"ttl" help:"From now to the new deadline, for example 2h."`
}

func (c sandboxExtendCmd) Run(ctx context.Context, env *Env) error {
	if c.TTL <= 0 {
		return fault.Errorf(fault.Invalid, "a deadline in %v is not ahead", c.TTL).WithHint("to end the sandbox: assay sandbox rm %s", c.ID)
	}
	return c.quietly(ctx, env, func(s *supervisor.Client) (supervisor.Sandbox, error) {
		return s.Extend(ctx, c.ID, c.TTL)
	})
}

// quietly shows the sandbox only where a program asks for it.
func (o oneSandbox) quietly(ctx context.Context, env *Env, call func(*supervisor.Client) (supervisor.Sandbox, error)) error {
	if env.JSON {
		return o.showSandbox(ctx, env, call)
	}
	client, err := connect(ctx, env)
	if err != nil {
		return err
	}
	defer client.Close()
	_, err = call(client)
	return err
}

type sandboxEventsCmd struct{ oneSandbox }

func (c sandboxEventsCmd) Run(ctx context.Context, env *Env) error {
	client, err := connect(ctx, env)
	if err != nil {
		return err
	}
	defer client.Close()
	events, err := client.Events(ctx, c.ID)
	if err != nil {
		return err
	}
	if env.JSON {
		return env.PrintJSON(events)
	}
	rows := make([][]string, 0, len(events))
	for _, e := range events {
		rows = append(rows, []string{fmt.Sprint(e.Number), e.Time.Local().Format("2006-01-02 15:04:05.000"), e.Kind, detail(e)})
	}
	env.UI.Table([]Column{Right("N"), Left("TIME"), Left("KIND"), Left("DETAIL")}, rows)
	return nil
}

// detail is an event's detail in one line: the command first, all else as JSON
// that --json shows whole.
func detail(e sandbox.Event) string {
	if argv, ok := e.Detail["argv"].([]any); ok {
		words := make([]string, len(argv))
		for i, a := range argv {
			words[i] = fmt.Sprint(a)
		}
		exit, _ := e.Detail["exit"].(map[string]any)
		return fmt.Sprintf("%q: %v %v", strings.Join(words, " "), exit["cause"], exit["code"])
	}
	b, err := json.Marshal(e.Detail)
	if err != nil || len(e.Detail) == 0 {
		return ""
	}
	return string(b)
}

type sandboxRmCmd struct {
	IDs      []string `arg:"" optional:"" name:"id" help:"Sandboxes, or snapshots with --snapshot."`
	Snapshot bool     `name:"snapshot" help:"Remove snapshots."`
	All      bool     `name:"all" help:"Remove all there are."`
}

func (c sandboxRmCmd) Run(ctx context.Context, env *Env) error {
	if c.All == (len(c.IDs) > 0) {
		return fault.Errorf(fault.Invalid, "give IDs or --all, and not both").WithHint("list them: assay sandbox ls")
	}
	client, err := connect(ctx, env)
	if err != nil {
		return err
	}
	defer client.Close()
	if c.All {
		if c.IDs, err = c.all(ctx, client); err != nil {
			return err
		}
	}
	removed := []supervisor.Removed{}
	for i, id := range c.IDs {
		r := supervisor.Removed{ID: id}
		if c.Snapshot {
			err = client.RemoveSnapshot(ctx, id)
		} else {
			r, err = client.Remove(ctx, id)
		}
		if err != nil {
			if left := c.IDs[i+1:]; len(left) > 0 {
				env.UI.Warnf("not looked at after the error: %s", strings.Join(left, " "))
			}
			return err
		}
		if r.Ended != "" {
			env.UI.Notef("sandbox %s had ended before: %s", r.ID, r.Ended)
		}
		removed = append(removed, r)
		if !env.JSON {
			env.UI.Printf("%s\n", r.ID)
		}
	}
	if env.JSON {
		return env.PrintJSON(removed)
	}
	return nil
}

func (c sandboxRmCmd) all(ctx context.Context, client *supervisor.Client) ([]string, error) {
	ids := []string{}
	if c.Snapshot {
		list, err := client.Snapshots(ctx)
		for _, s := range list {
			ids = append(ids, s.ID)
		}
		return ids, err
	}
	list, err := client.List(ctx)
	for _, s := range list {
		ids = append(ids, s.ID)
	}
	return ids, err
}

type sandboxSnapshotCmd struct {
	oneSandbox
	Keep positiveDuration `name:"keep" placeholder:"24h" help:"Remove the snapshot after so long (default: keep it)."`
}

func (c sandboxSnapshotCmd) Run(ctx context.Context, env *Env) error {
	client, err := connect(ctx, env)
	if err != nil {
		return err
	}
	defer client.Close()
	snap, err := client.Snapshot(ctx, c.ID, time.Duration(c.Keep))
	if err != nil {
		return err
	}
	if env.JSON {
		return env.PrintJSON(snap)
	}
	env.UI.Printf("%s\n", snap.ID)
	return nil
}

type sandboxForkCmd struct {
	oneSandbox
	termFlags
	N positiveCount `name:"n" short:"n" default:"1" help:"How many children."`
}

func (c sandboxForkCmd) Run(ctx context.Context, env *Env) error {
	client, err := connect(ctx, env)
	if err != nil {
		return err
	}
	defer client.Close()
	children, err := client.Fork(ctx, c.ID, supervisor.ForkRequest{N: int(c.N), Terms: c.terms()})
	if err != nil {
		return err
	}
	failed := 0
	for i, child := range children {
		switch {
		case child.Error != nil:
			failed++
			if !env.JSON {
				env.UI.complain("error", fmt.Sprintf("child %d: %s", i+1, child.Error.Text))
			}
		case !env.JSON:
			env.UI.Printf("%s\n", child.Sandbox.ID)
		}
	}
	if env.JSON {
		err = env.PrintJSON(children)
	}
	if err == nil && failed > 0 {
		err = errNegative
	}
	return err
}
