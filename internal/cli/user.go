package cli

import (
	"context"
	"time"

	"assay/client"
)

type userCmd struct {
	List    userListCmd    `cmd:"" help:"List the users of a server."`
	Create  userCreateCmd  `cmd:"" help:"Make a user and a one-time link with which they choose a password."`
	Link    userLinkCmd    `cmd:"" help:"Make a one-time link with which a user chooses a new password."`
	Role    userRoleCmd    `cmd:"" help:"Make a user admin, staff or member."`
	Disable userDisableCmd `cmd:"" help:"Close accounts: sessions end and tokens stop at once."`
	Enable  userEnableCmd  `cmd:"" help:"Open accounts again."`
}

type userListCmd struct{ serverFlags }

func (c userListCmd) Run(ctx context.Context, env *Env) error {
	api, err := c.connect(env)
	if err != nil {
		return err
	}
	users := []client.User{}
	p := client.ListUsersParams{Limit: 200}
	for {
		r, err := api.ListUsersWithResponse(ctx, &p)
		if err := answered(r, err); err != nil {
			return err
		}
		users = append(users, r.JSON200.Items...)
		if p.Cursor = r.JSON200.Next; p.Cursor == "" {
			break
		}
	}
	if env.JSON {
		return env.PrintJSON(users)
	}
	var rows [][]string
	for _, u := range users {
		state := ""
		if u.Disabled {
			state = env.UI.Bad("disabled")
		}
		rows = append(rows, []string{oneLine(u.Login), oneLine(u.Name), oneLine(u.Email), string(u.Role), state})
	}
	env.UI.Table([]Column{Left("login"), Left("name"), Left("email"), Left("role"), Left("")}, rows)
	return nil
}

type userCreateCmd struct {
	serverFlags
	Login  string `arg:"" help:"Login: letters, digits and . _ @ + -"`
	Name   string `name:"name" help:"Name, as others see it."`
	Email  string `name:"email" placeholder:"ADDRESS" help:"E-mail address; who signs on with it at the provider gets this account."`
	Role   string `name:"role" enum:"admin,staff,member" default:"member" help:"admin, staff or member."`
	NoLink bool   `name:"no-link" help:"Make no link: the user signs on with the provider."`
}

// userJSON is the result of "assay user create --json".
type userJSON struct {
	client.User
	Link *client.Link `json:"link,omitempty"`
}

func (c userCreateCmd) Run(ctx context.Context, env *Env) error {
	api, err := c.connect(env)
	if err != nil {
		return err
	}
	r, err := api.CreateUserWithResponse(ctx, client.NewUser{Login: c.Login, Name: c.Name, Email: c.Email, Role: client.Role(c.Role)})
	if err := answered(r, err); err != nil {
		return err
	}
	made := userJSON{User: *r.JSON201}
	if !c.NoLink {
		l, err := api.CreateLinkWithResponse(ctx, made.ID)
		if err := answered(l, err); err != nil {
			return err
		}
		made.Link = l.JSON201
	}
	if env.JSON {
		return env.PrintJSON(made)
	}
	env.UI.Notef("made %s (%s)", oneLine(made.Login), made.Role)
	if made.Link != nil {
		showLink(env, *made.Link)
	}
	return nil
}

// showLink writes a link to stdout, alone.
func showLink(env *Env, l client.Link) {
	env.UI.Printf("%s\n", oneLine(l.URL))
	env.UI.Notef("whoever opens this link is that user; it works once, until %s", l.ExpiresAt.Local().Format(time.DateTime))
}

type userLinkCmd struct {
	serverFlags
	User string `arg:"" help:"Login or ID."`
}

func (c userLinkCmd) Run(ctx context.Context, env *Env) error {
	api, err := c.connect(env)
	if err != nil {
		return err
	}
	r, err := api.CreateLinkWithResponse(ctx, c.User)
	if err := answered(r, err); err != nil {
		return err
	}
	if env.JSON {
		return env.PrintJSON(r.JSON201)
	}
	showLink(env, *r.JSON201)
	return nil
}

// changeUsers makes the same change to several users and shows what they are.
func (f serverFlags) changeUsers(ctx context.Context, env *Env, users []string, change client.UserChange, done string) error {
	api, err := f.connect(env)
	if err != nil {
		return err
	}
	changed := []client.User{}
	for _, user := range users {
		r, err := api.ChangeUserWithResponse(ctx, user, change)
		if err := answered(r, err); err != nil {
			return err
		}
		changed = append(changed, *r.JSON200)
		env.UI.Notef("%s %s", oneLine(r.JSON200.Login), done)
	}
	if env.JSON {
		return env.PrintJSON(changed)
	}
	return nil
}

type userRoleCmd struct {
	serverFlags
	User string `arg:"" help:"Login or ID."`
	Role string `arg:"" enum:"admin,staff,member" help:"admin, staff or member."`
}

func (c userRoleCmd) Run(ctx context.Context, env *Env) error {
	role := client.UserChangeRole(c.Role)
	return c.changeUsers(ctx, env, []string{c.User}, client.UserChange{Role: &role}, "is "+c.Role+" now")
}

type userDisableCmd struct {
	serverFlags
	Users []string `arg:"" name:"user" help:"Logins or IDs."`
}

func (c userDisableCmd) Run(ctx context.Context, env *Env) error {
	yes := true
	return c.changeUsers(ctx, env, c.Users, client.UserChange{Disabled: &yes}, "is disabled")
}

type userEnableCmd struct {
	serverFlags
	Users []string `arg:"" name:"user" help:"Logins or IDs."`
}

func (c userEnableCmd) Run(ctx context.Context, env *Env) error {
	no := false
	return c.changeUsers(ctx, env, c.Users, client.UserChange{Disabled: &no}, "is enabled")
}
