package httpapi

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"assay/internal/account"
	"assay/internal/fault"
	"assay/internal/httpapi/pages"
)

// maxForm bounds a form of the pages, in bytes: a source of the largest problems
// fits.
const maxForm = 1 << 20

// homePage is where the browser goes when nobody said.
const homePage = "/"

// accountPage is where the forms of the account lead back to.
const accountPage = "/account"

// mountPages adds the pages that need no script. Forms post to their own
// handlers; requests from other sites were refused before.
func (s *server) mountPages(mux *http.ServeMux) {
	for _, asset := range []struct {
		name, kind string
		data       []byte
	}{{"pages.css", "text/css; charset=utf-8", pages.CSS}, {"icon.svg", "image/svg+xml", pages.Icon}} {
		mux.HandleFunc("GET /assets/"+asset.name, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", asset.kind)
			w.Header().Set("Cache-Control", "max-age=3600")
			// A reader that went away is no failure.
			_, _ = w.Write(asset.data)
		})
	}
	for pattern, serve := range s.pages() {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Cache-Control", "no-store")
			if r.Method == http.MethodPost {
				r.Body = http.MaxBytesReader(w, r.Body, maxForm)
				if err := r.ParseForm(); err != nil {
					s.complain(w, r, "message", pages.Page{Title: "That did not work"}, fault.Errorf(fault.Invalid, "the form cannot be read"))
					return
				}
			}
			if err := serve(w, r); err != nil {
				s.complain(w, r, "message", pages.Page{Title: "That did not work"}, err)
			}
		})
	}
}

// pages are all, by pattern. An error of one is shown on a page.
func (s *server) pages() map[string]func(w http.ResponseWriter, r *http.Request) error {
	all := s.judgePages()
	for pattern, serve := range map[string]func(w http.ResponseWriter, r *http.Request) error{
		"GET /sign-in":                s.showSignIn,
		"POST /sign-in":               s.takeSignIn,
		"GET /sign-in/oidc":           s.startSignOn,
		"GET " + SignOnPath:           s.finishSignOn,
		"POST /sign-out":              s.takeSignOut,
		"GET /setup":                  s.showSetup,
		"POST /setup":                 s.takeSetup,
		"GET /device":                 s.showDevice,
		"POST /device":                s.takeDevice,
		"GET /account":                s.showAccount,
		"POST /account/tokens":        s.makeToken,
		"POST /account/tokens/revoke": s.revokeToken,
		"POST /account/sessions":      s.endSessions,
		"POST /account/password":      s.changePassword,
	} {
		all[pattern] = serve
	}
	return all
}

// show writes a page.
func (s *server) show(w http.ResponseWriter, r *http.Request, status int, name string, p pages.Page) {
	p.Login = account.ActorOf(r.Context()).Name
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	if err := pages.Write(w, name, p); err != nil {
		s.Log.ErrorContext(r.Context(), "write page", "error", err)
	}
}

// complain shows a page with what was wrong, with the same statuses as the API.
func (s *server) complain(w http.ResponseWriter, r *http.Request, name string, p pages.Page, err error) {
	kind := fault.KindOf(err)
	status := statuses[kind]
	p.Error, p.Hint = sentence(err.Error()), sentence(fault.HintOf(err))
	if status >= 500 {
		s.Log.ErrorContext(r.Context(), "page failed", "error", err, "kind", kind.String(), "path", r.URL.Path)
	}
	if kind == fault.Internal {
		p.Error, p.Hint = "Something is wrong with the server.", "Try again; its log has the details under "+RequestID(r.Context())+"."
	}
	if wait := waitOf(err, status); wait > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(wait))
	}
	s.show(w, r, status, name, p)
}

// sentence makes one of an error's text.
func sentence(text string) string {
	if text == "" {
		return ""
	}
	first, size := utf8.DecodeRuneInString(text)
	text = string(unicode.ToUpper(first)) + text[size:]
	if strings.HasSuffix(text, ".") || strings.HasSuffix(text, "?") {
		return text
	}
	return text + "."
}

