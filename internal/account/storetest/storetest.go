// Package storetest is the one suite that every store of accounts must pass.
// Start with Run. Behaviour that all stores share is tested here and in no
// store's own test.
//
// It must not know any store.
package storetest

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"assay/internal/account"
	"assay/internal/fault"
)

// Run runs the suite. open gives a new empty store each time; it is closed by
// the test's cleanup.
func Run(t *testing.T, open func(t *testing.T) account.Store) {
	tests := []struct {
		name string
		run  func(t *testing.T, s account.Store)
	}{
		{"UsersComeBack", usersComeBack},
		{"LoginsAndSubjectsAreOnce", loginsAndSubjectsAreOnce},
		{"UsersInPages", usersInPages},
		{"ChangeOfUserIsWhole", changeOfUserIsWhole},
		{"LastAdminStays", lastAdminStays},
		{"PasswordIsSwappedOnce", passwordIsSwappedOnce},
		{"Sessions", sessions},
		{"Tokens", tokens},
		{"TokensInPages", tokensInPages},
		{"DeviceIsAnsweredOnce", deviceIsAnsweredOnce},
		{"DevicesAreBounded", devicesAreBounded},
		{"LinkWorksOnce", linkWorksOnce},
		{"OneFirstAdmin", oneFirstAdmin},
		{"FlowIsTakenOnce", flowIsTakenOnce},
		{"GuessesAreNotLost", guessesAreNotLost},
		{"AuditLog", auditLog},
		{"Sweep", sweep},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.run(t, open(t))
		})
	}
}

var at = time.Date(2026, 3, 29, 1, 30, 0, 123_456_000, time.UTC)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantKind(t *testing.T, err error, kind fault.Kind) {
	t.Helper()
	if err == nil || fault.KindOf(err) != kind {
		t.Errorf("got %v, want it to be %s", err, kind)
	}
}

