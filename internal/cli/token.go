package cli

import (
	"context"
	"strconv"
	"strings"
	"time"

	"assay/client"
	"assay/internal/bytesize"
	"assay/internal/fault"
)

type tokenCmd struct {
	Create tokenCreateCmd `cmd:"" help:"Make a token for a program and print its secret."`
	List   tokenListCmd   `cmd:"" help:"List tokens."`
	Revoke tokenRevokeCmd `cmd:"" help:"Revoke tokens; they stop at once."`
}

type tokenCreateCmd struct {
	serverFlags
	Name       string        `arg:"" help:"What it is for."`
	Scopes     []string      `name:"scope" required:"" placeholder:"SCOPE" help:"What it may reach: sandboxes, judge, class, rooms, accounts."`
	Expires    string        `name:"expires" placeholder:"TIME" help:"How long it works: 12h, 90d, never (default: as the server has it)."`
	Pandastack bool          `name:"pandastack" help:"Begin with pds_, for programs that speak with PandaStack."`
	Sandboxes  int           `name:"sandboxes" placeholder:"N" help:"Sandboxes at once (default: the server's)."`
	CPUPerDay  time.Duration `name:"cpu-per-day" placeholder:"TIME" help:"CPU time of its sandboxes in a day (default: the server's)."`
	Disk       string        `name:"disk" placeholder:"SIZE" help:"Bytes that its snapshots take, like 10G (default: the server's)."`
	Snapshots  int           `name:"snapshots" placeholder:"N" help:"Snapshots (default: the server's)."`
}

func (tokenCreateCmd) Help() string {
	return `Standard output is the secret alone, which is shown once. A token cannot make one that reaches further, may take more or lives longer than itself.`
}

// life reads "12h", "90d" and "never".
func life(text string) (seconds int64, never bool, err error) {
	if text == "" {
		return 0, false, nil
	}
	if text == "never" {
		return 0, true, nil
	}
	d, err := time.ParseDuration(text)
	if days, ok := strings.CutSuffix(text, "d"); ok {
		var n int
		if n, err = strconv.Atoi(days); err == nil && n > 0 && n <= 36500 {
			d = time.Duration(n) * 24 * time.Hour
		}
	}
	if err != nil || d < time.Minute {
		return 0, false, fault.Errorf(fault.Invalid, "--expires: %q is no time of a minute or more", text).WithHint("write 12h, 90d or never")
	}
	return int64(d / time.Second), false, nil
}

func (c tokenCreateCmd) Run(ctx context.Context, env *Env) error {
	n := client.NewToken{Name: c.Name, Quotas: client.Quotas{SandboxesAtOnce: c.Sandboxes, CPUSecondsPerDay: int64(c.CPUPerDay.Seconds()), Snapshots: c.Snapshots}}
	var err error
	if n.ExpiresInSeconds, n.NeverExpires, err = life(c.Expires); err != nil {
		return err
	}
	if c.Disk != "" {
		size, err := bytesize.Parse(c.Disk)
		if err != nil {
			return fault.Errorf(fault.Invalid, "--disk: %w", err).WithHint("write it as 10G")
		}
		n.Quotas.DiskBytes = int64(size)
	}
	if c.Pandastack {
		n.Format = client.Pandastack
	}
	for _, s := range c.Scopes {
		n.Scopes = append(n.Scopes, client.Scope(s))
	}
	api, err := c.connect(env)
	if err != nil {
		return err
	}
	r, err := api.CreateTokenWithResponse(ctx, n)
	if err := answered(r, err); err != nil {
		return err
	}
	if env.JSON {
		return env.PrintJSON(r.JSON201)
	}
	env.UI.Printf("%s\n", oneLine(r.JSON201.Secret))
	env.UI.Notef("token %s, %s; the secret is not shown again", oneLine(r.JSON201.Token.ID), until(r.JSON201.Token.ExpiresAt))
	return nil
}

func until(t time.Time) string {
	if t.IsZero() {
		return "until it is revoked"
	}
	return "until " + t.Local().Format("2006-01-02 15:04")
}

type tokenListCmd struct {
	serverFlags
	User string `name:"user" placeholder:"LOGIN" help:"For admins: those of this user, or \"*\" for all."`
	All  bool   `name:"all" help:"Also those that have expired or were revoked."`
}

func (c tokenListCmd) Run(ctx context.Context, env *Env) error {
	api, err := c.connect(env)
	if err != nil {
		return err
	}
	tokens := []client.Token{}
	p := client.ListTokensParams{User: c.User, Limit: 200}
	for {
		r, err := api.ListTokensWithResponse(ctx, &p)
		if err := answered(r, err); err != nil {
			return err
		}
		for _, t := range r.JSON200.Items {
			if c.All || t.Works {
				tokens = append(tokens, t)
			}
		}
		if p.Cursor = r.JSON200.Next; p.Cursor == "" {
			break
		}
	}
	if env.JSON {
		return env.PrintJSON(tokens)
	}
	if len(tokens) == 0 {
		env.UI.Notef("no tokens")
		return nil
	}
	date := func(t time.Time) string {
		if t.IsZero() {
			return "never"
		}
		return t.Local().Format("2006-01-02")
	}
	var rows [][]string
	for _, t := range tokens {
		var scopes []string
		for _, s := range t.Scopes {
			scopes = append(scopes, string(s))
		}
		state := env.UI.Good("works")
		switch {
		case !t.RevokedAt.IsZero():
			state = env.UI.Bad("revoked")
		case !t.Works:
			state = env.UI.Warn("expired")
		}
		rows = append(rows, []string{oneLine(t.ID), oneLine(t.Name), oneLine(strings.Join(scopes, ",")), date(t.ExpiresAt), date(t.UsedAt), state})
	}
	env.UI.Table([]Column{Left("id"), Left("name"), Left("reaches"), Left("expires"), Left("last used"), Left("state")}, rows)
	return nil
}

type tokenRevokeCmd struct {
	serverFlags
	IDs []string `arg:"" name:"id" help:"IDs of tokens, as \"assay token list\" shows them."`
}

func (c tokenRevokeCmd) Run(ctx context.Context, env *Env) error {
	api, err := c.connect(env)
	if err != nil {
		return err
	}
	for _, id := range c.IDs {
		r, err := api.RevokeTokenWithResponse(ctx, id)
		if err := answered(r, err); err != nil {
			return err
		}
		env.UI.Notef("revoked %s", oneLine(id))
	}
	if env.JSON {
		return env.PrintJSON(map[string][]string{"revoked": c.IDs})
	}
	return nil
}
