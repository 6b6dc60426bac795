package account_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"assay/internal/account"
	"assay/internal/fault"
)

func TestSignIn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, account.Config{})
	jane := w.user("jane", account.Staff)
	in, err := w.SignIn(w.nobody, " JANE ", password, caller)
	must(t, err)
	a, err := w.BySession(w.nobody, in.Secret)
	must(t, err)
	if a.User != jane.ID || a.Name != "jane" || a.Role != account.Staff || a.Token != "" || a.Scopes != nil {
		t.Errorf("the session is %+v", a)
	}
	again, err := w.SignIn(w.nobody, "jane", password, caller)
	must(t, err)
	if again.Secret == in.Secret || len(in.Secret) < 32 {
		t.Errorf("secrets %q and %q: want new and long ones", in.Secret, again.Secret)
	}
	must(t, w.SignOut(w.nobody, in.Secret))
	if w.signedIn(in.Secret) || !w.signedIn(again.Secret) {
		t.Error("signing out must end this session and no other")
	}
	if w.signedIn("") || w.signedIn(in.Session.Hash) || w.signedIn(again.Session.Hash) {
		t.Error("what is stored of a secret works as the secret")
	}
}

// TestWrongSignInSaysNothing: whoever guesses learns neither whether there is
// such a login nor whether it is disabled or has no password.
func TestWrongSignInSaysNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, account.Config{})
	w.user("jane", account.Member)
	john := w.user("john", account.Member)
	_, err := w.CreateUser(w.root, account.NewUser{Login: "new", Role: account.Member})
	must(t, err)
	_, err = w.ChangeUser(w.root, john.ID, account.UserPatch{Disabled: ptr(true)})
	must(t, err)
	var want string
	for _, tt := range []struct{ login, password string }{
		{"jane", "wrong password"},
		{"jane", ""},
		{"nobody", password},
		{"", ""},
		{"new", ""},
		{"new", password},
		{"john", password},
		{"a\x00b", password},
		{strings.Repeat("x", 1<<20), password},
		{"jane' OR 1=1 --", password},
		{"jane", strings.Repeat("x", 1<<20)},
		{"\xff", "\xff"},
	} {
		_, err := w.SignIn(w.nobody, tt.login, tt.password, account.Caller{Address: "2001:db8::" + fmt.Sprint(len(tt.login)%9)})
		wantKind(t, err, fault.Unauthenticated)
		if err == nil {
			continue
		}
		got := err.Error() + fault.HintOf(err)
		if want == "" {
			want = got
		}
		if got != want {
			t.Errorf("%.20q: got %q, others get %q", tt.login, got, want)
		}
	}
}

// TestUnknownLoginCostsAsMuch: the work for a login that is not there, has no
// password or is disabled is the same as for a wrong password. Times would say
// the same, but not on a busy host.
func TestUnknownLoginCostsAsMuch(t *testing.T) {
	t.Parallel()
	w := newWorld(t, account.Config{})
	w.user("jane", account.Member)
	john := w.user("john", account.Member)
	_, err := w.CreateUser(w.root, account.NewUser{Login: "new", Role: account.Member})
	must(t, err)
	_, err = w.ChangeUser(w.root, john.ID, account.UserPatch{Disabled: ptr(true)})
	must(t, err)
	for _, tt := range []struct{ login, password string }{
		{"jane", "wrong password"},
		{"nobody", "wrong password"},
		{"new", "wrong password"},
		{"john", password},
		{"no login at all", password},
		{"jane", strings.Repeat("x", 1<<20)},
	} {
		before := w.HashWork()
		_, err := w.SignIn(w.nobody, tt.login, tt.password, caller)
		wantKind(t, err, fault.Unauthenticated)
		if got, want := w.HashWork()-before, int64(cheap.Memory)*int64(cheap.Passes); got != want {
			t.Errorf("%.20q costs %d KiB of hashing, want %d", tt.login, got, want)
		}
	}
}

func TestSessionsEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, account.Config{SessionIdle: time.Hour, SessionLife: 3 * time.Hour})
		in, err := w.SignIn(w.nobody, "root", password, caller)
		must(t, err)
		idle, err := w.SignIn(w.nobody, "root", password, caller)
		must(t, err)
		for range 3 {
			time.Sleep(59 * time.Minute)
			if !w.signedIn(in.Secret) {
				t.Fatal("a session that is used has ended")
			}
		}
		if w.signedIn(idle.Secret) {
			t.Error("a session that is not used has not ended")
		}
		time.Sleep(4 * time.Minute)
		if w.signedIn(in.Secret) {
			t.Error("a session lives longer than it may")
		}
	})
}

func TestEverySessionAndOneSession(t *testing.T) {
	t.Parallel()
	w := newWorld(t, account.Config{})
	jane := w.user("jane", account.Member)
	var secrets []string
	for range 4 {
		in, err := w.SignIn(w.nobody, "jane", password, caller)
		must(t, err)
		secrets = append(secrets, in.Secret)
	}
	live := func() (n int) {
		for _, s := range secrets {
			if w.signedIn(s) {
				n++
			}
		}
		return n
	}
	wantKind(t, w.EndSessions(w.as(w.user("john", account.Staff)), jane.ID, ""), fault.Denied)
	if live() != 4 {
		t.Error("somebody else ended sessions")
	}
	all, err := w.Sessions(w.as(jane))
	must(t, err)
	if len(all) != 5 { // one from choosing the password
		t.Errorf("%d sessions are listed, want 5", len(all))
	}
	must(t, w.EndSessions(w.as(jane), jane.ID, secrets[2]))
	if live() != 1 || !w.signedIn(secrets[2]) {
		t.Error("all but one must end")
	}
	must(t, w.EndSessions(w.root, "jane", ""))
	if live() != 0 {
		t.Error("an admin ends all")
	}
}

// TestGuessingIsSlow: after a few attempts each one has to wait, longer and
// longer, and a new start of the server forgives nothing.
func TestGuessingIsSlow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, account.Config{})
		w.user("jane", account.Member)
		tries, begin := 0, time.Now()
		for time.Since(begin) < time.Hour {
			_, err := w.SignIn(w.nobody, "jane", fmt.Sprintf("password %d", tries), caller)
			switch fault.KindOf(err) {
			case fault.Unauthenticated:
				tries++
			case fault.Limited:
				wait := fault.AfterOf(err)
				if wait <= 0 {
					t.Fatalf("%v does not say how long to wait", err)
				}
				time.Sleep(wait)
				w.start()
			default:
				t.Fatal(err)
			}
		}
		if tries > 40 || tries < 8 {
			t.Errorf("%d guesses in an hour", tries)
		}
		// Even the right password waits, or one could tell.
		_, err := w.SignIn(w.nobody, "jane", "x", caller)
		if err == nil {
			t.Fatal("x is no password")
		}
		_, err = w.SignIn(w.nobody, "jane", password, caller)
		wantKind(t, err, fault.Limited)
		// The owner comes from elsewhere, and waits little.
		elsewhere := account.Caller{Address: "198.51.100.7"}
		if _, err = w.SignIn(w.nobody, "jane", password, elsewhere); fault.Is(err, fault.Limited) {
			if wait := fault.AfterOf(err); wait > 30*time.Second {
				t.Errorf("somebody else's guesses lock the owner out for %s", wait)
			}
			time.Sleep(fault.AfterOf(err))
			_, err = w.SignIn(w.nobody, "jane", password, elsewhere)
		}
		must(t, err)
		time.Sleep(25 * time.Hour)
		_, err = w.SignIn(w.nobody, "jane", password, caller)
		must(t, err)
	})
}

// TestGuessersLockNobodyOut: while many addresses try one login without a
// pause, its owner signs in where they are signed in already.
func TestGuessersLockNobodyOut(t *testing.T) {
	t.Parallel()
	w := newWorld(t, account.Config{})
	w.user("jane", account.Member)
	home := account.Caller{Address: "198.51.100.7"}
	_, err := w.SignIn(w.nobody, "jane", password, home)
	must(t, err)
	for i := range 40 {
		_, err = w.SignIn(w.nobody, "jane", "guess", account.Caller{Address: fmt.Sprintf("203.0.113.%d", i)})
	}
	wantKind(t, err, fault.Limited)
	_, err = w.SignIn(w.nobody, "jane", password, account.Caller{Address: "203.0.113.99"})
	wantKind(t, err, fault.Limited)
	_, err = w.SignIn(w.nobody, "jane", password, home)
	must(t, err)
}