// localPath keeps "next" within this server: "/path?query" and nothing that a
// browser could take for another host.
func localPath(next string) string {
	u, err := url.Parse(next)
	if err != nil || u.Scheme != "" || u.Host != "" || u.User != nil || u.Opaque != "" || !strings.HasPrefix(next, "/") || strings.HasPrefix(next, "//") ||
		strings.ContainsFunc(next, func(r rune) bool { return r < 0x21 || r == '\\' || r == 0x7f }) || strings.HasPrefix(u.Path, "//") || strings.Contains(u.Path, "\\") || len(next) > 2000 {
		return homePage
	}
	return next
}

func goTo(w http.ResponseWriter, r *http.Request, path string) {
	http.Redirect(w, r, path, http.StatusSeeOther)
}

// signedIn reports whether a person is there with a session; otherwise the
// browser is sent to sign in first.
func signedIn(w http.ResponseWriter, r *http.Request) bool {
	a := account.ActorOf(r.Context())
	if a.User != "" && a.Token == "" {
		return true
	}
	next := homePage
	if r.Method == http.MethodGet {
		next = r.URL.RequestURI()
	}
	goTo(w, r, "/sign-in?next="+url.QueryEscape(localPath(next)))
	return false
}

// welcome sets the session's cookie in place of the one that was there.
func (s *server) welcome(w http.ResponseWriter, r *http.Request, in account.SignedIn, next string) error {
	v := visitOf(r.Context())
	if err := s.People.SignOut(r.Context(), v.secret); err != nil {
		return err
	}
	http.SetCookie(w, v.sessionCookie(in.Secret, in.Session.Expires))
	goTo(w, r, localPath(next))
	return nil
}

func (s *server) signInPage(next, login string) pages.Page {
	return pages.Page{Title: "Sign in", Body: pages.SignIn{Next: localPath(next), Login: login, SignOn: s.People.SignOnName()}}
}

func (s *server) showSignIn(w http.ResponseWriter, r *http.Request) error {
	next := localPath(r.URL.Query().Get("next"))
	if a := account.ActorOf(r.Context()); a.User != "" && a.Token == "" {
		goTo(w, r, next)
		return nil
	}
	s.show(w, r, http.StatusOK, "signin", s.signInPage(next, ""))
	return nil
}

func (s *server) takeSignIn(w http.ResponseWriter, r *http.Request) error {
	login := r.PostForm.Get("login")
	_, cookie, err := signIn(r.Context(), s.People, login, r.PostForm.Get("password"))
	if err != nil {
		s.complain(w, r, "signin", s.signInPage(r.PostForm.Get("next"), login), err)
		return nil
	}
	w.Header().Add("Set-Cookie", cookie)
	goTo(w, r, localPath(r.PostForm.Get("next")))
	return nil
}

func (s *server) takeSignOut(w http.ResponseWriter, r *http.Request) error {
	v := visitOf(r.Context())
	if err := s.People.SignOut(r.Context(), v.secret); err != nil {
		return err
	}
	http.SetCookie(w, v.noCookie())
	goTo(w, r, "/sign-in")
	return nil
}

// SignOnPath is where an OIDC provider sends the browser back to.
const SignOnPath = "/sign-in/oidc/callback"

// stateLife is how long the browser keeps the state, in seconds.
const stateLife = 600

// stateCookie binds what comes back from the provider to this browser.
func (v visit) stateCookie(state string) *http.Cookie {
	c := &http.Cookie{Name: v.cookie + "-state", Value: state, Path: "/", MaxAge: stateLife, HttpOnly: true, Secure: v.secure, SameSite: http.SameSiteLaxMode}
	if state == "" {
		c.MaxAge = -1
	}
	return c
}

func (s *server) startSignOn(w http.ResponseWriter, r *http.Request) error {
	v := visitOf(r.Context())
	where, state, err := s.People.StartSignOn(r.Context(), localPath(r.URL.Query().Get("next")), v.from)
	if err != nil {
		return err
	}
	http.SetCookie(w, v.stateCookie(state))
	http.Redirect(w, r, where, http.StatusSeeOther)
	return nil
}

func (s *server) finishSignOn(w http.ResponseWriter, r *http.Request) error {
	v, q := visitOf(r.Context()), r.URL.Query()
	kept := ""
	if c, err := r.Cookie(v.cookie + "-state"); err == nil {
		kept = c.Value
	}
	http.SetCookie(w, v.stateCookie(""))
	if q.Get("error") != "" {
		return fault.Errorf(fault.Denied, "the sign-in service says no: %.80s", strings.ToValidUTF8(q.Get("error"), "")).WithHint("begin again from the sign-in page")
	}
	in, next, err := s.People.FinishSignOn(r.Context(), q.Get("state"), kept, q.Get("code"), v.from)
	if err != nil {
		return err
	}
	return s.welcome(w, r, in, next)
}

