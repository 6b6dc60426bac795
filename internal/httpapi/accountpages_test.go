package httpapi

import (
	"context"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"assay/api"
	"assay/internal/account"
	"assay/internal/fault"
)

// TestPagesOfALife goes through the pages as a reader does: become the admin,
// sign in, approve a program, make and revoke a token, change the password.
func TestPagesOfALife(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	page := func(c call, status int, words ...string) string {
		t.Helper()
		w := s.do(c)
		body := w.Body.String()
		if w.Code != status {
			t.Fatalf("%s %s: got %d %s", c.method, c.path, w.Code, body)
		}
		for _, word := range words {
			if !strings.Contains(html.UnescapeString(body), word) {
				t.Errorf("%s %s does not say %q:\n%s", c.method, c.path, word, body)
			}
		}
		checkPage(t, w.Header(), body)
		return body
	}
	page(call{method: "GET", path: "/setup?code=" + s.setup}, 200, "Set up this server", "Become the admin")
	page(call{method: "POST", path: "/setup", body: form("code", s.setup, "login", "root", "password", goodPassword, "again", "other words here")}, 400, "not the same", `value="root"`)
	page(call{method: "POST", path: "/setup", body: form("code", s.setup, "login", "root", "password", "short", "again", "short")}, 400, "shorter than 10")
	root := s.admin()
	page(call{method: "GET", path: "/setup?code=" + s.setup}, 404, "does not work")
	page(call{method: "GET", path: "/sign-in?next=/device"}, 200, `name="next" value="/device"`)
	page(call{method: "POST", path: "/sign-in", body: form("login", "root", "password", "wrong password")}, 401, "Wrong login or password.", `value="root"`)

	d := decode[api.DeviceCodes](t, s.do(call{method: "POST", path: "/api/v1/device", body: form("client_id", `<b>assay login</b> on "laptop"`, "scope", "judge class"), kind: "application/x-www-form-urlencoded"}), 200)
	if d.VerificationURI != "https://assay.example/device" || d.VerificationURIComplete != "https://assay.example/device?user_code="+d.UserCode || d.Interval != 5 || d.ExpiresIn != 600 {
		t.Errorf("the program is told %+v", d)
	}
	w := s.do(call{method: "GET", path: "/device?user_code=" + d.UserCode})
	if want := "/sign-in?next=" + url.QueryEscape("/device?user_code="+d.UserCode); w.Code != 303 || w.Header().Get("Location") != want {
		t.Errorf("nobody is sent to %d %q, want %q", w.Code, w.Header().Get("Location"), want)
	}
	page(call{method: "GET", path: "/device", session: root}, 200, "Type the code")
	page(call{method: "GET", path: "/device?user_code=BCDFGHJK", session: root}, 404, "No program waits")
	body := page(call{method: "GET", path: "/device?user_code=" + strings.ToLower(d.UserCode), session: root}, 200, `<b>assay login</b> on "laptop"`, "192.0.2.1", "class, judge", d.UserCode, "Approve")
	if strings.Contains(body, "<b>assay") {
		t.Error("what a program calls itself is markup in the page")
	}
	poll := call{method: "POST", path: "/api/v1/device/token", body: form("device_code", d.DeviceCode, "grant_type", deviceGrant), kind: "application/x-www-form-urlencoded"}
	if got := decode[api.DeviceWait](t, s.do(poll), 400); got.Error != api.AuthorizationPending || got.Code != "device.authorization_pending" || got.RequestID == "" {
		t.Errorf("the program is told %+v", got)
	}
	if got := decode[api.DeviceWait](t, s.do(poll), 400); got.Error != api.SlowDown {
		t.Errorf("a program that asks at once is told %+v", got)
	}
	page(call{method: "POST", path: "/device", session: root, body: form("user_code", d.UserCode, "answer", "perhaps")}, 400)
	page(call{method: "POST", path: "/device", session: root, body: form("user_code", d.UserCode, "answer", "approve")}, 200, "signed in as you")
	page(call{method: "POST", path: "/device", session: root, body: form("user_code", d.UserCode, "answer", "deny")}, 404)

	body = page(call{method: "POST", path: "/account/tokens", session: root, body: form("name", "<i>ci</i>", "scope", "judge", "days", "7")}, 201, "shown once")
	secret := regexp.MustCompile(`value="(asy_[a-z0-9]{32})"`).FindStringSubmatch(body)
	if secret == nil {
		t.Fatalf("the page shows no secret:\n%s", body)
	}
	me := decode[api.Me](t, s.do(call{method: "GET", path: "/api/v1/me", bearer: secret[1]}), 200)
	if len(me.Scopes) != 1 || me.Scopes[0] != api.Judge || me.User.Login != "root" {
		t.Errorf("the token is %+v", me)
	}
	body = page(call{method: "GET", path: "/account", session: root}, 200, "<i>ci</i>", "this browser")
	if strings.Contains(body, secret[1]) || strings.Contains(body, "<i>ci") {
		t.Error("the page shows the secret again, or a name as markup")
	}
	page(call{method: "POST", path: "/account/tokens", session: root, body: form("name", "x", "days", "7")}, 400, "without a scope", `value="x"`)
	page(call{method: "POST", path: "/account/tokens", session: root, body: form("name", "x", "scope", "judge", "days", "soon")}, 400, "number of days")
	if w := s.do(call{method: "POST", path: "/account/tokens/revoke", session: root, body: form("token", me.Token)}); w.Code != 303 {
		t.Errorf("revoking: %d %s", w.Code, w.Body)
	}
	page(call{method: "GET", path: "/account?done=revoked", session: root}, 200, "stopped at once", "revoked")
	if got := s.do(call{method: "GET", path: "/api/v1/me", bearer: secret[1]}).Code; got != 401 {
		t.Errorf("the revoked token answers %d", got)
	}
	page(call{method: "POST", path: "/account/password", session: root, body: form("old", "wrong", "new", "another good password", "again", "another good password")}, 403, "old password is wrong")
	if w := s.do(call{method: "POST", path: "/account/password", session: root, body: form("old", goodPassword, "new", "another good password", "again", "another good password")}); w.Code != 303 {
		t.Errorf("changing the password: %d %s", w.Code, w.Body)
	}
	w = s.do(call{method: "POST", path: "/sign-out", session: root})
	if w.Code != 303 || s.do(call{method: "GET", path: "/account", session: root}).Code != 303 {
		t.Error("signing out does not")
	}
}

