package account_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"assay/internal/account"
	"assay/internal/fault"
)

func TestFirstAdmin(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, path: t.TempDir() + "/assay.db", cfg: account.Config{Hash: cheap}, nobody: t.Context()}
		w.start()
		first, err := w.SetupCode(t.Context())
		must(t, err)
		w.start()
		second, err := w.SetupCode(t.Context())
		must(t, err)
		if first == second || len(first) < 32 {
			t.Errorf("codes %q and %q", first, second)
		}
		_, err = w.UseLink(w.nobody, first, account.NewUser{Login: "root"}, "short", caller)
		wantKind(t, err, fault.Invalid)
		_, err = w.UseLink(w.nobody, first, account.NewUser{Login: "no spaces"}, password, caller)
		wantKind(t, err, fault.Invalid)
		// The role is not the reader's to choose.
		in, err := w.UseLink(w.nobody, first, account.NewUser{Login: "root", Role: account.Member}, password, caller)
		must(t, err)
		if in.User.Role != account.Admin || !w.signedIn(in.Secret) {
			t.Errorf("the first admin is %+v", in.User)
		}
		for _, code := range []string{first, second, "", "\x00"} {
			_, err = w.UseLink(w.nobody, code, account.NewUser{Login: "mallory"}, password, caller)
			wantKind(t, err, fault.NotFound)
		}
		if code, err := w.SetupCode(t.Context()); code != "" || err != nil {
			t.Errorf("with an admin: %q, %v; want no link", code, err)
		}
		_, err = w.SignIn(w.nobody, "root", password, caller)
		must(t, err)
	})
}

func TestLinksExpire(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, account.Config{})
		jane := w.user("jane", account.Member)
		code, link, err := w.CreateLink(w.root, "jane")
		must(t, err)
		if got := link.Expires.Sub(link.Created); got != day {
			t.Errorf("a link works for %s", got)
		}
		time.Sleep(day)
		_, _, err = w.OpenLink(w.nobody, code, caller)
		wantKind(t, err, fault.NotFound)
		_, err = w.UseLink(w.nobody, code, account.NewUser{}, password, caller)
		wantKind(t, err, fault.NotFound)

		code, _, err = w.CreateLink(w.root, "jane")
		must(t, err)
		_, err = w.ChangeUser(w.root, "jane", account.UserPatch{Disabled: ptr(true)})
		must(t, err)
		_, err = w.UseLink(w.nobody, code, account.NewUser{}, password, caller)
		wantKind(t, err, fault.NotFound)
		_, _, err = w.CreateLink(w.root, "jane")
		wantKind(t, err, fault.Conflict)

		for _, u := range []account.User{jane, w.user("staff", account.Staff)} {
			_, _, err = w.CreateLink(w.as(u), "jane")
			if err == nil {
				t.Errorf("%s made a link", u.Login)
			}
			_, _, err = w.CreateLink(w.as(u), "root")
			if err == nil {
				t.Errorf("%s made a link for the admin", u.Login)
			}
		}
	})
}

// TestNewPasswordEndsSessions: who takes an account back has it alone.
func TestNewPasswordEndsSessions(t *testing.T) {
	t.Parallel()
	w := newWorld(t, account.Config{})
	jane := w.user("jane", account.Member)
	mine, err := w.SignIn(w.nobody, "jane", password, caller)
	must(t, err)
	other, err := w.SignIn(w.nobody, "jane", password, caller)
	must(t, err)
	wantKind(t, w.ChangePassword(w.as(jane), "not the old one", "another good password", mine.Secret), fault.Denied)
	wantKind(t, w.ChangePassword(w.as(jane), password, "jane", mine.Secret), fault.Invalid)
	must(t, w.ChangePassword(w.as(jane), password, "another good password", mine.Secret))
	if !w.signedIn(mine.Secret) || w.signedIn(other.Secret) {
		t.Error("the session that changed the password must stay alone")
	}
	_, err = w.SignIn(w.nobody, "jane", password, caller)
	wantKind(t, err, fault.Unauthenticated)
	_, err = w.SignIn(w.nobody, "jane", "another good password", caller)
	must(t, err)
	code, _, err := w.CreateLink(w.root, "jane")
	must(t, err)
	_, err = w.UseLink(w.nobody, code, account.NewUser{Login: "other", Role: account.Admin}, "a third good password", caller)
	must(t, err)
	if w.signedIn(mine.Secret) {
		t.Error("a session lived through a new password")
	}
	u, err := w.User(w.root, jane.ID)
	must(t, err)
	if u.Role != account.Member || u.Login != "jane" {
		t.Errorf("the link changed more than the password: %+v", u)
	}
}

func TestDisabledAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, account.Config{})
	jane := w.user("jane", account.Member)
	in, err := w.SignIn(w.nobody, "jane", password, caller)
	must(t, err)
	d := w.device()
	_, err = w.DecideDevice(w.as(jane), d.UserCode, true)
	must(t, err)
	_, err = w.ChangeUser(w.root, "jane", account.UserPatch{Disabled: ptr(true)})
	must(t, err)
	if w.signedIn(in.Secret) {
		t.Error("the session works")
	}
	// The token that was approved before can be fetched, and works no more.
	if _, secret, err := w.TakeDeviceToken(w.nobody, d.DeviceCode); err == nil && w.tokenWorks(secret) {
		t.Error("a token of a disabled user works")
	}
	_, err = w.ChangeUser(w.root, "jane", account.UserPatch{Disabled: ptr(false)})
	must(t, err)
	if w.signedIn(in.Secret) {
		t.Error("an old session came back")
	}
}

