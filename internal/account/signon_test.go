package account_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"assay/internal/account"
	"assay/internal/fault"
)

// idp is a provider whose codes are names of identities. Package oidc tests the
// real one over the network.
type idp map[string]account.Identity

func (p idp) AuthURL(_ context.Context, state, nonce, _ string) (string, error) {
	return "https://idp.example/?state=" + state + "&nonce=" + nonce, nil
}

func (p idp) Identify(_ context.Context, code, nonce, verifier string) (account.Identity, error) {
	id, ok := p[code]
	if !ok || nonce == "" || len(verifier) < 43 {
		return account.Identity{}, fault.Errorf(fault.Denied, "no")
	}
	return id, nil
}

func person(sub, email string) account.Identity {
	return account.Identity{Issuer: "https://idp.example", Subject: sub, Email: email, Verified: true, Name: "Name of " + sub}
}

func (w *world) signOn(code string) (account.SignedIn, string, error) {
	w.t.Helper()
	_, state, err := w.StartSignOn(w.nobody, "/problems?x=1", caller)
	if err != nil {
		w.t.Fatal(err)
	}
	return w.FinishSignOn(w.nobody, state, state, code, caller)
}

func TestSignOn(t *testing.T) {
	t.Parallel()
	p := idp{"jane": person("1", "Jane@Example.org")}
	w := newWorld(t, account.Config{OIDC: account.OIDCConfig{Provider: p, Domains: []string{"example.ORG"}, Role: account.Staff}})
	in, next, err := w.signOn("jane")
	must(t, err)
	if u := in.User; u.Login != "jane" || u.Role != account.Staff || u.Email != "Jane@Example.org" || u.Name != "Name of 1" || next != "/problems?x=1" || !w.signedIn(in.Secret) {
		t.Errorf("got %+v, next %q", u, next)
	}
	again, _, err := w.signOn("jane")
	must(t, err)
	if again.User.ID != in.User.ID {
		t.Error("the same person is another user")
	}
	_, err = w.SignIn(w.nobody, "jane", "", caller)
	wantKind(t, err, fault.Unauthenticated)
	_, err = w.ChangeUser(w.root, "jane", account.UserPatch{Disabled: ptr(true)})
	must(t, err)
	_, _, err = w.signOn("jane")
	wantKind(t, err, fault.Denied)
}

func TestSignOnRefuses(t *testing.T) {
	t.Parallel()
	unsure := person("2", "x@example.org")
	unsure.Verified = false
	p := idp{
		"outside": person("1", "x@evil.example"), "unsure": unsure, "sub": person("3", "x@sub.example.org"),
		"suffix": person("4", "x@notexample.org"), "two": person("5", "x@example.org@evil.example"), "none": person("6", ""),
		"nobody": {Email: "x@example.org", Verified: true},
	}
	w := newWorld(t, account.Config{OIDC: account.OIDCConfig{Provider: p, Domains: []string{"example.org"}}})
	for code := range p {
		if _, _, err := w.signOn(code); !fault.Is(err, fault.Denied) {
			t.Errorf("%s: got %v", code, err)
		}
	}
	if _, _, err := w.signOn("no such code"); !fault.Is(err, fault.Denied) {
		t.Errorf("got %v", err)
	}
	all, err := w.Users(w.root, "", 10)
	must(t, err)
	if len(all) != 1 {
		t.Errorf("users were made: %+v", all)
	}
}

// TestSignOnIsBoundToTheBrowser: what comes back counts once, in the browser
// where it began, and not for long.
func TestSignOnIsBoundToTheBrowser(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, account.Config{OIDC: account.OIDCConfig{Provider: idp{"jane": person("1", "jane@example.org")}}})
		start := func() string {
			_, state, err := w.StartSignOn(w.nobody, "/", caller)
			must(t, err)
			return state
		}
		for _, tt := range []struct{ state, cookie string }{{start(), start()}, {start(), ""}, {"", ""}, {"x", "x"}} {
			_, _, err := w.FinishSignOn(w.nobody, tt.state, tt.cookie, "jane", caller)
			wantKind(t, err, fault.Denied)
		}
		state := start()
		_, _, err := w.FinishSignOn(w.nobody, state, state, "jane", caller)
		must(t, err)
		_, _, err = w.FinishSignOn(w.nobody, state, state, "jane", caller)
		wantKind(t, err, fault.Denied)
		state = start()
		time.Sleep(10 * time.Minute)
		_, _, err = w.FinishSignOn(w.nobody, state, state, "jane", caller)
		wantKind(t, err, fault.Denied)
	})
}

// TestSignOnTakesNoAccountOver: an address alone opens only an account that an
// admin made for it and nobody has used.
func TestSignOnTakesNoAccountOver(t *testing.T) {
	t.Parallel()
	unsure := person("9", "invited@example.org")
	unsure.Verified = false
	p := idp{"jane": person("1", "jane@example.org"), "invited": person("2", "INVITED@example.org"), "unsure": unsure}
	w := newWorld(t, account.Config{OIDC: account.OIDCConfig{Provider: p}})
	jane := w.user("jane", account.Admin)
	_, err := w.ChangeUser(w.root, "jane", account.UserPatch{Email: ptr("jane@example.org")})
	must(t, err)
	in, _, err := w.signOn("jane")
	must(t, err)
	if in.User.ID == jane.ID || in.User.Role != account.Member || in.User.Login != "jane-2" {
		t.Errorf("an account with a password was taken over: %+v", in.User)
	}
	invited, err := w.CreateUser(w.root, account.NewUser{Login: "teacher", Email: "invited@example.org", Role: account.Staff})
	must(t, err)
	in, _, err = w.signOn("unsure")
	must(t, err)
	if in.User.ID == invited.ID {
		t.Error("an address that nobody checked opened the account")
	}
	in, _, err = w.signOn("invited")
	must(t, err)
	if in.User.ID != invited.ID || in.User.Role != account.Staff {
		t.Errorf("the invited one got %+v", in.User)
	}
	in, _, err = w.signOn("invited")
	must(t, err)
	if in.User.ID != invited.ID {
		t.Error("the invited one is another user the second time")
	}
}

func TestNoSignOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, account.Config{})
	if w.SignOnName() != "" {
		t.Error("the page would offer it")
	}
	_, _, err := w.StartSignOn(w.nobody, "/", caller)
	wantKind(t, err, fault.Unsupported)
	_, _, err = w.FinishSignOn(w.nobody, "a", "a", "b", caller)
	wantKind(t, err, fault.Unsupported)
}
