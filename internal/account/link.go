package account

import (
	"context"
	"time"

	"assay/internal/fault"
)

// Link lets somebody choose a password, once.
type Link struct {
	// Hash is that of the code.
	Hash string
	// User is whose password it sets; "" makes the first admin.
	User    string
	Created time.Time
	Expires time.Time
	// By is the user who made it; "" is the system.
	By string
}

// SetupCode gives the code of a new one-time link with which somebody becomes
// the first admin; "" if there is an admin. Earlier codes work until one is
// used: several processes may start at once.
func (s *Service) SetupCode(ctx context.Context) (string, error) {
	has, err := s.store.HasAdmin(ctx)
	if err != nil || has {
		return "", err
	}
	code, _, err := s.newLink(ctx, "", "")
	return code, err
}

func (s *Service) newLink(ctx context.Context, user, by string) (string, Link, error) {
	code, at := newSecret(""), now()
	l := Link{Hash: hashSecret(code), User: user, Created: at, Expires: at.Add(s.cfg.LinkLife), By: by}
	return code, l, s.store.CreateLink(ctx, l)
}

// CreateLink gives the code of a one-time link with which a user chooses a
// password: an invitation, or the way back for who has forgotten it. It is for
// admins.
func (s *Service) CreateLink(ctx context.Context, idOrLogin string) (string, Link, error) {
	actor := ActorOf(ctx)
	u, err := s.userFor(ctx, Change, idOrLogin)
	if err != nil {
		return "", Link{}, err
	}
	// Who may change only themselves must know their password for it.
	if err := May(actor, Change, Thing{Kind: UserThing}); err != nil {
		return "", Link{}, err
	}
	if !u.Disabled.IsZero() {
		return "", Link{}, fault.Errorf(fault.Conflict, "user %s is disabled", u.Login).WithHint("enable the account first")
	}
	NoteOf(ctx).On(UserThing, u.ID, "one-time link")
	return s.newLink(ctx, u.ID, actor.User)
}

// errLink says the same of links that were used, have expired or never were.
func errLink() error {
	return fault.Errorf(fault.NotFound, "this link does not work, or no longer").WithHint("a link works once; ask an admin for a new one, or start the server again if there is no admin yet")
}

// OpenLink says what a link is for: its user, or the zero User if it makes the
// first admin.
func (s *Service) OpenLink(ctx context.Context, code string, from Caller) (Link, User, error) {
	if err := s.addresses.allow(from.Address); err != nil {
		return Link{}, User{}, err
	}
	l, err := s.store.Link(ctx, hashSecret(code))
	if fault.Is(err, fault.NotFound) || err == nil && !now().Before(l.Expires) {
		return Link{}, User{}, errLink()
	}
	if err != nil || l.User == "" {
		return l, User{}, err
	}
	u, err := s.store.User(ctx, l.User)
	if err == nil && !u.Disabled.IsZero() {
		err = errLink()
	}
	return l, u, err
}

// UseLink sets the password of the link's user and signs them in; all their
// other sessions end. For the link of the first admin, first says who that is.
func (s *Service) UseLink(ctx context.Context, code string, first NewUser, password string, from Caller) (SignedIn, error) {
	l, u, err := s.OpenLink(ctx, code, from)
	if err != nil {
		return SignedIn{}, err
	}
	if l.User == "" {
		first.Role = Admin
		if u, err = newUser(first); err != nil {
			return SignedIn{}, err
		}
	}
	if err := checkPassword(u.Login, password); err != nil {
		return SignedIn{}, err
	}
	if u.Password, err = s.hashes.hash(ctx, password); err != nil {
		return SignedIn{}, err
	}
	err = s.store.UseLink(ctx, l.Hash, u)
	if fault.Is(err, fault.NotFound) {
		err = errLink()
	}
	if err != nil {
		return SignedIn{}, err
	}
	in, err := s.begin(ctx, u, from)
	if l.User == "" {
		NoteOf(ctx).On(UserThing, u.ID, "first admin "+u.Login)
	} else {
		NoteOf(ctx).On(UserThing, u.ID, "password by one-time link")
	}
	return in, err
}