func same[T any](t *testing.T, got T, err error, want T) {
	t.Helper()
	must(t, err)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func user(t *testing.T, s account.Store, login string, role account.Role) account.User {
	t.Helper()
	u := account.User{ID: "usr_" + login, Login: login, Name: "Ünïcode; \"quoted\"", Email: "Jane." + login + "@Example.org", Role: role, Password: "$hash$" + login, Created: at}
	must(t, s.CreateUser(t.Context(), u))
	return u
}

func usersComeBack(t *testing.T, s account.Store) {
	ctx := t.Context()
	u := account.User{ID: "usr_1", Login: "jane", Name: "Jane", Email: "Jane@Example.org", Role: account.Staff, Password: "$x", Subject: "https://idp 1", Created: at, Disabled: at.Add(time.Hour)}
	must(t, s.CreateUser(ctx, u))
	got, err := s.User(ctx, "usr_1")
	same(t, got, err, u)
	got, err = s.UserByLogin(ctx, "jane")
	same(t, got, err, u)
	got, err = s.UserBySubject(ctx, "https://idp 1")
	same(t, got, err, u)
	all, err := s.UsersByEmail(ctx, "jANE@example.ORG")
	same(t, all, err, []account.User{u})
	user(t, s, "bare", account.Member)
	for _, subject := range []string{"", "https://idp 2"} {
		_, err = s.UserBySubject(ctx, subject)
		wantKind(t, err, fault.NotFound)
	}
	_, err = s.User(ctx, "usr_2")
	wantKind(t, err, fault.NotFound)
	_, err = s.UserByLogin(ctx, "usr_1")
	wantKind(t, err, fault.NotFound)
	all, err = s.UsersByEmail(ctx, "")
	same(t, all, err, nil)
	_, err = s.UpdateUser(ctx, "usr_2", false, func(*account.User) error { return nil })
	wantKind(t, err, fault.NotFound)
}

func loginsAndSubjectsAreOnce(t *testing.T, s account.Store) {
	ctx := t.Context()
	must(t, s.CreateUser(ctx, account.User{ID: "a", Login: "a", Role: account.Admin, Subject: "s 1"}))
	must(t, s.CreateUser(ctx, account.User{ID: "b", Login: "b", Role: account.Member}))
	must(t, s.CreateUser(ctx, account.User{ID: "c", Login: "c", Role: account.Member}))
	wantKind(t, s.CreateUser(ctx, account.User{ID: "d", Login: "a", Role: account.Member}), fault.Conflict)
	wantKind(t, s.CreateUser(ctx, account.User{ID: "e", Login: "e", Role: account.Member, Subject: "s 1"}), fault.Conflict)
	for _, id := range []string{"d", "e"} {
		_, err := s.User(ctx, id)
		wantKind(t, err, fault.NotFound)
	}
}

func usersInPages(t *testing.T, s account.Store) {
	var want, got []string
	for i := range 7 {
		want = append(want, user(t, s, fmt.Sprintf("u%d", 6-i), account.Member).Login)
	}
	for after := ""; ; {
		page, err := s.Users(t.Context(), after, 3)
		must(t, err)
		for _, u := range page {
			got = append([]string{u.Login}, got...)
		}
		if len(page) < 3 {
			break
		}
		after = page[2].Login
	}
	same(t, got, nil, want)
}

func changeOfUserIsWhole(t *testing.T, s account.Store) {
	ctx := t.Context()
	user(t, s, "root", account.Admin)
	u := user(t, s, "jane", account.Member)
	must(t, s.CreateSession(ctx, session("h1", u.ID)))
	refused := fault.Errorf(fault.Invalid, "no")
	_, err := s.UpdateUser(ctx, u.ID, true, func(u *account.User) error { u.Name = "X"; return refused })
	wantKind(t, err, fault.Invalid)
	got, err := s.User(ctx, u.ID)
	same(t, got, err, u)
	if _, _, err := s.Session(ctx, "h1"); err != nil {
		t.Errorf("a change that was refused ended a session: %v", err)
	}
	want := u
	want.Name, want.Email, want.Role, want.Password, want.Subject, want.Disabled = "J", "j@x", account.Staff, "$new", "s 9", at.Add(time.Minute)
	got, err = s.UpdateUser(ctx, u.ID, true, func(u *account.User) error {
		*u = want
		u.ID, u.Login, u.Created = "other", "other", at.Add(time.Hour)
		return nil
	})
	same(t, got, err, want)
	got, err = s.User(ctx, u.ID)
	same(t, got, err, want)
	_, _, err = s.Session(ctx, "h1")
	wantKind(t, err, fault.NotFound)
}

func lastAdminStays(t *testing.T, s account.Store) {
	ctx := t.Context()
	has, err := s.HasAdmin(ctx)
	same(t, has, err, false)
	const n = 6
	for i := range n {
		user(t, s, fmt.Sprintf("admin%d", i), account.Admin)
	}
	var gone atomic.Int32
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			_, err := s.UpdateUser(ctx, fmt.Sprintf("usr_admin%d", i), false, func(u *account.User) error {
				if i%2 == 0 {
					u.Role = account.Member
				} else {
					u.Disabled = at
				}
				return nil
			})
			switch {
			case err == nil:
				gone.Add(1)
			case !fault.Is(err, fault.Conflict):
				t.Errorf("got %v, want nil or a conflict", err)
			}
		})
	}
	wg.Wait()
	if gone.Load() != n-1 {
		t.Errorf("%d of %d admins went, want all but one", gone.Load(), n)
	}
	has, err = s.HasAdmin(ctx)
	same(t, has, err, true)
}

func passwordIsSwappedOnce(t *testing.T, s account.Store) {
	ctx := t.Context()
	u := user(t, s, "jane", account.Member)
	must(t, s.SwapPassword(ctx, u.ID, u.Password, "$new"))
	wantKind(t, s.SwapPassword(ctx, u.ID, u.Password, "$other"), fault.Conflict)
	u.Password = "$new"
	got, err := s.User(ctx, u.ID)
	same(t, got, err, u)
}

func session(hash, user string) account.Session {
	return account.Session{
		ID: "ses_" + hash, Hash: hash, User: user, From: "192.0.2.1", Agent: "Browser", Created: at, Seen: at,
		Idle: at.Add(time.Hour), Expires: at.Add(24 * time.Hour),
	}
}

