package account_test

import (
	"errors"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"assay/internal/account"
	"assay/internal/fault"
)

// start begins a sign-in of a program.
func (w *world) device(scopes ...account.Scope) account.StartedDevice {
	w.t.Helper()
	d, err := w.StartDevice(w.nobody, "assay login on laptop", scopes, account.Caller{Address: "198.51.100.9"})
	if err != nil {
		w.t.Fatal(err)
	}
	return d
}

func TestDevice(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, account.Config{})
		jane := w.user("jane", account.Member)
		d := w.device(account.ScopeJudge)
		if !regexp.MustCompile(`^[BCDFGHJKLMNPQRSTVWXZ]{4}-[BCDFGHJKLMNPQRSTVWXZ]{4}$`).MatchString(d.UserCode) {
			t.Errorf("the user code is %q", d.UserCode)
		}
		poll := func(want error) (string, account.Token) {
			t.Helper()
			tok, secret, err := w.TakeDeviceToken(w.nobody, d.DeviceCode)
			if !errors.Is(err, want) {
				t.Errorf("got %v, want %v", err, want)
			}
			return secret, tok
		}
		poll(account.ErrDevicePending)
		time.Sleep(4 * time.Second)
		poll(account.ErrDeviceSlowDown)
		time.Sleep(9 * time.Second) // the interval is 10 s now
		poll(account.ErrDeviceSlowDown)
		time.Sleep(15 * time.Second)
		poll(account.ErrDevicePending)

		typed := " " + strings.ToLower(strings.Replace(d.UserCode, "-", " ", 1)) + " "
		got, err := w.WaitingDevice(w.as(jane), typed)
		must(t, err)
		if got.Client != "assay login on laptop" || got.From != "198.51.100.9" || len(got.Scopes) != 1 {
			t.Errorf("the page would show %+v", got)
		}
		_, err = w.DecideDevice(w.as(jane), typed, true)
		must(t, err)
		_, err = w.DecideDevice(w.root, typed, false)
		wantKind(t, err, fault.NotFound)

		time.Sleep(15 * time.Second)
		secret, tok := poll(nil)
		a, err := w.ByToken(w.nobody, secret)
		must(t, err)
		if a.User != jane.ID || !a.Has(account.ScopeJudge) || a.Has(account.ScopeAccounts) || tok.Name != "assay login on laptop" {
			t.Errorf("the token is %+v, %+v", a, tok)
		}
		time.Sleep(time.Minute)
		poll(account.ErrDeviceExpired)
	})
}

func TestDeviceDeniedOrLate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, account.Config{})
		denied, late := w.device(), w.device()
		_, err := w.DecideDevice(w.root, denied.UserCode, false)
		must(t, err)
		if _, _, err = w.TakeDeviceToken(w.nobody, denied.DeviceCode); !errors.Is(err, account.ErrDeviceDenied) {
			t.Errorf("got %v, want it denied", err)
		}
		time.Sleep(10 * time.Minute)
		for _, code := range []string{late.DeviceCode, "nonsense", "", "\x00"} {
			if _, _, err = w.TakeDeviceToken(w.nobody, code); !errors.Is(err, account.ErrDeviceExpired) {
				t.Errorf("%q: got %v, want it expired", code, err)
			}
		}
		_, err = w.DecideDevice(w.root, late.UserCode, true)
		wantKind(t, err, fault.NotFound)
		// Approved too late to be fetched is expired as well.
		d := w.device()
		_, err = w.DecideDevice(w.root, d.UserCode, true)
		must(t, err)
		time.Sleep(10 * time.Minute)
		if _, _, err = w.TakeDeviceToken(w.nobody, d.DeviceCode); !errors.Is(err, account.ErrDeviceExpired) {
			t.Errorf("got %v, want it expired", err)
		}
	})
}

// TestOnlyPeopleApprove: a token cannot approve, or it could make itself
// another one with more scopes.
func TestOnlyPeopleApprove(t *testing.T) {
	t.Parallel()
	w := newWorld(t, account.Config{})
	d := w.device()
	_, secret := w.token(w.root, account.NewToken{})
	_, err := w.DecideDevice(w.asToken(secret), d.UserCode, true)
	wantKind(t, err, fault.Denied)
	_, err = w.DecideDevice(w.nobody, d.UserCode, true)
	wantKind(t, err, fault.Unauthenticated)
	_, err = w.WaitingDevice(w.nobody, d.UserCode)
	wantKind(t, err, fault.Unauthenticated)
}

func TestUserCodesCannotBeGuessed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, account.Config{})
		mallory := w.user("mallory", account.Member)
		tries := 0
		for begin := time.Now(); time.Since(begin) < time.Hour; {
			_, err := w.WaitingDevice(w.as(mallory), "BCDF-GHJK")
			switch fault.KindOf(err) {
			case fault.NotFound:
				tries++
			case fault.Limited:
				time.Sleep(fault.AfterOf(err))
			default:
				t.Fatal(err)
			}
		}
		if tries > 40 {
			t.Errorf("%d guesses in an hour", tries)
		}
		// Others go on.
		_, err := w.WaitingDevice(w.root, w.device().UserCode)
		must(t, err)
	})
}

func TestDeviceNamesAreMadeSafe(t *testing.T) {
	t.Parallel()
	w := newWorld(t, account.Config{})
	d, err := w.StartDevice(w.nobody, "evil\r\nname\u202e\x00\xff"+strings.Repeat("x", 1000), nil, caller)
	must(t, err)
	got, err := w.WaitingDevice(w.root, d.UserCode)
	must(t, err)
	if !strings.HasPrefix(got.Client, "evilnamexxx") || len(got.Client) != 80 || len(got.Scopes) != len(account.Scopes()) {
		t.Errorf("the client is %q with scopes %v", got.Client, got.Scopes)
	}
	_, err = w.StartDevice(w.nobody, "x", []account.Scope{"root"}, caller)
	wantKind(t, err, fault.Invalid)
}
