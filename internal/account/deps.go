package account

import (
	"context"
	"time"
)

// Store keeps what the Service knows. It may be used from many goroutines and
// by many processes at once. Instants are kept to the microsecond. What is not
// there is NotFound.
type Store interface {
	Users
	Sessions
	Tokens
	Devices
	Links
	Flows
	Guesses
	AuditLog
	// Sweep removes what expired before now: sessions, devices, links, flows,
	// and guesses whose last is older than a day. Tokens, users and the audit
	// log stay.
	Sweep(ctx context.Context, now time.Time) error
}

// Users are the people.
type Users interface {
	// CreateUser refuses a login or a subject that is taken: Conflict.
	CreateUser(ctx context.Context, u User) error
	User(ctx context.Context, id string) (User, error)
	UserByLogin(ctx context.Context, login string) (User, error)
	UserBySubject(ctx context.Context, subject string) (User, error)
	// UsersByEmail are those with this address, whatever its case.
	UsersByEmail(ctx context.Context, email string) ([]User, error)
	// Users are at most limit whose login comes after one, by login.
	Users(ctx context.Context, after string, limit int) ([]User, error)
	// UpdateUser runs change on a user while nobody else changes users, and
	// keeps what it made of it if it returns nil. ID, login and creation stay.
	// With endSessions the user's sessions end in the same moment. A change
	// that would leave no admin who is not disabled is a Conflict.
	UpdateUser(ctx context.Context, id string, endSessions bool, change func(*User) error) (User, error)
	// SwapPassword replaces the password's hash if it is still old.
	SwapPassword(ctx context.Context, id, old, hash string) error
	// HasAdmin says whether there is an admin who is not disabled.
	HasAdmin(ctx context.Context) (bool, error)
}

// Sessions are those who are signed in with a browser.
type Sessions interface {
	CreateSession(ctx context.Context, s Session) error
	// Session finds one by the hash of its secret, with its user. It may have
	// expired.
	Session(ctx context.Context, hash string) (Session, User, error)
	// TouchSession moves the end of idleness.
	TouchSession(ctx context.Context, hash string, seen, idle time.Time) error
	// SessionsOf are a user's, the latest first.
	SessionsOf(ctx context.Context, user string) ([]Session, error)
	// EndSession ends one by the hash of its secret; one that is not there has
	// ended.
	EndSession(ctx context.Context, hash string) error
	// EndSessions ends all of a user but the one with this hash; "" is all.
	EndSessions(ctx context.Context, user, except string) error
}

// Tokens are the keys of programs.
type Tokens interface {
	CreateToken(ctx context.Context, t Token) error
	// Token finds one by its ID.
	Token(ctx context.Context, id string) (Token, error)
	// TokenByHash finds one by the hash of its secret, with its user. It may
	// have expired or been revoked.
	TokenByHash(ctx context.Context, hash string) (Token, User, error)
	// TokensOf are at most limit of a user's whose ID comes after one, by ID;
	// user "" is everybody's.
	TokensOf(ctx context.Context, user, after string, limit int) ([]Token, error)
	// CountTokens counts a user's that work at this time.
	CountTokens(ctx context.Context, user string, now time.Time) (int, error)
	// TouchToken notes a use, unless one was noted after the time before.
	TouchToken(ctx context.Context, id string, used, before time.Time) error
	// RevokeToken keeps the first time at which it was revoked.
	RevokeToken(ctx context.Context, id string, at time.Time) error
}

// Devices are sign-ins that wait for an approval elsewhere.
type Devices interface {
	// CreateDevice refuses a user code that is waiting already: Conflict; and
	// any beyond limit that have not expired at its creation: Exhausted.
	CreateDevice(ctx context.Context, d Device, limit int) error
	// DeviceByUserCode finds one by the hash of its user code.
	DeviceByUserCode(ctx context.Context, hash string) (Device, error)
	// UpdateDevice runs change on a device, by the hash of its device code,
	// while nobody else does, and keeps what it made of it if it returns nil. A
	// token that it returns is made in the same moment.
	UpdateDevice(ctx context.Context, hash string, change func(*Device) (*Token, error)) error
}

// Links let somebody in once, without a password.
type Links interface {
	CreateLink(ctx context.Context, l Link) error
	// Link finds one by the hash of its code. It may have expired.
	Link(ctx context.Context, hash string) (Link, error)
	// UseLink makes or changes the user and removes the link, with all others
	// for the same user and all of the user's sessions, in one moment: NotFound
	// if the link is gone, Conflict if the login is taken. A link for nobody
	// makes the first admin: Conflict if there is an admin.
	UseLink(ctx context.Context, hash string, u User) error
}

// Flows are sign-ins that have gone to an OIDC provider.
type Flows interface {
	CreateFlow(ctx context.Context, f Flow) error
	// TakeFlow removes it and gives it, once.
	TakeFlow(ctx context.Context, stateHash string) (Flow, error)
}

// Guesses are attempts to guess a secret, by what they were made at.
type Guesses interface {
	// UpdateGuesses runs change on the guesses at a key, none if there were none
	// yet, while nobody else does, and keeps what it made of them if it returns
	// nil.
	UpdateGuesses(ctx context.Context, key string, change func(*Guess) error) error
}

// AuditLog is what was done. It only grows.
type AuditLog interface {
	// AddAudit adds entries, all or none.
	AddAudit(ctx context.Context, entries []Entry) error
	// Audit gives entries that fit, the latest first.
	Audit(ctx context.Context, q AuditQuery) ([]Entry, error)
}

// Provider is an OIDC provider as package account needs it.
type Provider interface {
	// AuthURL is where the browser goes. The verifier is that of PKCE. It is
	// Unavailable as long as the provider has never been reached.
	AuthURL(ctx context.Context, state, nonce, verifier string) (string, error)
	// Identify redeems a code and says who came back with it. It is Denied
	// where the provider says no or its answer does not fit, Unavailable where
	// the provider cannot be reached.
	Identify(ctx context.Context, code, nonce, verifier string) (Identity, error)
}
