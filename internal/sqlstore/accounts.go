package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"assay/internal/account"
	"assay/internal/fault"
)

// Accounts is the store of accounts.
type Accounts struct{ db *DB }

var _ account.Store = Accounts{}

// Accounts gives the store of accounts.
func (db *DB) Accounts() Accounts { return Accounts{db} }

// usersLock is held by whoever changes users by what others are: the last admin
// must stay.
const usersLock = "users"

const userColumns = `u.id, u.login, u.name, u.email, u.role, u.password, u.subject, u.created, u.disabled`

// userRow is a user as it is read.
type userRow struct {
	u                 account.User
	created, disabled int64
}

func (r *userRow) columns() []any {
	return []any{&r.u.ID, &r.u.Login, &r.u.Name, &r.u.Email, &r.u.Role, &r.u.Password, &r.u.Subject, &r.created, &r.disabled}
}

func (r *userRow) user() account.User {
	r.u.Created, r.u.Disabled = fromMicros(r.created), fromMicros(r.disabled)
	return r.u
}

func scanUser(row scanner) (account.User, error) {
	var r userRow
	err := row.Scan(r.columns()...)
	return r.user(), err
}

// rowQueryer is a database or a transaction.
type rowQueryer interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// oneOf reads one row; none is NotFound.
func oneOf[T any](ctx context.Context, q rowQueryer, scan func(scanner) (T, error), what, query string, args ...any) (T, error) {
	v, err := scan(q.QueryRowContext(ctx, query, args...))
	if errors.Is(err, sql.ErrNoRows) {
		err = fault.Errorf(fault.NotFound, "there is no such %s", what)
	}
	return v, err
}

// insert adds one row; where it meets another one nothing is added and err
// taken comes back.
func insert(ctx context.Context, tx *sql.Tx, taken error, query string, args ...any) error {
	res, err := tx.ExecContext(ctx, query+` ON CONFLICT DO NOTHING`, args...)
	if err != nil {
		return err
	}
	return one(res, taken)
}

func insertUser(ctx context.Context, tx *sql.Tx, u account.User) error {
	return insert(ctx, tx, fault.Errorf(fault.Conflict, "there is a user %q already", u.Login).WithHint("choose another login"),
		`INSERT INTO users (id, login, name, email, role, password, subject, created, disabled) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
		u.ID, u.Login, u.Name, u.Email, string(u.Role), u.Password, u.Subject, micros(u.Created), micros(u.Disabled))
}

// CreateUser refuses a login or a subject that is taken.
func (a Accounts) CreateUser(ctx context.Context, u account.User) error {
	return a.db.write(ctx, "make user "+u.Login, func(tx *sql.Tx) error { return insertUser(ctx, tx, u) })
}

func (a Accounts) user(ctx context.Context, where string, arg string) (account.User, error) {
	u, err := oneOf(ctx, a.db.reader, scanUser, "user", `SELECT `+userColumns+` FROM users u WHERE `+where, arg)
	return u, a.db.explain("read a user", err)
}

// User finds one by ID.
func (a Accounts) User(ctx context.Context, id string) (account.User, error) {
	return a.user(ctx, `u.id = $1`, id)
}

// UserByLogin finds one by login.
func (a Accounts) UserByLogin(ctx context.Context, login string) (account.User, error) {
	return a.user(ctx, `u.login = $1`, login)
}

// UserBySubject finds one by what the OIDC provider calls them.
func (a Accounts) UserBySubject(ctx context.Context, subject string) (account.User, error) {
	return a.user(ctx, `u.subject = $1 AND u.subject <> ''`, subject)
}

// UsersByEmail are those with this address.
func (a Accounts) UsersByEmail(ctx context.Context, email string) ([]account.User, error) {
	all, err := list(ctx, a.db.reader, scanUser, `SELECT `+userColumns+` FROM users u WHERE lower(u.email) = lower($1) AND u.email <> '' ORDER BY u.id`, email)
	return all, a.db.explain("read users", err)
}

// Users are those after a login.
func (a Accounts) Users(ctx context.Context, after string, limit int) ([]account.User, error) {
	all, err := list(ctx, a.db.reader, scanUser, `SELECT `+userColumns+` FROM users u WHERE u.login > $1 ORDER BY u.login LIMIT $2`, after, limit)
	return all, a.db.explain("read users", err)
}

// UpdateUser keeps what change made of a user.
func (a Accounts) UpdateUser(ctx context.Context, id string, endSessions bool, change func(*account.User) error) (u account.User, err error) {
	err = a.db.writeLocked(ctx, "change user "+id, usersLock, func(tx *sql.Tx) error {
		if u, err = oneOf(ctx, tx, scanUser, "user", `SELECT `+userColumns+` FROM users u WHERE u.id = $1`, id); err != nil {
			return err
		}
		login, created := u.Login, u.Created
		if err := change(&u); err != nil {
			return err
		}
		u.ID, u.Login, u.Created = id, login, created
		if err := putUser(ctx, tx, u); err != nil {
			return err
		}
		if has, err := hasAdmin(ctx, tx); err != nil || !has {
			return errors.Join(err, lastAdmin(has))
		}
		if endSessions {
			_, err := tx.ExecContext(ctx, `DELETE FROM sessions WHERE person = $1`, id)
			return err
		}
		return nil
	})
	return u, err
}

func lastAdmin(has bool) error {
	if has {
		return nil
	}
	return fault.Errorf(fault.Conflict, "nobody would be left who is an admin").WithHint("make somebody else an admin first")
}

func putUser(ctx context.Context, tx *sql.Tx, u account.User) error {
	_, err := tx.ExecContext(ctx, `UPDATE users SET name = $2, email = $3, role = $4, password = $5, subject = $6, disabled = $7 WHERE id = $1`,
		u.ID, u.Name, u.Email, string(u.Role), u.Password, u.Subject, micros(u.Disabled))
	return err
}

// SwapPassword replaces the password's hash if it is still old.
func (a Accounts) SwapPassword(ctx context.Context, id, old, hash string) error {
	res, err := a.db.exec(ctx, "change a password", `UPDATE users SET password = $3 WHERE id = $1 AND password = $2`, id, old, hash)
	if err == nil {
		err = one(res, fault.Errorf(fault.Conflict, "the password has just been changed").WithHint("try again with the new one"))
	}
	return err
}

func hasAdmin(ctx context.Context, q rowQueryer) (has bool, err error) {
	err = q.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM users WHERE role = $1 AND disabled = 0)`, string(account.Admin)).Scan(&has)
	return has, err
}

// HasAdmin says whether there is an admin who is not disabled.
func (a Accounts) HasAdmin(ctx context.Context) (bool, error) {
	has, err := hasAdmin(ctx, a.db.reader)
	return has, a.db.explain("look for an admin", err)
}

// Sweep removes what expired before now.
func (a Accounts) Sweep(ctx context.Context, now time.Time) error {
	return a.db.write(ctx, "sweep accounts", func(tx *sql.Tx) error {
		for _, query := range []string{
			`DELETE FROM sessions WHERE idle < $1 OR expires < $1`,
			`DELETE FROM devices WHERE expires < $1`,
			`DELETE FROM links WHERE expires < $1`,
			`DELETE FROM sign_ons WHERE expires < $1`,
			`DELETE FROM guesses WHERE last < $1 - 86400000000`,
		} {
			if _, err := tx.ExecContext(ctx, query, micros(now)); err != nil {
				return err
			}
		}
		return nil
	})
}
