package account

import (
	"context"
	"slices"
	"strings"
	"time"

	"assay/internal/fault"
)

// Session is a browser in which somebody is signed in.
type Session struct {
	ID string
	// Hash is that of the secret in the cookie.
	Hash string
	User string
	// From and Agent are where it began: an address and a browser.
	From, Agent string
	Created     time.Time
	Seen        time.Time
	// Idle and Expires are when it ends: unless it is used, and in any case.
	Idle, Expires time.Time
}

// works reports whether the session has not ended at a time.
func (s Session) works(at time.Time) bool { return at.Before(s.Idle) && at.Before(s.Expires) }

// Is reports whether a secret is that of the session.
func (s Session) Is(secret string) bool { return s.Hash == hashSecret(secret) }

// Caller is where a request comes from, as the door saw it.
type Caller struct {
	// Address is an IP address.
	Address string
	// Agent is what the program calls itself; nothing follows from it.
	Agent string
}

// SignedIn is somebody who has just signed in.
type SignedIn struct {
	User    User
	Session Session
	// Secret goes into the cookie; it is not kept.
	Secret string
}

// touchEvery is how exact the times of last use are; a write for each request
// would be too much.
const touchEvery = time.Minute

// errWrongLogin says the same of logins that are not there, have no password
// or are disabled.
func errWrongLogin() error {
	return fault.Errorf(fault.Unauthenticated, "wrong login or password").WithHint("an admin can give you a link to choose a new password")
}

// SignIn checks a password and begins a session. What is wrong with it is
// Unauthenticated, the same and after the same time whether or not there is
// such a login. Who guesses has to wait longer and longer: Limited.
func (s *Service) SignIn(ctx context.Context, login, password string, from Caller) (SignedIn, error) {
	login = strings.ToLower(strings.TrimSpace(login))
	if len(login) > maxLogin {
		// It is nobody's, but must cost no less and take no room in the store.
		login = login[:maxLogin]
	}
	note := NoteOf(ctx)
	if err := s.addresses.allow(from.Address); err != nil {
		return SignedIn{}, err
	}
	address := addressKey(from.Address)
	near, wide, house := "sign-in of "+login+" from "+address, "sign-in of "+login, "sign-in from "+address
	var u User
	if plain(login) {
		var err error
		if u, err = s.store.UserByLogin(ctx, login); err != nil && !fault.Is(err, fault.NotFound) {
			return SignedIn{}, err
		}
	}
	policies := map[string]guessPolicy{near: nearGuesses, house: houseGuesses}
	if at, err := s.isAt(ctx, u, address); err != nil {
		return SignedIn{}, err
	} else if !at {
		policies[wide] = wideGuesses
	}
	// Guesses are counted before they are checked: many at once are many.
	for _, key := range []string{near, wide, house} {
		if p, ok := policies[key]; ok {
			if err := s.guess(ctx, key, p); err != nil {
				return SignedIn{}, err
			}
		}
	}
	note.On(UserThing, "", "sign in as "+login)
	phc := u.Password
	if !u.Disabled.IsZero() {
		phc = ""
	}
	right, stale, err := s.hashes.check(ctx, phc, password)
	if err != nil {
		return SignedIn{}, err
	}
	if !right {
		return SignedIn{}, errWrongLogin()
	}
	for _, key := range []string{near, wide} {
		if err := s.forgive(ctx, key); err != nil {
			return SignedIn{}, err
		}
	}
	if err := s.takeBack(ctx, house); err != nil {
		return SignedIn{}, err
	}
	if stale {
		hash, err := s.hashes.hash(ctx, password)
		if err != nil {
			return SignedIn{}, err
		}
		// Conflict: another sign-in of theirs has done it.
		if err := s.store.SwapPassword(ctx, u.ID, u.Password, hash); err != nil && !fault.Is(err, fault.Conflict) {
			return SignedIn{}, err
		}
	}
	in, err := s.begin(ctx, u, from)
	if err != nil {
		return SignedIn{}, err
	}
	if err := s.stillRight(ctx, phc, password, in); err != nil {
		return SignedIn{}, err
	}
	return in, nil
}