// TestGuessingManyLoginsIsSlow: one address cannot try one password on all.
func TestGuessingManyLoginsIsSlow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, account.Config{})
		tries, begin := 0, time.Now()
		for time.Since(begin) < time.Hour {
			_, err := w.SignIn(w.nobody, fmt.Sprintf("user%d", tries), "Winter2026!", account.Caller{Address: fmt.Sprintf("2001:db8::%x", tries)})
			switch fault.KindOf(err) {
			case fault.Unauthenticated:
				tries++
			case fault.Limited:
				time.Sleep(fault.AfterOf(err))
			default:
				t.Fatal(err)
			}
		}
		if tries > 500 || tries < 100 {
			t.Errorf("%d guesses in an hour from one network", tries)
		}
	})
}

// TestGuessesAtOnce: many attempts that begin in the same moment are no way
// around.
func TestGuessesAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, account.Config{})
	w.user("jane", account.Member)
	var checked atomic.Int32
	var wg sync.WaitGroup
	for i := range 25 {
		wg.Go(func() {
			_, err := w.SignIn(w.nobody, "jane", fmt.Sprintf("guess number %d", i), caller)
			switch fault.KindOf(err) {
			case fault.Unauthenticated:
				checked.Add(1)
			case fault.Limited:
			default:
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := checked.Load(); n > 7 {
		t.Errorf("%d of 25 guesses at once were checked", n)
	}
}

// TestRightPasswordForgives: mistyping now and then adds up to nothing.
func TestRightPasswordForgives(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, account.Config{})
		for range 30 {
			time.Sleep(time.Minute)
			for range 3 {
				_, err := w.SignIn(w.nobody, "root", "mistyped", caller)
				wantKind(t, err, fault.Unauthenticated)
			}
			if _, err := w.SignIn(w.nobody, "root", password, caller); err != nil && !fault.Is(err, fault.Limited) {
				t.Fatal(err)
			}
		}
	})
}

// TestDearerHashesComeWithSignIns: who signs in after the cost was raised has
// the password hashed anew.
func TestDearerHashesComeWithSignIns(t *testing.T) {
	t.Parallel()
	w := newWorld(t, account.Config{})
	w.cfg.Hash = account.HashCost{Memory: 128, Passes: 2, Threads: 1}
	w.start()
	for range 2 {
		_, err := w.SignIn(w.nobody, "root", password, caller)
		must(t, err)
		u, err := w.store.UserByLogin(w.nobody, "root")
		must(t, err)
		if !strings.Contains(u.Password, "$m=128,t=2,p=1$") {
			t.Errorf("the hash is %q", u.Password)
		}
	}
}

// slowStore has something happen just before a session is kept.
type slowStore struct {
	account.Store
	before func()
}

func (s slowStore) CreateSession(ctx context.Context, ses account.Session) error {
	if s.before != nil {
		s.before()
	}
	return s.Store.CreateSession(ctx, ses)
}

// TestSignInWithAPasswordThatIsJustChanged: whoever changes a password because
// somebody else knows it keeps them out from then on.
func TestSignInWithAPasswordThatIsJustChanged(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		change func(u *account.User)
		in     bool
	}{
		{"password", func(u *account.User) {
			u.Password = "$argon2id$v=19$m=8,t=1,p=1$AAAAAAAAAAAAAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
		}, false},
		{"disabled", func(u *account.User) { u.Disabled = time.Now() }, false},
		{"name", func(u *account.User) { u.Name = "Somebody" }, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, account.Config{})
			jane := w.user("jane", account.Member)
			s, err := account.New(slowStore{w.store, func() {
				if _, err := w.store.UpdateUser(t.Context(), jane.ID, true, func(u *account.User) error {
					tt.change(u)
					return nil
				}); err != nil {
					t.Error(err)
				}
			}}, w.cfg, slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			if _, err = s.SignIn(t.Context(), "jane", password, caller); tt.in && err != nil {
				t.Error(err)
			} else if !tt.in {
				wantKind(t, err, fault.Unauthenticated)
			}
			if all, err := w.store.SessionsOf(t.Context(), jane.ID); err != nil || len(all) > 0 != tt.in {
				t.Errorf("%d sessions are there, %v", len(all), err)
			}
		})
	}
}
