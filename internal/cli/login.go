package cli

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"
	"time"

	"assay/client"
	"assay/internal/fault"
)

type loginCmd struct {
	Server string   `name:"server" env:"ASSAY_SERVER" placeholder:"URL" help:"Server to sign in to (default: the one logged in to, else http://127.0.0.1:8080)."`
	Token  string   `name:"token" placeholder:"-" help:"With \"-\": read a token from standard input, and ask nobody."`
	Scopes []string `name:"scope" placeholder:"SCOPE" help:"What the command line may reach: sandboxes, judge, class, rooms, accounts (default: all)."`
}

func (loginCmd) Help() string {
	return `Shows a link and a code. Open the link in a browser, on this computer or another one, sign in there, and approve the code. The token that comes of it is kept in ~/.config/assay/credentials.json, which only you can read, and is used by all other commands.`
}

// loginJSON is the result of "assay login --json".
type loginJSON struct {
	Server  string         `json:"server"`
	User    client.User    `json:"user"`
	Scopes  []client.Scope `json:"scopes"`
	Expires time.Time      `json:"expires_at,omitzero"`
}

// maxTokenLine bounds what is read for "--token -".
const maxTokenLine = 1024

func (c loginCmd) Run(ctx context.Context, env *Env) error {
	server, _, err := serverFlags{Server: c.Server}.where()
	if err != nil {
		return err
	}
	if u, err := url.Parse(server); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
		return fault.Errorf(fault.Invalid, "%q is no address of a server", server).WithHint("write it as https://assay.example.org")
	}
	var token string
	var expires time.Time
	switch c.Token {
	case "":
		token, expires, err = c.approve(ctx, env, server)
	case "-":
		token, err = readToken(env.Stdin)
	default:
		err = fault.Errorf(fault.Invalid, "a token in the arguments can be read by all users of this computer").WithHint(`run "assay login --token -" and write it to standard input`)
	}
	if err != nil {
		return err
	}
	me, err := whoIs(ctx, server, token)
	if err != nil {
		return err
	}
	keep, err := readCredentials()
	if err != nil {
		return err
	}
	keep.Current, keep.Tokens[server] = server, token
	if err := keep.write(); err != nil {
		return err
	}
	if env.JSON {
		return env.PrintJSON(loginJSON{server, me.User, me.Scopes, expires})
	}
	env.UI.Printf("signed in to %s as %s (%s)\n", server, oneLine(me.User.Login), me.User.Role)
	return nil
}

// approve shows the link and waits for the answer.
func (c loginCmd) approve(ctx context.Context, env *Env, server string) (string, time.Time, error) {
	api, err := client.Connect(server, "")
	if err != nil {
		return "", time.Time{}, fault.Errorf(fault.Invalid, "server %s: %w", server, err)
	}
	name := "assay login"
	if host, err := os.Hostname(); err == nil {
		name += " on " + host
	}
	got, err := api.Login(ctx, name, strings.Join(c.Scopes, " "), func(d client.DeviceCodes) {
		// Not a note: without it nobody can go on, so --quiet does not leave it out.
		env.UI.line("assay: open " + oneLine(d.VerificationURIComplete))
		env.UI.line("assay: and approve the code " + oneLine(d.UserCode))
	})
	if err != nil {
		if _, ok := errors.AsType[*client.Failure](err); !ok && ctx.Err() == nil {
			return "", time.Time{}, unreachable(err)
		}
		return "", time.Time{}, failed(err)
	}
	var expires time.Time
	if got.ExpiresIn > 0 {
		expires = time.Now().Add(time.Duration(got.ExpiresIn) * time.Second).UTC().Truncate(time.Second)
	}
	return got.AccessToken, expires, nil
}

func readToken(r io.Reader) (string, error) {
	line, err := bufio.NewReader(io.LimitReader(r, maxTokenLine)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return "", fmt.Errorf("read the token: %w", err)
	}
	token := strings.TrimSpace(line)
	if token == "" || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", fault.Errorf(fault.Invalid, "no token on standard input").WithHint(`make one with "assay token create", or on the account's page`)
	}
	return token, nil
}

// whoIs asks a server whose a token is.
func whoIs(ctx context.Context, server, token string) (client.Me, error) {
	api, err := client.Connect(server, token)
	if err != nil {
		return client.Me{}, fault.Errorf(fault.Invalid, "server %s: %w", server, err)
	}
	r, err := api.GetMeWithResponse(ctx)
	if err := answered(r, err); err != nil {
		return client.Me{}, err
	}
	return *r.JSON200, nil
}

type logoutCmd struct {
	Server string `name:"server" env:"ASSAY_SERVER" placeholder:"URL" help:"Server to sign out of (default: the one logged in to)."`
}

func (logoutCmd) Help() string {
	return `Revokes the token at the server and forgets it here. If the server cannot be reached it is forgotten here all the same.`
}

func (c logoutCmd) Run(ctx context.Context, env *Env) error {
	keep, err := readCredentials()
	if err != nil {
		return err
	}
	server := serverURL(c.Server)
	if server == "" {
		server = keep.Current
	}
	token := keep.Tokens[server]
	if token == "" {
		return fault.Errorf(fault.NotFound, "not signed in to %s", cmp.Or(server, "any server")).WithHint(`see "assay whoami"`)
	}
	revoked := revokeOwn(ctx, server, token)
	delete(keep.Tokens, server)
	if keep.Current == server {
		keep.Current = ""
	}
	if err := keep.write(); err != nil {
		return err
	}
	if revoked != nil {
		env.UI.Warnf("the token is forgotten here, but was not revoked: %v", revoked)
	}
	if env.JSON {
		return env.PrintJSON(struct {
			Server  string `json:"server"`
			Revoked bool   `json:"revoked"`
		}{server, revoked == nil})
	}
	env.UI.Printf("signed out of %s\n", server)
	return nil
}

// revokeOwn revokes a token by itself; one that does not work is as good as
// revoked.
func revokeOwn(ctx context.Context, server, token string) error {
	me, err := whoIs(ctx, server, token)
	if fault.Is(err, fault.Unauthenticated) {
		return nil
	}
	if err != nil {
		return err
	}
	api, err := client.Connect(server, token)
	if err != nil {
		return err
	}
	r, err := api.RevokeTokenWithResponse(ctx, me.Token)
	return answered(r, err)
}

type whoamiCmd struct{ serverFlags }

// whoamiJSON is the result of "assay whoami --json".
type whoamiJSON struct {
	Server string `json:"server"`
	client.Me
}

func (c whoamiCmd) Run(ctx context.Context, env *Env) error {
	server, token, err := c.where()
	if err != nil {
		return err
	}
	me, err := whoIs(ctx, server, token)
	if err != nil {
		return err
	}
	if env.JSON {
		return env.PrintJSON(whoamiJSON{server, me})
	}
	var scopes []string
	for _, s := range me.Scopes {
		scopes = append(scopes, string(s))
	}
	env.UI.Printf("%s (%s) at %s, token %s, scopes %s\n", oneLine(me.User.Login), me.User.Role, server, oneLine(me.Token), oneLine(strings.Join(scopes, ", ")))
	return nil
}
