package account_test

import (
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"assay/internal/account"
	"assay/internal/fault"
)

func TestTokens(t *testing.T) {
	t.Parallel()
	w := newWorld(t, account.Config{})
	jane := w.user("jane", account.Member)
	quotas := account.Quotas{SandboxesAtOnce: 2, CPUSecondsPerDay: 3600, DiskBytes: 1 << 30, Snapshots: 5}
	tok, secret := w.token(w.as(jane), account.NewToken{Scopes: []account.Scope{"judge", "class", "judge"}, Quotas: quotas})
	if !regexp.MustCompile(`^asy_[a-z0-9]{32}$`).MatchString(secret) {
		t.Errorf("the secret is %q", secret)
	}
	_, panda := w.token(w.as(jane), account.NewToken{Panda: true})
	if !regexp.MustCompile(`^pds_[a-z0-9]{32}$`).MatchString(panda) {
		t.Errorf("the secret is %q", panda)
	}
	got, err := w.ByToken(w.nobody, secret)
	must(t, err)
	want := account.Actor{User: jane.ID, Name: "jane", Role: account.Member, Token: tok.ID, Scopes: []account.Scope{"class", "judge"}, Quotas: quotas}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, wrong := range []string{"", "asy_", tok.ID, tok.Hash, secret + "x", secret[:len(secret)-1], strings.ToUpper(secret), "\x00", "pds_" + secret[4:]} {
		_, err := w.ByToken(w.nobody, wrong)
		wantKind(t, err, fault.Unauthenticated)
	}
	list, err := w.Tokens(w.as(jane), "", "", 10)
	must(t, err)
	for _, l := range list {
		if strings.Contains(l.Hash, secret) || l.Hash == "" {
			t.Errorf("what is kept is %q", l.Hash)
		}
	}
	if len(list) != 2 {
		t.Errorf("%d tokens are listed, want 2", len(list))
	}
}

func TestTokensEndAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, account.Config{TokenLife: 30 * day})
		jane := w.user("jane", account.Staff)
		short, shortSecret := w.token(w.as(jane), account.NewToken{Life: time.Hour})
		_, usual := w.token(w.as(jane), account.NewToken{})
		ever, everSecret := w.token(w.as(jane), account.NewToken{Life: -1})
		if !short.Expires.Equal(short.Created.Add(time.Hour)) || !ever.Expires.IsZero() {
			t.Errorf("they expire %v and %v", short.Expires, ever.Expires)
		}
		time.Sleep(time.Hour)
		if w.tokenWorks(shortSecret) || !w.tokenWorks(usual) {
			t.Error("one hour must end the short one only")
		}
		time.Sleep(30 * day)
		if w.tokenWorks(usual) || !w.tokenWorks(everSecret) {
			t.Error("thirty days must end the usual one only")
		}
		// A role that was taken away is gone in the next request.
		_, err := w.ChangeUser(w.root, "jane", account.UserPatch{Role: ptr(account.Member)})
		must(t, err)
		a, err := w.ByToken(w.nobody, everSecret)
		must(t, err)
		if a.Role != account.Member {
			t.Errorf("the token still is %s", a.Role)
		}
		_, err = w.ChangeUser(w.root, "jane", account.UserPatch{Disabled: ptr(true)})
		must(t, err)
		if w.tokenWorks(everSecret) {
			t.Error("the token of a disabled user works")
		}
		_, err = w.ChangeUser(w.root, "jane", account.UserPatch{Disabled: ptr(false)})
		must(t, err)
		if !w.tokenWorks(everSecret) {
			t.Error("the token does not work again")
		}
		must(t, w.RevokeToken(w.as(jane), ever.ID))
		must(t, w.RevokeToken(w.as(jane), ever.ID))
		if w.tokenWorks(everSecret) {
			t.Error("a revoked token works")
		}
	})
}

func TestTokenUseIsNotedOnceAMinute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, account.Config{})
		tok, secret := w.token(w.root, account.NewToken{})
		used := func() time.Time {
			t.Helper()
			got, err := w.store.Token(t.Context(), tok.ID)
			must(t, err)
			return got.Used
		}
		if !used().IsZero() {
			t.Error("it was never used")
		}
		w.tokenWorks(secret)
		first := used()
		time.Sleep(59 * time.Second)
		w.tokenWorks(secret)
		if !used().Equal(first) {
			t.Error("a use was written twice in a minute")
		}
		time.Sleep(time.Second)
		w.tokenWorks(secret)
		if got := used().Sub(first); got != time.Minute {
			t.Errorf("a use %s later was noted, want a minute", got)
		}
	})
}

