package account

import (
	"context"
	"net/mail"
	"regexp"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"assay/internal/fault"
)

// User is a person with an account.
type User struct {
	// ID is ours and stays when all else changes.
	ID string
	// Login is in lower case and never given to another user.
	Login string
	Name  string
	Email string
	Role  Role
	// Password is the hash in PHC format; "" is none.
	Password string
	// Subject names the person at the OIDC provider; "" is nobody there.
	Subject string
	Created time.Time
	// Disabled is when the account was closed; zero is open. Users are never
	// removed, because results name them.
	Disabled time.Time
}

func (u User) thing() Thing { return Thing{Kind: UserThing, ID: u.ID, Owner: u.ID} }

// NewUser is what an admin says of a user to be made.
type NewUser struct {
	Login, Name, Email string
	Role               Role
}

// UserPatch changes the fields that are not nil.
type UserPatch struct {
	Name, Email *string
	// Email, Role and Disabled are for admins.
	Role     *Role
	Disabled *bool
}

// Bounds of what people say of themselves.
const (
	maxLogin = 64
	maxName  = 200
	maxEmail = 254
)

var loginForm = regexp.MustCompile(`^[a-z0-9][a-z0-9._@+-]*$`)

// cleanLogin gives a login as it is kept.
func cleanLogin(login string) (string, error) {
	login = strings.ToLower(strings.TrimSpace(login))
	if len(login) > maxLogin || !loginForm.MatchString(login) {
		return "", fault.Errorf(fault.Invalid, "the login %.80q cannot be used", login).
			WithHint("use 1 to %d letters without accents, digits and . _ @ + -, beginning with a letter or digit", maxLogin)
	}
	return login, nil
}

// cleanName gives a name that is safe to show and to put into a header.
func cleanName(what, name string, most int) (string, error) {
	name = strings.TrimSpace(name)
	if utf8.RuneCountInString(name) > most {
		return "", fault.Errorf(fault.Invalid, "the %s is longer than %d characters", what, most).WithHint("shorten it")
	}
	if !utf8.ValidString(name) || strings.ContainsFunc(name, func(r rune) bool {
		// Control characters end header lines; Cf turns the direction of text.
		return unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == '\u2028' || r == '\u2029'
	}) {
		return "", fault.Errorf(fault.Invalid, "the %s contains characters that cannot be shown", what).WithHint("leave out line breaks and other control characters")
	}
	return name, nil
}

func cleanEmail(email string) (string, error) {
	email = strings.TrimSpace(email)
	if email == "" {
		return "", nil
	}
	a, err := mail.ParseAddress(email)
	if err != nil || a.Address != email || len(email) > maxEmail {
		return "", fault.Errorf(fault.Invalid, "%.80q is no e-mail address", email).WithHint("write it as jane@example.org, or leave it out")
	}
	return cleanName("e-mail address", email, maxEmail)
}

func (r Role) check() error {
	switch r {
	case Admin, Staff, Member:
		return nil
	}
	return fault.Errorf(fault.Invalid, "there is no role %.40q", string(r)).WithHint("it is admin, staff or member")
}

func newUser(n NewUser) (User, error) {
	u := User{ID: newID("usr_"), Role: n.Role, Created: now()}
	var err error
	if u.Login, err = cleanLogin(n.Login); err != nil {
		return u, err
	}
	if u.Name, err = cleanName("name", n.Name, maxName); err != nil {
		return u, err
	}
	if u.Email, err = cleanEmail(n.Email); err != nil {
		return u, err
	}
	return u, n.Role.check()
}

// CreateUser makes a user without a password; CreateLink lets them choose one.
// A login that is taken is a Conflict.
func (s *Service) CreateUser(ctx context.Context, n NewUser) (User, error) {
	if err := May(ActorOf(ctx), Create, Thing{Kind: UserThing}); err != nil {
		return User{}, err
	}
	u, err := newUser(n)
	if err != nil {
		return User{}, err
	}
	NoteOf(ctx).On(UserThing, u.ID, "login "+u.Login+", role "+string(u.Role))
	return u, s.store.CreateUser(ctx, u)
}

// User gives one by ID or login: NotFound also where the actor may not see it.
func (s *Service) User(ctx context.Context, idOrLogin string) (User, error) {
	return s.userFor(ctx, Read, idOrLogin)
}

// userFor finds a user whom the actor may do something to. Who may not see
// others cannot tell one that is there from one that is not.
func (s *Service) userFor(ctx context.Context, do Action, idOrLogin string) (User, error) {
	actor := ActorOf(ctx)
	u, err := s.findUser(ctx, idOrLogin)
	if fault.Is(err, fault.NotFound) {
		if err := May(actor, do, Thing{Kind: UserThing, ID: idOrLogin}); err != nil {
			return User{}, err
		}
	}
	if err != nil {
		return User{}, err
	}
	t := u.thing()
	t.ID = idOrLogin
	if err := May(actor, do, t); err != nil {
		return User{}, err
	}
	return u, nil
}