func sessions(t *testing.T, s account.Store) {
	ctx := t.Context()
	jane, john := user(t, s, "jane", account.Member), user(t, s, "john", account.Member)
	for _, ses := range []account.Session{session("h1", jane.ID), session("h2", jane.ID), session("h3", john.ID), session("h4", jane.ID)} {
		must(t, s.CreateSession(ctx, ses))
	}
	must(t, s.TouchSession(ctx, "h2", at.Add(time.Minute), at.Add(2*time.Hour)))
	want := session("h2", jane.ID)
	want.Seen, want.Idle = at.Add(time.Minute), at.Add(2*time.Hour)
	got, u, err := s.Session(ctx, "h2")
	same(t, got, err, want)
	same(t, u, nil, jane)
	all, err := s.SessionsOf(ctx, jane.ID)
	same(t, all, err, []account.Session{want, session("h1", jane.ID), session("h4", jane.ID)})
	must(t, s.EndSession(ctx, "h1"))
	must(t, s.EndSession(ctx, "h1"))
	must(t, s.EndSessions(ctx, jane.ID, "h2"))
	all, err = s.SessionsOf(ctx, jane.ID)
	same(t, all, err, []account.Session{want})
	must(t, s.EndSessions(ctx, jane.ID, ""))
	_, _, err = s.Session(ctx, "h2")
	wantKind(t, err, fault.NotFound)
	if _, _, err = s.Session(ctx, "h3"); err != nil {
		t.Errorf("the session of another user: %v", err)
	}
}

func token(id, user string) account.Token {
	return account.Token{
		ID: "tok_" + id, Hash: "hash " + id, Prefix: "asy_", User: user, Name: "ci", Scopes: []account.Scope{account.ScopeJudge, account.ScopeSandboxes},
		Quotas: account.Quotas{SandboxesAtOnce: 1, CPUSecondsPerDay: 2, DiskBytes: 3 << 40, Snapshots: 4}, From: "192.0.2.1",
		Created: at, Expires: at.Add(time.Hour),
	}
}

func tokens(t *testing.T, s account.Store) {
	ctx := t.Context()
	jane := user(t, s, "jane", account.Member)
	want := token("1", jane.ID)
	must(t, s.CreateToken(ctx, want))
	wantKind(t, s.CreateToken(ctx, want), fault.Conflict)
	none := token("2", jane.ID)
	none.Scopes, none.Expires = nil, time.Time{}
	must(t, s.CreateToken(ctx, none))
	none.Scopes = []account.Scope{}
	got, u, err := s.TokenByHash(ctx, none.Hash)
	same(t, got, err, none)
	same(t, u, nil, jane)
	_, _, err = s.TokenByHash(ctx, "tok_1")
	wantKind(t, err, fault.NotFound)
	_, err = s.Token(ctx, "hash 1")
	wantKind(t, err, fault.NotFound)

	must(t, s.TouchToken(ctx, want.ID, at.Add(time.Minute), at))
	must(t, s.TouchToken(ctx, want.ID, at.Add(61*time.Second), at.Add(time.Second)))
	want.Used = at.Add(time.Minute)
	n, err := s.CountTokens(ctx, jane.ID, at)
	same(t, n, err, 2)
	n, err = s.CountTokens(ctx, jane.ID, at.Add(time.Hour))
	same(t, n, err, 1)
	must(t, s.RevokeToken(ctx, want.ID, at.Add(time.Second)))
	must(t, s.RevokeToken(ctx, want.ID, at.Add(time.Hour)))
	want.Revoked = at.Add(time.Second)
	got, err = s.Token(ctx, want.ID)
	same(t, got, err, want)
	n, err = s.CountTokens(ctx, jane.ID, at)
	same(t, n, err, 1)
}

func tokensInPages(t *testing.T, s account.Store) {
	ctx := t.Context()
	jane, john := user(t, s, "jane", account.Member), user(t, s, "john", account.Member)
	for _, tok := range []account.Token{token("3", jane.ID), token("1", jane.ID), token("2", john.ID), token("4", jane.ID)} {
		must(t, s.CreateToken(ctx, tok))
	}
	got, err := s.TokensOf(ctx, jane.ID, "", 2)
	same(t, got, err, []account.Token{token("1", jane.ID), token("3", jane.ID)})
	got, err = s.TokensOf(ctx, jane.ID, "tok_3", 2)
	same(t, got, err, []account.Token{token("4", jane.ID)})
	got, err = s.TokensOf(ctx, "", "tok_1", 2)
	same(t, got, err, []account.Token{token("2", john.ID), token("3", jane.ID)})
}