// TestTokenMakesNoMore: a token cannot make one that reaches further, takes
// more or lives longer than itself.
func TestTokenMakesNoMore(t *testing.T) {
	t.Parallel()
	w := newWorld(t, account.Config{})
	jane := w.user("jane", account.Member)
	by, secret := w.token(w.as(jane), account.NewToken{
		Scopes: []account.Scope{account.ScopeAccounts, account.ScopeJudge}, Life: time.Hour,
		Quotas: account.Quotas{SandboxesAtOnce: 2, DiskBytes: 100},
	})
	ctx := w.asToken(secret)
	_, _, err := w.CreateToken(ctx, account.NewToken{Name: "x", Scopes: account.Scopes()})
	wantKind(t, err, fault.Denied)
	for _, life := range []time.Duration{0, -1, 24 * time.Hour} {
		child, _, err := w.CreateToken(ctx, account.NewToken{
			Name: "x", Scopes: []account.Scope{account.ScopeJudge}, Life: life, Quotas: account.Quotas{SandboxesAtOnce: 9, CPUSecondsPerDay: 7},
		})
		must(t, err)
		if want := (account.Quotas{SandboxesAtOnce: 2, CPUSecondsPerDay: 7, DiskBytes: 100}); child.Quotas != want {
			t.Errorf("quotas are %+v, want %+v", child.Quotas, want)
		}
		if !child.Expires.Equal(by.Expires) {
			t.Errorf("it expires %s, its maker %s", child.Expires, by.Expires)
		}
	}
	_, judge := w.token(w.as(jane), account.NewToken{Scopes: []account.Scope{account.ScopeJudge}})
	_, _, err = w.CreateToken(w.asToken(judge), account.NewToken{Name: "x", Scopes: []account.Scope{account.ScopeJudge}})
	wantKind(t, err, fault.Denied)
	wantKind(t, w.ChangePassword(ctx, password, "another good password", ""), fault.Denied)
}

func TestTokensOfOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, account.Config{})
	jane, staff := w.user("jane", account.Member), w.user("staff", account.Staff)
	tok, secret := w.token(w.as(jane), account.NewToken{})
	for _, id := range []string{tok.ID, "tok_none", "x\x00", strings.Repeat("x", 1000)} {
		wantKind(t, w.RevokeToken(w.as(staff), id), fault.NotFound)
	}
	for _, who := range []string{"jane", "*"} {
		_, err := w.Tokens(w.as(staff), who, "", 10)
		wantKind(t, err, fault.Denied)
		all, err := w.Tokens(w.root, who, "", 10)
		must(t, err)
		if len(all) != 1 || all[0].ID != tok.ID {
			t.Errorf("an admin sees %v of %s", all, who)
		}
	}
	must(t, w.RevokeToken(w.root, tok.ID))
	if w.tokenWorks(secret) {
		t.Error("an admin revoked it, it works")
	}
	wantKind(t, w.RevokeToken(w.root, "tok_none"), fault.NotFound)
	wantKind(t, w.RevokeToken(w.nobody, tok.ID), fault.Unauthenticated)
}

func TestTokenRevokesItself(t *testing.T) {
	t.Parallel()
	w := newWorld(t, account.Config{})
	other, _ := w.token(w.root, account.NewToken{Scopes: []account.Scope{account.ScopeJudge}})
	own, secret := w.token(w.root, account.NewToken{Scopes: []account.Scope{account.ScopeJudge}})
	wantKind(t, w.RevokeToken(w.asToken(secret), other.ID), fault.Denied)
	must(t, w.RevokeToken(w.asToken(secret), own.ID))
	if w.tokenWorks(secret) {
		t.Error("it works")
	}
}

func TestBadTokensAreRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, account.Config{})
	judge := []account.Scope{account.ScopeJudge}
	for name, n := range map[string]account.NewToken{
		"no_name":    {Scopes: judge},
		"blank_name": {Name: " \t", Scopes: judge},
		"header":     {Name: "a\r\nSet-Cookie: x=y", Scopes: judge},
		"bidi":       {Name: "a\u202eb", Scopes: judge},
		"long":       {Name: strings.Repeat("ü", 81), Scopes: judge},
		"no_utf8":    {Name: "a\xff", Scopes: judge},
		"no_scope":   {Name: "a"},
		"scope":      {Name: "a", Scopes: []account.Scope{"everything"}},
		"quota":      {Name: "a", Scopes: judge, Quotas: account.Quotas{Snapshots: -1}},
	} {
		t.Run(name, func(t *testing.T) {
			_, secret, err := w.CreateToken(w.root, n)
			wantKind(t, err, fault.Invalid)
			if secret != "" {
				t.Error("it gave a secret all the same")
			}
		})
	}
	_, _, err := w.CreateToken(w.root, account.NewToken{Name: strings.Repeat("ü", 80), Scopes: judge, Life: 1<<63 - 1})
	must(t, err)
	_, _, err = w.CreateToken(w.nobody, account.NewToken{Name: "a", Scopes: judge})
	wantKind(t, err, fault.Unauthenticated)
}
