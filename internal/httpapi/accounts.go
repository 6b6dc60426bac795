package httpapi

import (
	"context"
	"net/url"
	"strings"
	"time"

	"assay/api"
	"assay/internal/account"
	"assay/internal/fault"
)

type accountHandlers struct {
	people *account.Service
	// public is how users reach this server, without a slash at the end.
	public string
}

func (h accountHandlers) SignIn(ctx context.Context, r api.SignInRequestObject) (api.SignInResponseObject, error) {
	in, cookie, err := signIn(ctx, h.people, r.Body.Login, r.Body.Password)
	if err != nil {
		return nil, err
	}
	return api.SignIn200JSONResponse{Body: api.Session{User: userOf(in.User, true)}, Headers: api.SignIn200ResponseHeaders{SetCookie: cookie}}, nil
}

// signIn begins a session in place of the one that the browser has, and gives
// its cookie.
func signIn(ctx context.Context, people *account.Service, login, password string) (account.SignedIn, string, error) {
	v := visitOf(ctx)
	in, err := people.SignIn(ctx, login, password, v.from)
	if err != nil {
		return in, "", err
	}
	if err := people.SignOut(ctx, v.secret); err != nil {
		return in, "", err
	}
	return in, v.sessionCookie(in.Secret, in.Session.Expires).String(), nil
}

func (h accountHandlers) GetSession(ctx context.Context, _ api.GetSessionRequestObject) (api.GetSessionResponseObject, error) {
	a := account.ActorOf(ctx)
	if a.Token != "" || a.User == "" {
		return nil, fault.Errorf(fault.Unauthenticated, "nobody is signed in here").WithHint("sign in, or ask /api/v1/me with a token")
	}
	u, err := h.people.User(ctx, a.User)
	if err != nil {
		return nil, err
	}
	return api.GetSession200JSONResponse{User: userOf(u, true)}, nil
}

func (h accountHandlers) SignOut(ctx context.Context, r api.SignOutRequestObject) (api.SignOutResponseObject, error) {
	v := visitOf(ctx)
	if a := account.ActorOf(ctx); r.Params.Everywhere {
		if err := h.people.EndSessions(ctx, a.User, ""); err != nil {
			return nil, err
		}
	}
	if err := h.people.SignOut(ctx, v.secret); err != nil {
		return nil, err
	}
	return api.SignOut204Response{Headers: api.SignOut204ResponseHeaders{SetCookie: v.noCookie().String()}}, nil
}

func (h accountHandlers) GetMe(ctx context.Context, _ api.GetMeRequestObject) (api.GetMeResponseObject, error) {
	a := account.ActorOf(ctx)
	if a.User == "" {
		return nil, account.May(a, account.Read, account.Thing{Kind: account.UserThing})
	}
	u, err := h.people.User(ctx, a.User)
	if err != nil {
		return nil, err
	}
	scopes := a.Scopes
	if scopes == nil {
		scopes = account.Scopes()
	}
	return api.GetMe200JSONResponse{User: userOf(u, true), Token: a.Token, Scopes: scopesOf(scopes)}, nil
}

func (h accountHandlers) ChangePassword(ctx context.Context, r api.ChangePasswordRequestObject) (api.ChangePasswordResponseObject, error) {
	if err := h.people.ChangePassword(ctx, r.Body.Old, r.Body.New, visitOf(ctx).secret); err != nil {
		return nil, err
	}
	return api.ChangePassword204Response{}, nil
}

func (h accountHandlers) ListUsers(ctx context.Context, r api.ListUsersRequestObject) (api.ListUsersResponseObject, error) {
	after, n, err := pageOf(r.Params.Cursor, r.Params.Limit)
	if err != nil {
		return nil, err
	}
	users, err := h.people.Users(ctx, after, n)
	if err != nil {
		return nil, err
	}
	page := api.UserPage{Items: []api.User{}}
	for _, u := range users {
		page.Items = append(page.Items, userOf(u, mayChange(ctx, u)))
	}
	if len(users) == n {
		page.Next = cursorOf(users[n-1].Login)
	}
	return api.ListUsers200JSONResponse(page), nil
}