// plain reports whether a text can be a login or an ID at all; no store need
// look for others.
func plain(text string) bool { return len(text) <= maxLogin && loginForm.MatchString(text) }

func (s *Service) findUser(ctx context.Context, idOrLogin string) (User, error) {
	var u User
	err := error(fault.Errorf(fault.NotFound, "no user"))
	if plain(idOrLogin) {
		u, err = s.store.User(ctx, idOrLogin)
	}
	if login := strings.ToLower(idOrLogin); fault.Is(err, fault.NotFound) && plain(login) {
		u, err = s.store.UserByLogin(ctx, login)
	}
	if fault.Is(err, fault.NotFound) {
		return User{}, fault.Errorf(fault.NotFound, "there is no user %.80q", idOrLogin)
	}
	return u, err
}

// maxPage bounds lists.
const maxPage = 200

// Users are those after a login, at most limit (1 to 200), by login.
func (s *Service) Users(ctx context.Context, after string, limit int) ([]User, error) {
	if err := May(ActorOf(ctx), List, Thing{Kind: UserThing}); err != nil {
		return nil, err
	}
	return s.store.Users(ctx, cutText(after, maxLogin), min(max(limit, 1), maxPage))
}

// ChangeUser changes a user. People may change their own name; the address, role
// and disabling are for admins: whoever has an address is taken for the person
// with it on a course's roster. Disabling ends all sessions at once and
// stops tokens until the account is opened again.
func (s *Service) ChangeUser(ctx context.Context, idOrLogin string, p UserPatch) (User, error) {
	u, err := s.userFor(ctx, Change, idOrLogin)
	if err != nil {
		return User{}, err
	}
	if p.Role != nil || p.Disabled != nil || p.Email != nil {
		if err := May(ActorOf(ctx), Change, Thing{Kind: UserThing}); err != nil {
			return User{}, err
		}
	}
	ends := p.Disabled != nil && *p.Disabled
	at := now()
	NoteOf(ctx).On(UserThing, u.ID, p.words())
	return s.store.UpdateUser(ctx, u.ID, ends, func(u *User) (err error) {
		if p.Name != nil {
			if u.Name, err = cleanName("name", *p.Name, maxName); err != nil {
				return err
			}
		}
		if p.Email != nil {
			if u.Email, err = cleanEmail(*p.Email); err != nil {
				return err
			}
		}
		if p.Role != nil {
			if err := p.Role.check(); err != nil {
				return err
			}
			u.Role = *p.Role
		}
		switch {
		case p.Disabled == nil:
		case !*p.Disabled:
			u.Disabled = time.Time{}
		case u.Disabled.IsZero():
			u.Disabled = at
		}
		return nil
	})
}

// words say for the audit log what was asked for.
func (p UserPatch) words() string {
	var words []string
	if p.Name != nil {
		words = append(words, "name")
	}
	if p.Email != nil {
		words = append(words, "e-mail address")
	}
	if p.Role != nil {
		words = append(words, "role "+string(*p.Role))
	}
	if p.Disabled != nil {
		words = append(words, map[bool]string{true: "disable", false: "enable"}[*p.Disabled])
	}
	return strings.Join(words, ", ")
}

// ChangePassword replaces the actor's own password, who must know the old one
// if there is one. It ends all sessions but the one that is named.
func (s *Service) ChangePassword(ctx context.Context, old, password, keepSession string) error {
	actor := ActorOf(ctx)
	if err := May(actor, Change, Thing{Kind: UserThing, ID: actor.User, Owner: actor.User}); err != nil {
		return err
	}
	if actor.Token != "" {
		return fault.Errorf(fault.Denied, "a token cannot change a password").WithHint("sign in with a browser")
	}
	u, err := s.store.User(ctx, actor.User)
	if err != nil {
		return err
	}
	NoteOf(ctx).On(UserThing, u.ID, "password")
	if err := checkPassword(u.Login, password); err != nil {
		return err
	}
	if u.Password != "" {
		if err := s.guess(ctx, "password of "+u.ID, nearGuesses); err != nil {
			return err
		}
		right, _, err := s.hashes.check(ctx, u.Password, old)
		if err != nil {
			return err
		}
		if !right {
			return fault.Errorf(fault.Denied, "the old password is wrong")
		}
		if err := s.forgive(ctx, "password of "+u.ID); err != nil {
			return err
		}
	}
	hash, err := s.hashes.hash(ctx, password)
	if err != nil {
		return err
	}
	if err := s.store.SwapPassword(ctx, u.ID, u.Password, hash); err != nil {
		return err
	}
	return s.store.EndSessions(ctx, u.ID, hashSecret(keepSession))
}