// checkPage wants pages that need no script and no inline style, are never
// kept, and name each field.
func checkPage(t *testing.T, h http.Header, body string) {
	t.Helper()
	if h.Get("Cache-Control") != "no-store" || h.Get("Content-Type") != "text/html; charset=utf-8" || h.Get("X-Frame-Options") != "DENY" {
		t.Errorf("headers are %v", h)
	}
	if csp := h.Get("Content-Security-Policy"); !strings.Contains(csp, "frame-ancestors 'none'") || !strings.Contains(csp, "form-action 'self'") || strings.Contains(csp, "unsafe") {
		t.Errorf("the policy is %q", csp)
	}
	for _, bad := range []string{"<script", " style=", "<style", "javascript:", " onclick", "ZgotmplZ"} {
		if strings.Contains(body, bad) {
			t.Errorf("the page has %q:\n%s", bad, body)
		}
	}
	if strings.Count(body, "<h1>") != 1 || !strings.Contains(body, `<html lang="en">`) || !strings.Contains(body, "</html>") {
		t.Errorf("the page is not whole:\n%s", body)
	}
	for _, field := range regexp.MustCompile(`<(?:input|select)[^>]*>`).FindAllString(body, -1) {
		id := regexp.MustCompile(` id="([^"]*)"`).FindStringSubmatch(field)
		if strings.Contains(field, `type="hidden"`) || strings.Contains(field, `type="checkbox"`) {
			continue
		}
		if id == nil || !strings.Contains(body, `for="`+id[1]+`"`) {
			t.Errorf("no label for %s", field)
		}
	}
}

func TestStylesheet(t *testing.T) {
	t.Parallel()
	w := newSite(t, nil).do(call{method: "GET", path: "/assets/pages.css"})
	if w.Code != 200 || w.Header().Get("Content-Type") != "text/css; charset=utf-8" || !strings.Contains(w.Body.String(), "prefers-color-scheme") {
		t.Errorf("got %d %v", w.Code, w.Header())
	}
}

// TestNextStaysHere: after signing in nobody is sent to another server.
func TestNextStaysHere(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	root := s.admin()
	for next, want := range map[string]string{
		"/problems?x=1&y=2": "/problems?x=1&y=2", "/device?user_code=BCDF-GHJK": "/device?user_code=BCDF-GHJK", "/": "/",
		"": homePage, "problems": homePage, "https://evil.example": homePage, "//evil.example": homePage, "///evil.example": homePage,
		`/\evil.example`: homePage, `\\evil.example`: homePage, "/%5cevil.example": homePage, "/%2f/evil.example": homePage, "/%2fevil.example": homePage,
		"/\t/evil.example": homePage, "/\n/evil.example": homePage, " /x": homePage, "javascript:alert(1)": homePage, "/x\r\nSet-Cookie: a=b": homePage,
		"http:/evil.example": homePage, "@evil.example": homePage, "/" + strings.Repeat("x", 2001): homePage,
	} {
		w := s.do(call{method: "POST", path: "/sign-in", body: form("login", "root", "password", goodPassword, "next", next)})
		if got := w.Header().Get("Location"); w.Code != 303 || got != want {
			t.Errorf("%q: sent to %d %q, want %q", next, w.Code, got, want)
		}
		w = s.do(call{method: "GET", path: "/sign-in?next=" + url.QueryEscape(next), session: root})
		if got := w.Header().Get("Location"); got != want {
			t.Errorf("%q, signed in: sent to %q, want %q", next, got, want)
		}
	}
}