func TestWhoChangesWhom(t *testing.T) {
	t.Parallel()
	w := newWorld(t, account.Config{})
	jane, staff := w.user("jane", account.Member), w.user("staff", account.Staff)
	u, err := w.ChangeUser(w.as(jane), "jane", account.UserPatch{Name: ptr(" Jane Doe ")})
	must(t, err)
	if u.Name != "Jane Doe" {
		t.Errorf("got %+v", u)
	}
	if u, err = w.ChangeUser(w.root, "jane", account.UserPatch{Email: ptr("jane@example.org")}); err != nil || u.Email != "jane@example.org" {
		t.Errorf("got %+v, %v", u, err)
	}
	for _, actor := range []account.User{jane, staff} {
		for _, p := range []account.UserPatch{{Role: ptr(account.Admin)}, {Disabled: ptr(true)}, {Email: ptr("teacher@example.org")}} {
			_, err = w.ChangeUser(w.as(actor), actor.ID, p)
			wantKind(t, err, fault.Denied)
		}
	}
	// Members cannot tell who is there.
	for _, who := range []string{"root", w.admin.ID, "nobody", "usr_none", "a b", "x\x00"} {
		_, err = w.User(w.as(jane), who)
		wantKind(t, err, fault.NotFound)
		if want := "there is no user " + who; err.Error() != want {
			t.Errorf("got %q, want %q", err, want)
		}
	}
	_, err = w.User(w.as(staff), "root")
	must(t, err)
	_, err = w.ChangeUser(w.as(staff), "jane", account.UserPatch{Name: ptr("X")})
	wantKind(t, err, fault.Denied)
	_, err = w.Users(w.as(jane), "", 10)
	wantKind(t, err, fault.Denied)
	_, err = w.CreateUser(w.as(staff), account.NewUser{Login: "x", Role: account.Member})
	wantKind(t, err, fault.Denied)
	_, err = w.ChangeUser(w.root, "root", account.UserPatch{Role: ptr(account.Member)})
	wantKind(t, err, fault.Conflict)
	_, err = w.AuditLog(w.as(staff), account.AuditQuery{})
	wantKind(t, err, fault.Denied)
}

func TestBadUsersAreRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, account.Config{})
	for name, n := range map[string]account.NewUser{
		"no_login":   {Role: account.Member},
		"spaces":     {Login: "a b", Role: account.Member},
		"slash":      {Login: "a/b", Role: account.Member},
		"header":     {Login: "a\r\nb", Role: account.Member},
		"long":       {Login: strings.Repeat("a", 65), Role: account.Member},
		"accents":    {Login: "jané", Role: account.Member},
		"dot_first":  {Login: ".a", Role: account.Member},
		"role":       {Login: "a", Role: "owner"},
		"no_role":    {Login: "a"},
		"name":       {Login: "a", Name: "a\nb", Role: account.Member},
		"long_name":  {Login: "a", Name: strings.Repeat("x", 201), Role: account.Member},
		"address":    {Login: "a", Email: "nowhere", Role: account.Member},
		"addressed":  {Login: "a", Email: "A <a@b.c>", Role: account.Member},
		"header_too": {Login: "a", Email: "a@b.c\r\nBcc: d@e.f", Role: account.Member},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := w.CreateUser(w.root, n)
			wantKind(t, err, fault.Invalid)
		})
	}
	_, err := w.CreateUser(w.root, account.NewUser{Login: "Root", Role: account.Member})
	wantKind(t, err, fault.Conflict)
}

func TestAuditNote(t *testing.T) {
	t.Parallel()
	w := newWorld(t, account.Config{})
	ctx, note := account.WithNote(w.root)
	u, err := w.CreateUser(ctx, account.NewUser{Login: "jane", Role: account.Staff})
	must(t, err)
	e := note.Entry(account.ActorOf(ctx))
	if e.Who != w.admin.ID || e.Thing != account.UserThing || e.Target != u.ID || e.Detail != "login jane, role staff" || !note.Set() {
		t.Errorf("the entry is %+v", e)
	}
	// A sign-in says who it was.
	ctx, note = account.WithNote(w.nobody)
	in, err := w.SignIn(ctx, "root", password, caller)
	must(t, err)
	e = note.Entry(account.ActorOf(ctx))
	if e.Who != w.admin.ID || e.Name != "root" || e.Detail != "sign in" {
		t.Errorf("the entry is %+v", e)
	}
	for _, secret := range []string{in.Secret, password} {
		if strings.Contains(e.Detail+e.Target, secret) {
			t.Error("a secret is in the entry")
		}
	}
	ctx, note = account.WithNote(w.nobody)
	_, err = w.SignIn(ctx, "root", "wrong password", caller)
	wantKind(t, err, fault.Unauthenticated)
	if e = note.Entry(account.ActorOf(ctx)); e.Who != "" || e.Detail != "sign in as root" {
		t.Errorf("the entry is %+v", e)
	}
	must(t, w.Audit(w.nobody, account.Entry{Action: "a"}, account.Entry{Action: "b", Detail: "x\n" + strings.Repeat("y", 1000)}))
	log, err := w.AuditLog(w.root, account.AuditQuery{Limit: 1000})
	must(t, err)
	if len(log) != 2 || log[0].At.IsZero() || log[0].ID == log[1].ID || len(log[0].Detail)+len(log[1].Detail) != 500 {
		t.Errorf("the log is %+v", log)
	}
}
