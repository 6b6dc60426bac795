package account

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"assay/internal/fault"
)

// Flow is a sign-in that has gone to the OIDC provider and not come back.
type Flow struct {
	StateHash       string
	Nonce, Verifier string
	// Next is where the browser goes afterwards, a path of this server.
	Next    string
	Expires time.Time
}

// Identity is who came back from the provider, as it says.
type Identity struct {
	Issuer, Subject string
	// Login is what the provider calls the person; it may be anything.
	Login, Name string
	Email       string
	// Verified says that the provider has checked that the address is theirs.
	Verified bool
}

// flowLife is how long somebody may take at the provider.
const flowLife = 10 * time.Minute

// SignOnName is what the sign-in page calls the provider; "" is none.
func (s *Service) SignOnName() string {
	if s.cfg.OIDC.Provider == nil {
		return ""
	}
	return s.cfg.OIDC.Name
}

// StartSignOn gives the URL of the provider, and the state that must be kept in
// a cookie: it binds what comes back to this browser.
func (s *Service) StartSignOn(ctx context.Context, next string, from Caller) (where, state string, err error) {
	if s.cfg.OIDC.Provider == nil {
		return "", "", fault.Errorf(fault.Unsupported, "this server has no single sign-on").WithHint("sign in with a password")
	}
	if err := s.addresses.allow(from.Address); err != nil {
		return "", "", err
	}
	state = newSecret("")
	f := Flow{StateHash: hashSecret(state), Nonce: newSecret(""), Verifier: newSecret("") + newSecret(""), Next: next, Expires: now().Add(flowLife)}
	if where, err = s.cfg.OIDC.Provider.AuthURL(ctx, state, f.Nonce, f.Verifier); err != nil {
		return "", "", err
	}
	return where, state, s.store.CreateFlow(ctx, f)
}

// FinishSignOn signs in who came back from the provider with a state and a
// code. The state must be the one of the browser's cookie. It gives where the
// browser goes.
func (s *Service) FinishSignOn(ctx context.Context, state, cookie, code string, from Caller) (SignedIn, string, error) {
	if s.cfg.OIDC.Provider == nil {
		return SignedIn{}, "", fault.Errorf(fault.Unsupported, "this server has no single sign-on")
	}
	if state == "" || state != cookie {
		return SignedIn{}, "", fault.Errorf(fault.Denied, "this sign-in did not begin in this browser").WithHint("begin again from the sign-in page")
	}
	f, err := s.store.TakeFlow(ctx, hashSecret(state))
	if fault.Is(err, fault.NotFound) || err == nil && !now().Before(f.Expires) {
		return SignedIn{}, "", fault.Errorf(fault.Denied, "this sign-in took too long, or was used before").WithHint("begin again from the sign-in page")
	}
	if err != nil {
		return SignedIn{}, "", err
	}
	id, err := s.cfg.OIDC.Provider.Identify(ctx, code, f.Nonce, f.Verifier)
	if err != nil {
		return SignedIn{}, "", err
	}
	u, err := s.userOf(ctx, id)
	if err != nil {
		return SignedIn{}, "", err
	}
	in, err := s.begin(ctx, u, from)
	return in, f.Next, err
}

// userOf finds or makes the user whom the provider names.
func (s *Service) userOf(ctx context.Context, id Identity) (User, error) {
	if id.Issuer == "" || id.Subject == "" {
		return User{}, fault.Errorf(fault.Denied, "the provider does not say who you are")
	}
	if err := s.welcome(id); err != nil {
		return User{}, err
	}
	subject := id.Issuer + " " + id.Subject
	u, err := s.store.UserBySubject(ctx, subject)
	switch {
	case err == nil && !u.Disabled.IsZero():
		return User{}, fault.Errorf(fault.Denied, "this account is disabled").WithHint("ask an admin")
	case err == nil || !fault.Is(err, fault.NotFound):
		return u, err
	}
	if u, found, err := s.invited(ctx, id, subject); found || err != nil {
		return u, err
	}
	return s.newcomer(ctx, id, subject)
}

// welcome says whether the person's address is let in.
func (s *Service) welcome(id Identity) error {
	if len(s.cfg.OIDC.Domains) == 0 {
		return nil
	}
	_, domain, _ := strings.Cut(id.Email, "@")
	if !id.Verified {
		return fault.Errorf(fault.Denied, "the provider has not checked your e-mail address").WithHint("confirm it there first")
	}
	if !slices.ContainsFunc(s.cfg.OIDC.Domains, func(d string) bool { return strings.EqualFold(d, domain) }) {
		return fault.Errorf(fault.Denied, "addresses of %.80q are not let in here", domain).WithHint("sign in there with another address, or ask an admin")
	}
	return nil
}

// invited finds the account that an admin made for this address and nobody has
// used. One that has a password is not taken over: the address alone does not
// show that it is the same person's.
func (s *Service) invited(ctx context.Context, id Identity, subject string) (User, bool, error) {
	if !id.Verified || id.Email == "" {
		return User{}, false, nil
	}
	all, err := s.store.UsersByEmail(ctx, id.Email)
	if err != nil || len(all) != 1 {
		return User{}, false, err
	}
	u := all[0]
	if u.Password != "" || u.Subject != "" || !u.Disabled.IsZero() {
		return User{}, false, nil
	}
	u, err = s.store.UpdateUser(ctx, u.ID, false, func(u *User) error {
		if u.Password != "" || u.Subject != "" || !u.Disabled.IsZero() {
			return fault.Errorf(fault.Conflict, "the account %s has just been taken", u.Login).WithHint("try again")
		}
		u.Subject = subject
		return nil
	})
	return u, true, err
}

// newcomer makes an account for who comes for the first time.
func (s *Service) newcomer(ctx context.Context, id Identity, subject string) (User, error) {
	u := User{ID: newID("usr_"), Role: s.cfg.OIDC.Role, Subject: subject, Created: now(), Name: cutText(strings.TrimSpace(id.Name), maxName)}
	if email, err := cleanEmail(id.Email); err == nil && id.Verified {
		u.Email = email
	}
	local, _, _ := strings.Cut(id.Email, "@")
	base := "user"
	for _, name := range []string{id.Login, local} {
		if login, err := cleanLogin(name); err == nil {
			base = login
			break
		}
	}
	base = base[:min(len(base), maxLogin-4)]
	for n := 1; n < 1000; n++ {
		u.Login = base
		if n > 1 {
			u.Login = fmt.Sprintf("%s-%d", base, n)
		}
		err := s.store.CreateUser(ctx, u)
		if !fault.Is(err, fault.Conflict) {
			return u, err
		}
		// The same person in two windows is one account.
		if have, err := s.store.UserBySubject(ctx, subject); err == nil {
			return have, nil
		}
	}
	return User{}, fault.Errorf(fault.Exhausted, "no login is left for %q", base).WithHint("ask an admin to make an account")
}
