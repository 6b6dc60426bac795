package account

import (
	"context"
	"slices"
	"strings"
	"time"

	"assay/internal/fault"
)

// The prefixes of tokens, by which people and scanners know them.
const (
	TokenPrefix = "asy_"
	// PandaPrefix is that of tokens for programs that speak with the front of
	// PandaStack.
	PandaPrefix = "pds_"
)

// Token is the key of a program. It acts for its user, within its scopes.
type Token struct {
	ID   string
	Hash string
	// Prefix is the secret's.
	Prefix string
	User   string
	Name   string
	// Scopes are never nil.
	Scopes []Scope
	Quotas Quotas
	// From is where it was made or asked for.
	From    string
	Created time.Time
	// Expires is zero for never.
	Expires time.Time
	// Used is when it was used last, to the minute; zero is never.
	Used time.Time
	// Revoked is zero unless it was.
	Revoked time.Time
}

// Quotas bound what one token may take; a zero field is the server's default.
type Quotas struct {
	SandboxesAtOnce  int
	CPUSecondsPerDay int64
	DiskBytes        int64
	Snapshots        int
}

func (q Quotas) check() error {
	if q.SandboxesAtOnce < 0 || q.CPUSecondsPerDay < 0 || q.DiskBytes < 0 || q.Snapshots < 0 {
		return fault.Errorf(fault.Invalid, "a quota is negative").WithHint("leave it out for the server's default")
	}
	return nil
}

// Works reports whether the token may be used at a time.
func (t Token) Works(at time.Time) bool {
	return t.Revoked.IsZero() && (t.Expires.IsZero() || at.Before(t.Expires))
}

// NewToken is what somebody says of a token to be made.
type NewToken struct {
	Name string
	// Scopes must be at least one.
	Scopes []Scope
	// Life is how long it works; 0 is Config.TokenLife, negative for ever.
	Life time.Duration
	// Panda asks for one that begins with PandaPrefix.
	Panda  bool
	Quotas Quotas
}

// Bounds of tokens.
const (
	maxTokenName = 80
	// maxTokens is how many that work one user may have.
	maxTokens = 200
	// maxTokenLife keeps instants within what can be stored.
	maxTokenLife = 100 * 365 * 24 * time.Hour
)

// checkScopes gives scopes sorted and once each.
func checkScopes(scopes []Scope) ([]Scope, error) {
	if len(scopes) == 0 {
		return nil, fault.Errorf(fault.Invalid, "a token without a scope reaches nothing").WithHint("choose from %s", scopeWords(Scopes()))
	}
	for _, sc := range scopes {
		if !slices.Contains(Scopes(), sc) {
			return nil, fault.Errorf(fault.Invalid, "there is no scope %.40q", string(sc)).WithHint("choose from %s", scopeWords(Scopes()))
		}
	}
	scopes = slices.Clone(scopes)
	slices.Sort(scopes)
	return slices.Compact(scopes), nil
}

func scopeWords(scopes []Scope) string {
	words := make([]string, len(scopes))
	for i, sc := range scopes {
		words[i] = string(sc)
	}
	return strings.Join(words, ", ")
}

// CreateToken makes a token of the actor's and gives its secret, which is not
// kept. A token cannot make one that reaches further, may take more or lives
// longer than itself.
func (s *Service) CreateToken(ctx context.Context, n NewToken) (Token, string, error) {
	actor := ActorOf(ctx)
	if err := May(actor, Create, Thing{Kind: TokenThing}); err != nil {
		return Token{}, "", err
	}
	if actor.User == "" {
		return Token{}, "", fault.Errorf(fault.Invalid, "a token is somebody's").WithHint("sign in as a user")
	}
	t, secret, err := s.newToken(actor.User, n)
	if err != nil {
		return Token{}, "", err
	}
	for _, sc := range t.Scopes {
		if !actor.Has(sc) {
			return Token{}, "", fault.Errorf(fault.Denied, "this token does not have the scope %q to give", string(sc))
		}
	}
	if actor.Token != "" {
		if err := s.noFurther(ctx, actor, &t); err != nil {
			return Token{}, "", err
		}
	}
	have, err := s.store.CountTokens(ctx, actor.User, t.Created)
	if err != nil {
		return Token{}, "", err
	}
	if have >= maxTokens {
		return Token{}, "", fault.Errorf(fault.Exhausted, "you have %d tokens", have).WithHint("revoke those that nothing uses")
	}
	NoteOf(ctx).On(TokenThing, t.ID, "scopes "+scopeWords(t.Scopes))
	return t, secret, s.store.CreateToken(ctx, t)
}

// noFurther keeps a token that another one makes within its maker.
func (s *Service) noFurther(ctx context.Context, actor Actor, t *Token) error {
	by, err := s.store.Token(ctx, actor.Token)
	if err != nil {
		return err
	}
	t.Quotas = t.Quotas.within(by.Quotas)
	if !by.Expires.IsZero() && (t.Expires.IsZero() || t.Expires.After(by.Expires)) {
		t.Expires = by.Expires
	}
	return nil
}