// mayChange reports whether the actor may see how somebody signs in.
func mayChange(ctx context.Context, u account.User) bool {
	return account.May(account.ActorOf(ctx), account.Change, account.Thing{Kind: account.UserThing, ID: u.ID, Owner: u.ID}) == nil
}

func (h accountHandlers) CreateUser(ctx context.Context, r api.CreateUserRequestObject) (api.CreateUserResponseObject, error) {
	role := account.Role(r.Body.Role)
	if role == "" {
		role = account.Member
	}
	u, err := h.people.CreateUser(ctx, account.NewUser{Login: r.Body.Login, Name: r.Body.Name, Email: r.Body.Email, Role: role})
	if err != nil {
		return nil, err
	}
	return api.CreateUser201JSONResponse(userOf(u, true)), nil
}

func (h accountHandlers) GetUser(ctx context.Context, r api.GetUserRequestObject) (api.GetUserResponseObject, error) {
	u, err := h.people.User(ctx, r.User)
	if err != nil {
		return nil, err
	}
	return api.GetUser200JSONResponse(userOf(u, mayChange(ctx, u))), nil
}

func (h accountHandlers) ChangeUser(ctx context.Context, r api.ChangeUserRequestObject) (api.ChangeUserResponseObject, error) {
	p := account.UserPatch{Name: r.Body.Name, Email: r.Body.Email, Disabled: r.Body.Disabled}
	if r.Body.Role != nil {
		role := account.Role(*r.Body.Role)
		p.Role = &role
	}
	u, err := h.people.ChangeUser(ctx, r.User, p)
	if err != nil {
		return nil, err
	}
	return api.ChangeUser200JSONResponse(userOf(u, true)), nil
}

func (h accountHandlers) CreateLink(ctx context.Context, r api.CreateLinkRequestObject) (api.CreateLinkResponseObject, error) {
	code, link, err := h.people.CreateLink(ctx, r.User)
	if err != nil {
		return nil, err
	}
	return api.CreateLink201JSONResponse{URL: h.public + SetupPath(code), ExpiresAt: link.Expires}, nil
}

// SetupPath is the path of the page where a one-time link's code is used.
func SetupPath(code string) string { return "/setup?code=" + url.QueryEscape(code) }

func (h accountHandlers) EndSessions(ctx context.Context, r api.EndSessionsRequestObject) (api.EndSessionsResponseObject, error) {
	if err := h.people.EndSessions(ctx, r.User, ""); err != nil {
		return nil, err
	}
	return api.EndSessions204Response{}, nil
}

func (h accountHandlers) ListTokens(ctx context.Context, r api.ListTokensRequestObject) (api.ListTokensResponseObject, error) {
	after, n, err := pageOf(r.Params.Cursor, r.Params.Limit)
	if err != nil {
		return nil, err
	}
	tokens, err := h.people.Tokens(ctx, r.Params.User, after, n)
	if err != nil {
		return nil, err
	}
	page := api.TokenPage{Items: []api.Token{}}
	for _, t := range tokens {
		page.Items = append(page.Items, tokenOf(t))
	}
	if len(tokens) == n {
		page.Next = cursorOf(tokens[n-1].ID)
	}
	return api.ListTokens200JSONResponse(page), nil
}

