package httpapi

import (
	"net/http"
	"slices"
	"time"

	"assay/internal/account"
	"assay/internal/httpapi/pages"
)

// scopeWords say what each scope is on the account's page.
var scopeWords = map[account.Scope]string{
	account.ScopeSandboxes: "– make and use sandboxes",
	account.ScopeJudge:     "– problems and submissions",
	account.ScopeClass:     "– courses and grades",
	account.ScopeRooms:     "– interviews",
	account.ScopeAccounts:  "– your account, and what you may do to others'",
}

// tokensShown is how many tokens the page has at most.
const tokensShown = 200

// accountPage gathers the actor's account.
func (s *server) accountPage(r *http.Request) (pages.Page, pages.Account, error) {
	ctx := r.Context()
	p := pages.Page{Title: "Your account"}
	u, err := s.People.User(ctx, account.ActorOf(ctx).User)
	if err != nil {
		return p, pages.Account{}, err
	}
	b := pages.Account{
		Login: u.Login, Name: u.Name, Email: u.Email, Role: string(u.Role), ID: u.ID, HasPassword: u.Password != "", MinPassword: account.MinPassword,
		Form: pages.TokenForm{Days: "90"},
	}
	for _, scope := range account.Scopes() {
		b.Scopes = append(b.Scopes, pages.Scope{Name: string(scope), Words: scopeWords[scope]})
	}
	tokens, err := s.People.Tokens(ctx, "", "", tokensShown)
	if err != nil {
		return p, b, err
	}
	at := time.Now()
	for _, t := range tokens {
		state := ""
		switch {
		case !t.Revoked.IsZero():
			state = "revoked"
		case !t.Works(at):
			state = "expired"
		}
		line := pages.Token{ID: t.ID, Name: t.Name, Prefix: t.Prefix, Created: t.Created, Expires: t.Expires, Used: t.Used, State: state, Works: state == ""}
		for _, scope := range t.Scopes {
			line.Scopes = append(line.Scopes, string(scope))
		}
		b.Tokens = append(b.Tokens, line)
	}
	// Those that work first, the newest first.
	slices.SortStableFunc(b.Tokens, func(x, y pages.Token) int {
		if x.Works != y.Works {
			if x.Works {
				return -1
			}
			return 1
		}
		return y.Created.Compare(x.Created)
	})
	sessions, err := s.People.Sessions(ctx)
	if err != nil {
		return p, b, err
	}
	secret := visitOf(ctx).secret
	for _, ses := range sessions {
		b.Sessions = append(b.Sessions, pages.Session{From: ses.From, Agent: ses.Agent, Seen: ses.Seen, This: ses.Is(secret)})
	}
	return p, b, nil
}

func (s *server) showAccount(w http.ResponseWriter, r *http.Request) error {
	if !signedIn(w, r) {
		return nil
	}
	p, b, err := s.accountPage(r)
	if err != nil {
		return err
	}
	p.Body = b
	p.Notice = notices[r.URL.Query().Get("done")]
	s.show(w, r, http.StatusOK, "account", p)
	return nil
}

// notices are what "done" in the query may say.
var notices = map[string]string{
	"revoked":  "The token was revoked. It stopped at once.",
	"sessions": "You are signed out everywhere else.",
	"password": "The password was changed, and you are signed out everywhere else.",
}

// accountDone does something and shows the account's page with what came of it.
func (s *server) accountDone(w http.ResponseWriter, r *http.Request, done string, do func() error) error {
	if !signedIn(w, r) {
		return nil
	}
	failed := do()
	if failed == nil {
		goTo(w, r, accountPage+"?done="+done)
		return nil
	}
	p, b, err := s.accountPage(r)
	if err != nil {
		return err
	}
	p.Body = b
	s.complain(w, r, "account", p, failed)
	return nil
}

func (s *server) makeToken(w http.ResponseWriter, r *http.Request) error {
	if !signedIn(w, r) {
		return nil
	}
	f := r.PostForm
	n := account.NewToken{Name: f.Get("name"), Panda: f.Get("format") == "pandastack"}
	for _, scope := range f["scope"] {
		n.Scopes = append(n.Scopes, account.Scope(scope))
	}
	var t account.Token
	var secret string
	var failed error
	if n.Life, failed = daysOf(f.Get("days")); failed == nil {
		t, secret, failed = s.People.CreateToken(r.Context(), n)
	}
	p, b, err := s.accountPage(r)
	if err != nil {
		return err
	}
	if failed != nil {
		b.Form = pages.TokenForm{Name: f.Get("name"), Days: f.Get("days"), Format: f.Get("format")}
		for i := range b.Scopes {
			b.Scopes[i].Checked = slices.Contains(f["scope"], b.Scopes[i].Name)
		}
		p.Body = b
		s.complain(w, r, "account", p, failed)
		return nil
	}
	b.Secret, b.SecretName = secret, t.Name
	p.Body = b
	s.show(w, r, http.StatusCreated, "account", p)
	return nil
}

func (s *server) revokeToken(w http.ResponseWriter, r *http.Request) error {
	return s.accountDone(w, r, "revoked", func() error { return s.People.RevokeToken(r.Context(), r.PostForm.Get("token")) })
}

func (s *server) endSessions(w http.ResponseWriter, r *http.Request) error {
	return s.accountDone(w, r, "sessions", func() error {
		return s.People.EndSessions(r.Context(), account.ActorOf(r.Context()).User, visitOf(r.Context()).secret)
	})
}

func (s *server) changePassword(w http.ResponseWriter, r *http.Request) error {
	f := r.PostForm
	return s.accountDone(w, r, "password", func() error {
		if err := twice(f.Get("new"), f.Get("again")); err != nil {
			return err
		}
		return s.People.ChangePassword(r.Context(), f.Get("old"), f.Get("new"), visitOf(r.Context()).secret)
	})
}