func FuzzLocalPath(f *testing.F) {
	for _, next := range []string{"/a", "//a", `/\a`, "/%2f%2fa", "http://a", "/a?b#c", "/;@a", "/a//b"} {
		f.Add(next)
	}
	base, err := url.Parse("https://assay.example/sign-in")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, next string) {
		got := localPath(next)
		// Browsers read a backslash as a slash and leave out tabs and line ends.
		for _, read := range []string{got, strings.ReplaceAll(got, `\`, "/"), strings.NewReplacer("\t", "", "\r", "", "\n", "").Replace(got)} {
			u, err := base.Parse(read)
			if err != nil || u.Host != base.Host || u.Scheme != "https" || !strings.HasPrefix(read, "/") {
				t.Errorf("%q leads to %v, %v", next, u, err)
			}
		}
	})
}

// TestFormsOfOtherSitesAreRefused: CSRF against each page that changes
// something.
func TestFormsOfOtherSitesAreRefused(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	root := s.admin()
	for _, path := range []string{"/sign-in", "/sign-out", "/setup", "/device", "/account/tokens", "/account/tokens/revoke", "/account/sessions", "/account/password", "/api/v1/session", "/api/v1/tokens"} {
		for _, header := range []map[string]string{{"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"}, {"Sec-Fetch-Site": "", "Origin": "https://evil.example"}, {"Sec-Fetch-Site": "", "Origin": "null"}} {
			w := s.do(call{method: "POST", path: path, session: root, body: form("login", "root", "password", goodPassword), header: header})
			if w.Code != http.StatusForbidden || len(w.Result().Cookies()) != 0 {
				t.Errorf("%s with %v: got %d", path, header, w.Code)
			}
		}
	}
	if got := s.do(call{method: "GET", path: "/account", session: root}).Code; got != 200 {
		t.Errorf("the session was ended: %d", got)
	}
}

func TestFormsAreBounded(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	for _, body := range []string{"login=" + strings.Repeat("x", maxForm), "login=%zz", "a=1;b=2"} {
		if w := s.do(call{method: "POST", path: "/sign-in", body: body}); w.Code != 400 {
			t.Errorf("%.20q: got %d", body, w.Code)
		}
	}
}

// fakeIDP knows one code.
type fakeIDP struct{}

func (fakeIDP) AuthURL(_ context.Context, state, _, _ string) (string, error) {
	return "https://idp.example/authorize?state=" + state, nil
}

func (fakeIDP) Identify(_ context.Context, code, _, _ string) (account.Identity, error) {
	if code != "good" {
		return account.Identity{}, fault.Errorf(fault.Denied, "no")
	}
	return account.Identity{Issuer: "https://idp.example", Subject: "1", Login: "jane", Email: "jane@example.org", Verified: true}, nil
}

func TestSignOnPages(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(o *Options, c *account.Config) {
		o.Secure = true
		c.OIDC = account.OIDCConfig{Provider: fakeIDP{}, Name: "the university"}
	})
	if body := s.do(call{method: "GET", path: "/sign-in?next=/problems"}).Body.String(); !strings.Contains(body, "Sign in with the university") || !strings.Contains(body, `href="/sign-in/oidc?next=%2fproblems"`) {
		t.Errorf("the page is %s", body)
	}
	start := func() (state string, cookie *http.Cookie) {
		t.Helper()
		w := s.do(call{method: "GET", path: "/sign-in/oidc?next=/problems"})
		cookies := w.Result().Cookies()
		_, state, _ = strings.Cut(w.Header().Get("Location"), "?state=")
		if w.Code != 303 || len(cookies) != 1 || state == "" {
			t.Fatalf("got %d %v", w.Code, w.Header())
		}
		c := cookies[0]
		if c.Name != "__Host-assay-state" || !c.HttpOnly || !c.Secure || c.SameSite != http.SameSiteLaxMode || c.MaxAge != 600 {
			t.Errorf("the cookie is %v", c)
		}
		return state, c
	}
	back := func(query string, c *http.Cookie) (int, string, []*http.Cookie) {
		header := map[string]string{}
		if c != nil {
			header["Cookie"] = c.Name + "=" + c.Value
		}
		w := s.do(call{method: "GET", path: SignOnPath + "?" + query, header: header})
		return w.Code, w.Header().Get("Location"), w.Result().Cookies()
	}
	state, cookie := start()
	other, _ := start()
	for _, query := range []string{"", "code=good", "state=" + other + "&code=good", "error=access_denied&state=" + state} {
		if status, _, cookies := back(query, cookie); status != 403 || len(cookies) != 1 {
			t.Errorf("%s: got %d, cookies %v", query, status, cookies)
		}
	}
	if status, _, _ := back("state="+state+"&code=good", nil); status != 403 {
		t.Errorf("another browser gets %d", status)
	}
	status, to, cookies := back("state="+state+"&code=good", cookie)
	if status != 303 || to != "/problems" || len(cookies) != 2 || cookies[1].Name != "__Host-assay" {
		t.Errorf("got %d to %q with %v", status, to, cookies)
	}
	if status, _, _ = back("state="+state+"&code=good", cookie); status != 403 {
		t.Errorf("the second time: got %d", status)
	}
	if body := s.do(call{method: "GET", path: "/account", session: cookies[1].Value}).Body.String(); !strings.Contains(body, "jane@example.org") {
		t.Errorf("the account is %s", body)
	}
}