func setupPage(code string, u account.User, login, name string) pages.Page {
	p := pages.Page{Title: "Set up this server", Body: pages.Setup{Code: code, User: u.Login, Login: login, Name: name, MinPassword: account.MinPassword}}
	if u.Login != "" {
		p.Title = "Choose a password"
	}
	return p
}

func (s *server) showSetup(w http.ResponseWriter, r *http.Request) error {
	code := r.URL.Query().Get("code")
	_, u, err := s.People.OpenLink(r.Context(), code, visitOf(r.Context()).from)
	if err != nil {
		s.complain(w, r, "setup", pages.Page{Title: "One-time link", Body: pages.Setup{}}, err)
		return nil
	}
	s.show(w, r, http.StatusOK, "setup", setupPage(code, u, "", ""))
	return nil
}

func (s *server) takeSetup(w http.ResponseWriter, r *http.Request) error {
	f, from := r.PostForm, visitOf(r.Context()).from
	code := f.Get("code")
	_, u, err := s.People.OpenLink(r.Context(), code, from)
	if err != nil {
		s.complain(w, r, "setup", pages.Page{Title: "One-time link", Body: pages.Setup{}}, err)
		return nil
	}
	var in account.SignedIn
	err = twice(f.Get("password"), f.Get("again"))
	if err == nil {
		in, err = s.People.UseLink(r.Context(), code, account.NewUser{Login: f.Get("login"), Name: f.Get("name")}, f.Get("password"), from)
	}
	if err != nil {
		s.complain(w, r, "setup", setupPage(code, u, f.Get("login"), f.Get("name")), err)
		return nil
	}
	return s.welcome(w, r, in, homePage)
}

func twice(password, again string) error {
	if password == again {
		return nil
	}
	return fault.Errorf(fault.Invalid, "the two passwords are not the same").WithHint("type both again")
}

func (s *server) showDevice(w http.ResponseWriter, r *http.Request) error {
	if !signedIn(w, r) {
		return nil
	}
	code := r.URL.Query().Get("user_code")
	p := pages.Page{Title: "Approve a sign-in", Body: pages.Device{Code: code}}
	if code == "" {
		s.show(w, r, http.StatusOK, "device", p)
		return nil
	}
	d, err := s.People.WaitingDevice(r.Context(), code)
	if err != nil {
		s.complain(w, r, "device", p, err)
		return nil
	}
	p.Body = pages.Device{Code: account.ShowUserCode(code), Known: true, Client: d.Client, From: d.From, At: d.Created, Scopes: strings.Fields(scopeText(d.Scopes))}
	s.show(w, r, http.StatusOK, "device", p)
	return nil
}

func (s *server) takeDevice(w http.ResponseWriter, r *http.Request) error {
	if !signedIn(w, r) {
		return nil
	}
	code, answer := r.PostForm.Get("user_code"), r.PostForm.Get("answer")
	if answer != "approve" && answer != "deny" {
		return fault.Errorf(fault.Invalid, "neither approved nor refused")
	}
	if _, err := s.People.DecideDevice(r.Context(), code, answer == "approve"); err != nil {
		s.complain(w, r, "device", pages.Page{Title: "Approve a sign-in", Body: pages.Device{Code: code}}, err)
		return nil
	}
	p := pages.Page{Title: "Signed in", Body: pages.Device{Answer: "approved"}}
	if answer == "deny" {
		p = pages.Page{Title: "Refused", Body: pages.Device{Answer: "denied"}}
	}
	s.show(w, r, http.StatusOK, "device", p)
	return nil
}

// daysOf reads how long a token is to work.
func daysOf(text string) (time.Duration, error) {
	if text == "never" {
		return -1, nil
	}
	days, err := strconv.Atoi(text)
	if err != nil || days < 1 || days > 3650 {
		return 0, fault.Errorf(fault.Invalid, "how long the token works is no number of days")
	}
	return time.Duration(days) * 24 * time.Hour, nil
}