// within gives the tighter of two quotas, field by field.
func (q Quotas) within(most Quotas) Quotas {
	return Quotas{
		SandboxesAtOnce:  tighter(q.SandboxesAtOnce, most.SandboxesAtOnce),
		CPUSecondsPerDay: tighter(q.CPUSecondsPerDay, most.CPUSecondsPerDay),
		DiskBytes:        tighter(q.DiskBytes, most.DiskBytes),
		Snapshots:        tighter(q.Snapshots, most.Snapshots),
	}
}

func tighter[N int | int64](a, b N) N {
	if a == 0 || b == 0 {
		return a + b
	}
	return min(a, b)
}

func (s *Service) newToken(user string, n NewToken) (Token, string, error) {
	at := now()
	t := Token{ID: newID("tok_"), Prefix: TokenPrefix, User: user, Quotas: n.Quotas, Created: at}
	if n.Panda {
		t.Prefix = PandaPrefix
	}
	var err error
	if t.Name, err = cleanName("name", n.Name, maxTokenName); err != nil {
		return t, "", err
	}
	if t.Name == "" {
		return t, "", fault.Errorf(fault.Invalid, "the token has no name").WithHint("say what it is for")
	}
	if t.Scopes, err = checkScopes(n.Scopes); err != nil {
		return t, "", err
	}
	if err := n.Quotas.check(); err != nil {
		return t, "", err
	}
	switch {
	case n.Life == 0:
		t.Expires = at.Add(s.cfg.TokenLife)
	case n.Life > 0:
		t.Expires = at.Add(min(n.Life, maxTokenLife))
	}
	secret := newSecret(t.Prefix)
	t.Hash = hashSecret(secret)
	return t, secret, nil
}

// Tokens are those of a user (ID or login; "" is the actor, "*" is everybody)
// after an ID, at most limit (1 to 200), by ID; those revoked or expired too.
func (s *Service) Tokens(ctx context.Context, user, after string, limit int) ([]Token, error) {
	actor := ActorOf(ctx)
	limit, after = min(max(limit, 1), maxPage), cutText(after, maxLogin)
	switch user {
	case "":
		if err := May(actor, List, Thing{Kind: TokenThing}); err != nil {
			return nil, err
		}
		if actor.User == "" {
			return nil, nil
		}
		return s.store.TokensOf(ctx, actor.User, after, limit)
	case "*":
		// Who may read what is nobody's may read all.
		if err := May(actor, Read, Thing{Kind: TokenThing}); err != nil {
			return nil, err
		}
		return s.store.TokensOf(ctx, "", after, limit)
	}
	u, err := s.userFor(ctx, Read, user)
	if err != nil {
		return nil, err
	}
	if err := May(actor, Read, Thing{Kind: TokenThing, Owner: u.ID}); err != nil {
		return nil, err
	}
	return s.store.TokensOf(ctx, u.ID, after, limit)
}

// RevokeToken stops a token at once; one that was revoked stays so.
func (s *Service) RevokeToken(ctx context.Context, id string) error {
	var t Token
	if plain(id) {
		var err error
		if t, err = s.store.Token(ctx, id); err != nil && !fault.Is(err, fault.NotFound) {
			return err
		}
	}
	// Whoever holds a token may put an end to it, whatever its scopes.
	if actor := ActorOf(ctx); t.ID == "" || actor.Token != t.ID {
		if err := May(actor, Delete, Thing{Kind: TokenThing, ID: id, Owner: t.User}); err != nil {
			return err
		}
	}
	if t.ID == "" {
		return fault.Errorf(fault.NotFound, "there is no token %.80q", id)
	}
	NoteOf(ctx).On(TokenThing, t.ID, "revoke")
	return s.store.RevokeToken(ctx, t.ID, now())
}

// errToken is what a secret that does not work says, whatever the reason.
func errToken() error {
	return fault.Errorf(fault.Unauthenticated, "this token does not work, or no longer").WithHint("make a new one, or run \"assay login\"")
}

// ByToken says for whom a token's secret acts: Unauthenticated if it was revoked,
// has expired, or the user is disabled.
func (s *Service) ByToken(ctx context.Context, secret string) (Actor, error) {
	t, u, err := s.store.TokenByHash(ctx, hashSecret(secret))
	if fault.Is(err, fault.NotFound) {
		return Actor{}, errToken()
	}
	if err != nil {
		return Actor{}, err
	}
	at := now()
	if !t.Works(at) || !u.Disabled.IsZero() {
		return Actor{}, errToken()
	}
	if at.Sub(t.Used) >= touchEvery {
		// When it was used last is worth no refusal.
		if err := s.store.TouchToken(ctx, t.ID, at, at.Add(-touchEvery)); err != nil {
			s.log.WarnContext(ctx, "note the use of a token", "token", t.ID, "error", err)
		}
	}
	a := actorOf(u)
	a.Token, a.Scopes, a.Quotas = t.ID, t.Scopes, t.Quotas
	return a, nil
}