// stillRight ends a session whose password was changed, or whose user was
// disabled, while it began: who did that has ended the sessions that there were
// then.
func (s *Service) stillRight(ctx context.Context, phc, password string, in SignedIn) error {
	u, err := s.store.User(ctx, in.User.ID)
	if err != nil {
		return err
	}
	right := u.Disabled.IsZero()
	if right && u.Password != phc {
		if right, _, err = s.hashes.check(ctx, u.Password, password); err != nil {
			return err
		}
	}
	if right {
		return nil
	}
	if err := s.store.EndSession(ctx, in.Session.Hash); err != nil {
		return err
	}
	return errWrongLogin()
}

// isAt reports whether the user is signed in somewhere in this network: such a
// one is not held back by what others try elsewhere.
func (s *Service) isAt(ctx context.Context, u User, network string) (bool, error) {
	if u.ID == "" {
		return false, nil
	}
	all, err := s.store.SessionsOf(ctx, u.ID)
	at := now()
	return slices.ContainsFunc(all, func(ses Session) bool { return ses.works(at) && addressKey(ses.From) == network }), err
}

// begin begins a session for somebody who has shown who they are. Its secret is
// always new: one that somebody has put into the browser before is worth nothing.
func (s *Service) begin(ctx context.Context, u User, from Caller) (SignedIn, error) {
	at := now()
	in := SignedIn{User: u, Secret: newSecret("")}
	in.Session = Session{
		ID: newID("ses_"), Hash: hashSecret(in.Secret), User: u.ID, From: from.Address, Agent: cutText(from.Agent, maxName),
		Created: at, Seen: at, Idle: at.Add(s.cfg.SessionIdle), Expires: at.Add(s.cfg.SessionLife),
	}
	note := NoteOf(ctx)
	note.By(actorOf(u))
	note.On(UserThing, u.ID, "sign in")
	return in, s.store.CreateSession(ctx, in.Session)
}

func actorOf(u User) Actor { return Actor{User: u.ID, Name: u.Login, Role: u.Role} }

// BySession says whose session a secret belongs to: nobody if it has ended or
// the user is disabled. It makes the session last longer.
func (s *Service) BySession(ctx context.Context, secret string) (Actor, error) {
	ses, u, err := s.store.Session(ctx, hashSecret(secret))
	if fault.Is(err, fault.NotFound) {
		return Actor{}, nil
	}
	if err != nil {
		return Actor{}, err
	}
	at := now()
	if !ses.works(at) || !u.Disabled.IsZero() {
		return Actor{}, nil
	}
	if at.Sub(ses.Seen) >= touchEvery {
		// A session that ends early is no reason to refuse this request.
		if err := s.store.TouchSession(ctx, ses.Hash, at, at.Add(s.cfg.SessionIdle)); err != nil {
			s.log.WarnContext(ctx, "note the use of a session", "session", ses.ID, "error", err)
		}
	}
	return actorOf(u), nil
}

// SignOut ends the session with this secret; one that is not there has ended.
func (s *Service) SignOut(ctx context.Context, secret string) error {
	return s.store.EndSession(ctx, hashSecret(secret))
}

// Sessions are the actor's own that have not ended.
func (s *Service) Sessions(ctx context.Context) ([]Session, error) {
	actor := ActorOf(ctx)
	if err := May(actor, Read, Thing{Kind: UserThing, ID: actor.User, Owner: actor.User}); err != nil {
		return nil, err
	}
	all, err := s.store.SessionsOf(ctx, actor.User)
	at := now()
	var live []Session
	for _, ses := range all {
		if ses.works(at) {
			live = append(live, ses)
		}
	}
	return live, err
}

// EndSessions ends all sessions of a user but the one with this secret ("" is
// all).
func (s *Service) EndSessions(ctx context.Context, idOrLogin, except string) error {
	u, err := s.userFor(ctx, Change, idOrLogin)
	if err != nil {
		return err
	}
	NoteOf(ctx).On(UserThing, u.ID, "end sessions")
	if except != "" {
		except = hashSecret(except)
	}
	return s.store.EndSessions(ctx, u.ID, except)
}
