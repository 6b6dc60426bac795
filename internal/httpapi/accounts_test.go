package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"assay/api"
	"assay/internal/account"
	"assay/internal/fault"
	"assay/internal/sqlstore"
)

var update = flag.Bool("update", false, "write the golden files of this package anew")

const goodPassword = "correct horse battery"

// buffer is a log that goroutines may share.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// site is a door with accounts over a real store.
type site struct {
	http.Handler
	t      *testing.T
	people *account.Service
	store  account.Store
	log    *buffer
	// setup is the code of the first admin's link.
	setup string
	// secrets are all that were handed out.
	secrets []string
}

func newSite(t *testing.T, change func(*Options, *account.Config)) *site {
	t.Helper()
	db, err := sqlstore.Open(t.Context(), filepath.Join(t.TempDir(), "assay.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	s := &site{t: t, store: db.Accounts(), log: &buffer{}}
	log := slog.New(slog.NewJSONHandler(s.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	o := Options{Log: log, Server: fixedInfo{}, Metrics: prometheus.NewRegistry(), Ready: func(context.Context) error { return nil }, PublicURL: "https://assay.example/"}
	cfg := account.Config{Hash: account.HashCost{Memory: 64, Passes: 1, Threads: 1}}
	if change != nil {
		change(&o, &cfg)
	}
	if s.people, err = account.New(s.store, cfg, log); err != nil {
		t.Fatal(err)
	}
	o.Accounts, o.People = s.people, s.people
	if s.Handler, err = New(o); err != nil {
		t.Fatal(err)
	}
	if s.setup, err = s.people.SetupCode(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.secrets = append(s.secrets, s.setup, goodPassword)
	return s
}

// call is one request of a browser or a program.
type call struct {
	method, path, body string
	// kind is the body's Content-Type: JSON, or a form for pages.
	kind            string
	session, bearer string
	header          map[string]string
}

func (s *site) do(c call) *httptest.ResponseRecorder {
	s.t.Helper()
	r := httptest.NewRequest(c.method, c.path, strings.NewReader(c.body))
	switch {
	case c.kind != "":
		r.Header.Set("Content-Type", c.kind)
	case c.body == "":
	case strings.HasPrefix(c.path, "/api/"):
		r.Header.Set("Content-Type", "application/json")
	default:
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Sec-Fetch-Site", "same-origin")
	}
	if c.session != "" {
		r.AddCookie(&http.Cookie{Name: "assay", Value: c.session})
		r.AddCookie(&http.Cookie{Name: "__Host-assay", Value: c.session})
	}
	if c.bearer != "" {
		r.Header.Set("Authorization", "Bearer "+c.bearer)
	}
	for k, v := range c.header {
		r.Header.Set(k, v)
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

func form(pairs ...string) string {
	v := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		v.Add(pairs[i], pairs[i+1])
	}
	return v.Encode()
}

// sessionOf gives the session's secret that an answer sets.
func (s *site) sessionOf(w *httptest.ResponseRecorder) string {
	s.t.Helper()
	for _, c := range w.Result().Cookies() {
		if strings.HasSuffix(c.Name, "assay") && c.Value != "" {
			s.secrets = append(s.secrets, c.Value)
			return c.Value
		}
	}
	s.t.Fatalf("no session: %d %v %s", w.Code, w.Header(), w.Body)
	return ""
}

func decode[T any](t *testing.T, w *httptest.ResponseRecorder, status int) T {
	t.Helper()
	var v T
	if w.Code != status {
		t.Fatalf("got %d %s, want %d", w.Code, w.Body, status)
	}
	if err := json.Unmarshal(w.Body.Bytes(), &v); err != nil {
		t.Fatalf("%s: %v", w.Body, err)
	}
	return v
}

// admin uses the first link and gives the session.
func (s *site) admin() string {
	s.t.Helper()
	w := s.do(call{method: "POST", path: "/setup", body: form("code", s.setup, "login", "root", "password", goodPassword, "again", goodPassword)})
	if w.Code != http.StatusSeeOther {
		s.t.Fatalf("setup: %d %s", w.Code, w.Body)
	}
	return s.sessionOf(w)
}

// user makes a user by the API and gives ID and session.
func (s *site) user(admin, login, role string) (id, session string) {
	s.t.Helper()
	u := decode[api.User](s.t, s.do(call{method: "POST", path: "/api/v1/users", session: admin, body: fmt.Sprintf(`{"login":%q,"role":%q}`, login, role)}), 201)
	link := decode[api.Link](s.t, s.do(call{method: "POST", path: "/api/v1/users/" + login + "/links", session: admin}), 201)
	code, ok := strings.CutPrefix(link.URL, "https://assay.example/setup?code=")
	if !ok {
		s.t.Fatalf("the link is %s", link.URL)
	}
	s.secrets = append(s.secrets, code)
	w := s.do(call{method: "POST", path: "/setup", body: form("code", code, "password", goodPassword, "again", goodPassword)})
	return u.ID, s.sessionOf(w)
}

func (s *site) token(session, scopes string) (id, secret string) {
	s.t.Helper()
	tok := decode[api.TokenWithSecret](s.t, s.do(call{method: "POST", path: "/api/v1/tokens", session: session, body: `{"name":"ci","scopes":[` + scopes + `]}`}), 201)
	s.secrets = append(s.secrets, tok.Secret)
	return tok.Token.ID, tok.Secret
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll("testdata", 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got); check it by eye, then write it with -update:\n%s", path, diff)
	}
}

// TestAccountRoutesByRole is every route of accounts × who asks. "other" is
// somebody else's user or token, "own" the asker's.
func TestAccountRoutesByRole(t *testing.T) {
	t.Parallel()
	routes := []struct{ method, path, body string }{
		{"GET", "/api/v1/session", ""},
		{"GET", "/api/v1/me", ""},
		{"PUT", "/api/v1/me/password", `{"old":"wrong password","new":"another good password"}`},
		{"GET", "/api/v1/users", ""},
		{"POST", "/api/v1/users", `{"login":"NEW"}`},
		{"GET", "/api/v1/users/OWN", ""},
		{"GET", "/api/v1/users/OTHER", ""},
		{"GET", "/api/v1/users/none", ""},
		{"PATCH", "/api/v1/users/OWN", `{"name":"N"}`},
		{"PATCH", "/api/v1/users/OTHER", `{"name":"N"}`},
		{"PATCH", "/api/v1/users/OWN", `{"role":"admin"}`},
		{"PATCH", "/api/v1/users/OTHER", `{"disabled":false}`},
		{"POST", "/api/v1/users/OTHER/links", ""},
		{"POST", "/api/v1/users/OWN/links", ""},
		{"DELETE", "/api/v1/users/OTHER/sessions", ""},
		{"GET", "/api/v1/tokens", ""},
		{"GET", "/api/v1/tokens?user=OTHER", ""},
		{"GET", "/api/v1/tokens?user=*", ""},
		{"POST", "/api/v1/tokens", `{"name":"x","scopes":["judge"]}`},
		{"POST", "/api/v1/tokens", `{"name":"x","scopes":["sandboxes"]}`},
		{"DELETE", "/api/v1/tokens/OTHERTOKEN", ""},
		{"DELETE", "/api/v1/tokens/none", ""},
		{"GET", "/api/v1/audit", ""},
		{"GET", "/account", ""},
		{"GET", "/device", ""},
		{"POST", "/device", "user_code=BCDF-GHJK&answer=approve"},
		{"POST", "/account/tokens", "name=x&scope=judge&days=1"},
		{"POST", "/account/tokens/revoke", "token=OTHERTOKEN"},
		{"POST", "/account/sessions", ""},
		{"GET", "/sign-in", ""},
		{"GET", "/setup", ""},
		{"DELETE", "/api/v1/session", ""},
	}
	s := newSite(t, nil)
	root := s.admin()
	otherID, _ := s.user(root, "other", "member")
	asOther := account.WithActor(t.Context(), account.Actor{User: otherID, Role: account.Member})
	asking := []struct{ name, login, role, scopes string }{
		{"nobody", "", "", ""},
		{"member", "member", "member", ""},
		{"staff", "staff", "staff", ""},
		{"admin", "admin2", "admin", ""},
		{"judge_token", "admin3", "admin", `"judge"`},
		{"accounts_token", "member2", "member", `"accounts","judge"`},
	}
	var b strings.Builder
	fmt.Fprintf(&b, "The status that each route answers, by who asks.\n\n%-46s", "")
	creds := make([]call, len(asking))
	for i, a := range asking {
		fmt.Fprintf(&b, " %-14s", a.name)
		if a.login == "" {
			continue
		}
		_, session := s.user(root, a.login, a.role)
		if a.scopes == "" {
			creds[i].session = session
			continue
		}
		_, creds[i].bearer = s.token(session, a.scopes)
	}
	b.WriteString("\n")
	for n, route := range routes {
		line := fmt.Sprintf("%-6s %s", route.method, route.path)
		if strings.HasPrefix(route.body, "{") && route.method != "PUT" {
			line += " " + route.body
		}
		if len(line) > 46 {
			line = strings.Replace(line, "/api/v1", "", 1)
		}
		fmt.Fprintf(&b, "%-46.46s", line)
		for i, a := range asking {
			// By the service: the session of "other" may have been ended.
			tok, _, err := s.people.CreateToken(asOther, account.NewToken{Name: "x", Scopes: []account.Scope{account.ScopeJudge}, Life: time.Hour})
			if err != nil {
				t.Fatal(err)
			}
			c := creds[i]
			c.method = route.method
			own := a.login
			if own == "" {
				own = "other"
			}
			fill := strings.NewReplacer("OTHERTOKEN", tok.ID, "OTHER", "other", "OWN", own, "NEW", fmt.Sprintf("new%d-%d", n, i))
			c.path, c.body = fill.Replace(route.path), fill.Replace(route.body)
			w := s.do(c)
			cell := fmt.Sprint(w.Code)
			if to, _, _ := strings.Cut(w.Header().Get("Location"), "?"); to != "" {
				cell += " " + to
			}
			fmt.Fprintf(&b, " %-14s", cell)
		}
		b.WriteString("\n")
	}
	lines := strings.Split(b.String(), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	golden(t, "account_routes.txt", strings.Join(lines, "\n"))
}

// TestEveryAccountRouteIsTried compares the table above with the contract.
func TestEveryAccountRouteIsTried(t *testing.T) {
	t.Parallel()
	table, err := os.ReadFile("testdata/account_routes.txt")
	if err != nil {
		t.Fatal(err)
	}
	spec, err := api.GetSpec()
	if err != nil {
		t.Fatal(err)
	}
	// What anybody may ask is tested by itself.
	open := map[string]bool{"SignIn": true, "StartDevice": true, "TakeDeviceToken": true}
	for path, item := range spec.Paths.Map() {
		for method, op := range item.Operations() {
			if len(op.Tags) == 0 || op.Tags[0] != "accounts" || open[op.OperationID] {
				continue
			}
			want := fmt.Sprintf("%-6s %s", method, strings.TrimPrefix(path, "/api/v1"))
			want = strings.NewReplacer("{user}", "O", "{token}", "O").Replace(want)
			want, _, _ = strings.Cut(want, "O/")
			if !strings.Contains(strings.ReplaceAll(string(table), "/api/v1", ""), want) {
				t.Errorf("no line of the table begins with %s", want)
			}
		}
	}
}

func TestCookieFlags(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		secure bool
		cookie string
	}{{"https", true, "__Host-assay"}, {"http", false, "assay"}} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, func(o *Options, _ *account.Config) { o.Secure = tt.secure })
			s.admin()
			for _, w := range []*httptest.ResponseRecorder{
				s.do(call{method: "POST", path: "/api/v1/session", body: `{"login":"root","password":"` + goodPassword + `"}`}),
				s.do(call{method: "POST", path: "/sign-in", body: form("login", "root", "password", goodPassword)}),
			} {
				cookies := w.Result().Cookies()
				if len(cookies) != 1 {
					t.Fatalf("%d: cookies %v, body %s", w.Code, cookies, w.Body)
				}
				c := cookies[0]
				if c.Name != tt.cookie || !c.HttpOnly || c.Secure != tt.secure || c.SameSite != http.SameSiteLaxMode || c.Path != "/" || c.Domain != "" || len(c.Value) < 32 {
					t.Errorf("the cookie is %v", c)
				}
				if life := time.Until(c.Expires); life < 13*24*time.Hour || life > 14*24*time.Hour {
					t.Errorf("it lives %s", life)
				}
				// Signing out removes it, by the same rules.
				out := s.do(call{method: "DELETE", path: "/api/v1/session", session: c.Value}).Result().Cookies()
				if len(out) != 1 || out[0].Name != tt.cookie || out[0].MaxAge >= 0 || out[0].Value != "" || out[0].Secure != tt.secure {
					t.Errorf("signing out sets %v", out)
				}
				if got := s.do(call{method: "GET", path: "/api/v1/session", session: c.Value}).Code; got != 401 {
					t.Errorf("after signing out the session answers %d", got)
				}
			}
		})
	}
}

// TestSessionsCannotBeFixed: a secret that somebody has put into the browser is
// worth nothing after signing in, and the session that was there before ends.
func TestSessionsCannotBeFixed(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	old := s.admin()
	for _, before := range []string{"planted-by-mallory-0123456789abcdef", old} {
		w := s.do(call{method: "POST", path: "/sign-in", session: before, body: form("login", "root", "password", goodPassword)})
		if got := s.sessionOf(w); got == before {
			t.Error("the browser keeps the secret it came with")
		}
		if got := s.do(call{method: "GET", path: "/api/v1/session", session: before}).Code; got != 401 {
			t.Errorf("the secret from before signing in answers %d", got)
		}
	}
}

func TestSignInIsSlowedDown(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	s.admin()
	var last *httptest.ResponseRecorder
	for range 10 {
		last = s.do(call{method: "POST", path: "/api/v1/session", body: `{"login":"root","password":"wrong password"}`})
	}
	e := decode[api.Error](t, last, http.StatusTooManyRequests)
	if last.Header().Get("Retry-After") == "" || e.Code != "session.limited" || e.Hint == "" {
		t.Errorf("got %v, %+v", last.Header(), e)
	}
	page := s.do(call{method: "POST", path: "/sign-in", body: form("login", "root", "password", goodPassword)})
	if page.Code != http.StatusTooManyRequests || page.Header().Get("Retry-After") == "" || !strings.Contains(page.Body.String(), "Too many attempts") || len(page.Result().Cookies()) != 0 {
		t.Errorf("the page says %d %s", page.Code, page.Body)
	}
}

// TestSecretsAreNotTold goes through whole lives of secrets and then looks for
// them in the log, the audit log and the database's answers.
func TestSecretsAreNotTold(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	root := s.admin()
	_, jane := s.user(root, "jane", "member")
	id, secret := s.token(jane, `"judge","accounts"`)
	d := decode[api.DeviceCodes](t, s.do(call{method: "POST", path: "/api/v1/device", body: `{"client_id":"x"}`}), 200)
	s.secrets = append(s.secrets, d.DeviceCode, d.UserCode)
	s.do(call{method: "GET", path: "/device?user_code=" + d.UserCode, session: jane})
	s.do(call{method: "POST", path: "/device", session: jane, body: form("user_code", d.UserCode, "answer", "approve")})
	tok := decode[api.DeviceToken](t, s.do(call{method: "POST", path: "/api/v1/device/token", body: `{"device_code":"` + d.DeviceCode + `"}`}), 200)
	s.secrets = append(s.secrets, tok.AccessToken)
	s.do(call{method: "GET", path: "/setup?code=" + s.setup})
	s.do(call{method: "GET", path: "/api/v1/me?access_token=" + secret, bearer: secret})
	s.do(call{method: "GET", path: "/api/v1/me", bearer: secret + "x"})
	s.do(call{method: "PUT", path: "/api/v1/me/password", session: jane, body: `{"old":"` + goodPassword + `","new":"another good password"}`})
	s.do(call{method: "POST", path: "/sign-in", body: form("login", "jane", "password", "my wrong password")})
	s.do(call{method: "DELETE", path: "/api/v1/tokens/" + id, session: jane})
	s.secrets = append(s.secrets, "another good password", "my wrong password")

	entries, err := s.store.Audit(t.Context(), account.AuditQuery{Limit: 200})
	if err != nil {
		t.Fatal(err)
	}
	audit, err := json.Marshal(entries)
	if err != nil {
		t.Fatal(err)
	}
	tokens := s.do(call{method: "GET", path: "/api/v1/tokens?user=*", session: root}).Body.String()
	if len(entries) < 10 || !strings.Contains(s.log.String(), `"path":"/setup"`) || !strings.Contains(tokens, id) {
		t.Fatalf("the test looks at the wrong place: %d entries", len(entries))
	}
	for _, secret := range s.secrets {
		for name, text := range map[string]string{"log": s.log.String(), "audit log": string(audit), "list of tokens": tokens} {
			if strings.Contains(text, secret) {
				t.Errorf("the secret %q is in the %s", secret, name)
			}
		}
	}
}

// TestChangesAreAudited: each request that changes something is in the audit
// log once, whoever handles it and whatever the answer.
func TestChangesAreAudited(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	root := s.admin()
	janeID, jane := s.user(root, "jane", "member")
	tok, secret := s.token(jane, `"judge"`)
	last := func() []account.Entry {
		t.Helper()
		all, err := s.store.Audit(t.Context(), account.AuditQuery{Limit: 200})
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	before := len(last())
	for _, tt := range []struct {
		c            call
		who, token   string
		action       string
		thing        account.Kind
		target, word string
		outcome      int
	}{
		{call{method: "PATCH", path: "/api/v1/users/jane", session: jane, body: `{"name":"J"}`}, "jane", "", "PATCH /api/v1/users/{user}", "user", janeID, "name", 200},
		{call{method: "PATCH", path: "/api/v1/users/root", session: jane, body: `{"role":"member"}`}, "jane", "", "PATCH /api/v1/users/{user}", "user", "root", "", 404},
		{call{method: "POST", path: "/api/v1/users", session: jane, body: `{"login":"x"}`}, "jane", "", "POST /api/v1/users", "user", "", "", 403},
		{call{method: "DELETE", path: "/api/v1/tokens/none", bearer: secret}, "jane", tok, "DELETE /api/v1/tokens/{token}", "token", "none", "", 403},
		{call{method: "POST", path: "/account/tokens/revoke", session: jane, body: form("token", tok)}, "jane", "", "POST /account/tokens/revoke", "token", tok, "revoke", 303},
		{call{method: "POST", path: "/api/v1/session", body: `{"login":"jane","password":"wrong password"}`}, "", "", "POST /api/v1/session", "user", "", "sign in as jane", 401},
		{call{method: "POST", path: "/sign-in", body: form("login", "jane", "password", goodPassword)}, "jane", "", "POST /sign-in", "user", janeID, "sign in", 303},
		{call{method: "DELETE", path: "/api/v1/session", session: jane}, "jane", "", "DELETE /api/v1/session", "session", "", "", 204},
	} {
		s.do(tt.c)
		all := last()
		if before++; len(all) != before {
			t.Fatalf("%s %s: %d entries, want %d", tt.c.method, tt.c.path, len(all), before)
		}
		e := all[0]
		if e.Name != tt.who || e.Token != tt.token || e.Action != tt.action || e.Thing != tt.thing || e.Target != tt.target || e.Detail != tt.word ||
			e.Outcome != tt.outcome || e.From != "192.0.2.1" || e.Request == "" || e.At.IsZero() {
			t.Errorf("%s %s: the entry is %+v", tt.c.method, tt.c.path, e)
		}
	}
	// What changes nothing, and what nobody asked for, is not.
	s.do(call{method: "GET", path: "/api/v1/users", session: root})
	s.do(call{method: "GET", path: "/account", session: root})
	s.do(call{method: "POST", path: "/api/v1/users", body: `{"login":"x"}`})
	if got := len(last()); got != before {
		t.Errorf("%d entries, want %d", got, before)
	}
	page := decode[api.AuditPage](t, s.do(call{method: "GET", path: "/api/v1/audit?limit=2&who=" + janeID, session: root}), 200)
	if len(page.Items) != 2 || page.Next == "" || page.Items[0].Action != "DELETE /api/v1/session" {
		t.Errorf("the page is %+v", page)
	}
	next := decode[api.AuditPage](t, s.do(call{method: "GET", path: "/api/v1/audit?limit=2&who=" + janeID + "&cursor=" + page.Next, session: root}), 200)
	if len(next.Items) != 2 || next.Items[0].ID >= page.Items[1].ID {
		t.Errorf("the next page is %+v", next)
	}
}

func TestPagesInCursors(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	root := s.admin()
	for i := range 5 {
		s.user(root, fmt.Sprintf("user%d", i), "member")
	}
	var got []string
	for cursor := ""; ; {
		page := decode[api.UserPage](t, s.do(call{method: "GET", path: "/api/v1/users?limit=2&cursor=" + cursor, session: root}), 200)
		for _, u := range page.Items {
			got = append(got, u.Login)
		}
		if cursor = page.Next; cursor == "" {
			break
		}
	}
	if diff := cmp.Diff([]string{"root", "user0", "user1", "user2", "user3", "user4"}, got); diff != "" {
		t.Error(diff)
	}
	for _, cursor := range []string{"%00", "a%20b", strings.Repeat("x", 600)} {
		if got := s.do(call{method: "GET", path: "/api/v1/users?cursor=" + cursor, session: root}).Code; got != 400 {
			t.Errorf("cursor %.10q: got %d", cursor, got)
		}
	}
}

// TestEndedSecretsEndAtOnce: revoked, disabled and signed out work no more in
// the very next request.
func TestEndedSecretsEndAtOnce(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	root := s.admin()
	_, jane := s.user(root, "jane", "member")
	id, secret := s.token(jane, `"judge"`)
	_, other := s.token(jane, `"judge"`)
	me := func(c call) int {
		c.method, c.path = "GET", "/api/v1/me"
		return s.do(c).Code
	}
	if a, b := me(call{bearer: secret}), me(call{session: jane}); a != 200 || b != 200 {
		t.Fatalf("they answer %d and %d", a, b)
	}
	s.do(call{method: "DELETE", path: "/api/v1/tokens/" + id, session: jane})
	if got := me(call{bearer: secret}); got != 401 {
		t.Errorf("a revoked token answers %d", got)
	}
	s.do(call{method: "PATCH", path: "/api/v1/users/jane", session: root, body: `{"disabled":true}`})
	if a, b := me(call{bearer: other}), me(call{session: jane}); a != 401 || b != 401 {
		t.Errorf("those of a disabled user answer %d and %d", a, b)
	}
	if got := s.do(call{method: "GET", path: "/account", session: jane}); got.Code != 303 || !strings.HasPrefix(got.Header().Get("Location"), "/sign-in?") {
		t.Errorf("the page answers %d to %s", got.Code, got.Header().Get("Location"))
	}
}

func TestHeadersCannotBeInjected(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	root := s.admin()
	for _, body := range []string{
		`{"login":"a\r\nSet-Cookie: x=y"}`, `{"login":"ok","name":"a\r\nb"}`, `{"login":"ok","email":"a@b.c\nBcc: d@e.f"}`, `{"login":"ok","name":"a\u0000b"}`,
		`{"login":"ok","role":"owner"}`, `{"login":"ok","admin":true}`, `{"login":7}`, `{"login":`, `[]`, `{"login":"` + strings.Repeat("a", 65) + `"}`,
	} {
		w := s.do(call{method: "POST", path: "/api/v1/users", session: root, body: body})
		e := decode[api.Error](t, w, 400)
		if e.Code != "user.invalid" || e.Hint == "" {
			t.Errorf("%s: %+v", body, e)
		}
		if len(w.Result().Cookies()) != 0 {
			t.Errorf("%s sets a cookie", body)
		}
	}
	w := s.do(call{method: "POST", path: "/api/v1/tokens", session: root, body: `{"name":"a\r\nb","scopes":["judge"]}`})
	if w.Code != 400 {
		t.Errorf("got %d", w.Code)
	}
	for _, path := range []string{"/api/v1/users/%00", "/api/v1/users/..%2f..%2fetc", "/api/v1/users/a%0d%0ab"} {
		if got := s.do(call{method: "GET", path: path, session: root}).Code; got != 404 {
			t.Errorf("%s: got %d, want 404", path, got)
		}
	}
}

func TestAccountsWithoutStore(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	root := s.admin()
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(fault.Errorf(fault.Unavailable, "gone"))
	r := httptest.NewRequest("GET", "/api/v1/users", nil).WithContext(ctx)
	r.AddCookie(&http.Cookie{Name: "assay", Value: root})
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	if body, _ := io.ReadAll(w.Result().Body); w.Code < 400 || strings.Contains(string(body), "root") {
		t.Errorf("got %d %s", w.Code, body)
	}
}