func (h accountHandlers) CreateToken(ctx context.Context, r api.CreateTokenRequestObject) (api.CreateTokenResponseObject, error) {
	n := account.NewToken{
		Name: r.Body.Name, Life: time.Duration(r.Body.ExpiresInSeconds) * time.Second, Panda: r.Body.Format == api.Pandastack,
		Quotas: account.Quotas{
			SandboxesAtOnce: r.Body.Quotas.SandboxesAtOnce, CPUSecondsPerDay: r.Body.Quotas.CPUSecondsPerDay,
			DiskBytes: r.Body.Quotas.DiskBytes, Snapshots: r.Body.Quotas.Snapshots,
		},
	}
	if r.Body.NeverExpires {
		if n.Life != 0 {
			return nil, fault.Errorf(fault.Invalid, "the token is to expire and never to expire").WithHint("give one of expires_in_seconds and never_expires")
		}
		n.Life = -1
	}
	for _, s := range r.Body.Scopes {
		n.Scopes = append(n.Scopes, account.Scope(s))
	}
	t, secret, err := h.people.CreateToken(ctx, n)
	if err != nil {
		return nil, err
	}
	return api.CreateToken201JSONResponse{Token: tokenOf(t), Secret: secret}, nil
}

func (h accountHandlers) RevokeToken(ctx context.Context, r api.RevokeTokenRequestObject) (api.RevokeTokenResponseObject, error) {
	if err := h.people.RevokeToken(ctx, r.Token); err != nil {
		return nil, err
	}
	return api.RevokeToken204Response{}, nil
}

func (h accountHandlers) ListAudit(ctx context.Context, r api.ListAuditRequestObject) (api.ListAuditResponseObject, error) {
	before, n, err := pageOf(r.Params.Cursor, r.Params.Limit)
	if err != nil {
		return nil, err
	}
	p := r.Params
	entries, err := h.people.AuditLog(ctx, account.AuditQuery{
		Who: p.Who, Token: p.Token, Thing: p.Thing, Target: p.Target, Action: p.Action, Since: p.Since, Until: p.Until, Before: before, Limit: n,
	})
	if err != nil {
		return nil, err
	}
	page := api.AuditPage{Items: []api.AuditEntry{}}
	for _, e := range entries {
		page.Items = append(page.Items, api.AuditEntry{
			ID: e.ID, At: e.At, Who: e.Who, Name: e.Name, Token: e.Token, Action: e.Action, Thing: string(e.Thing), Target: e.Target,
			Detail: e.Detail, Outcome: e.Outcome, From: e.From, RequestID: e.Request,
		})
	}
	if len(entries) == n {
		page.Next = cursorOf(entries[n-1].ID)
	}
	return api.ListAudit200JSONResponse(page), nil
}

// userOf shows a user; how they sign in only where it is the reader's business.
func userOf(u account.User, whole bool) api.User {
	v := api.User{ID: u.ID, Login: u.Login, Name: u.Name, Email: u.Email, Role: api.Role(u.Role), Disabled: !u.Disabled.IsZero(), CreatedAt: u.Created}
	if whole {
		v.HasPassword, v.SignsOn = u.Password != "", u.Subject != ""
	}
	return v
}

func tokenOf(t account.Token) api.Token {
	return api.Token{
		ID: t.ID, User: t.User, Name: t.Name, Prefix: t.Prefix, Scopes: scopesOf(t.Scopes), CreatedAt: t.Created, ExpiresAt: t.Expires,
		UsedAt: t.Used, RevokedAt: t.Revoked, Works: t.Works(time.Now()),
		Quotas: api.Quotas{
			SandboxesAtOnce: t.Quotas.SandboxesAtOnce, CPUSecondsPerDay: t.Quotas.CPUSecondsPerDay, DiskBytes: t.Quotas.DiskBytes, Snapshots: t.Quotas.Snapshots,
		},
	}
}

func scopesOf(scopes []account.Scope) []api.Scope {
	list := []api.Scope{}
	for _, s := range scopes {
		list = append(list, api.Scope(s))
	}
	return list
}

func scopeText(scopes []account.Scope) string {
	words := make([]string, len(scopes))
	for i, s := range scopes {
		words[i] = string(s)
	}
	return strings.Join(words, " ")
}
