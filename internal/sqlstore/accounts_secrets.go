package sqlstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"time"

	"assay/internal/account"
	"assay/internal/fault"
)

const sessionColumns = `s.hash, s.id, s.person, s.origin, s.agent, s.created, s.seen, s.idle, s.expires`

type sessionRow struct {
	s                            account.Session
	created, seen, idle, expires int64
}

func (r *sessionRow) columns() []any {
	return []any{&r.s.Hash, &r.s.ID, &r.s.User, &r.s.From, &r.s.Agent, &r.created, &r.seen, &r.idle, &r.expires}
}

func (r *sessionRow) session() account.Session {
	r.s.Created, r.s.Seen, r.s.Idle, r.s.Expires = fromMicros(r.created), fromMicros(r.seen), fromMicros(r.idle), fromMicros(r.expires)
	return r.s
}

// CreateSession begins one.
func (a Accounts) CreateSession(ctx context.Context, s account.Session) error {
	_, err := a.db.exec(ctx, "begin a session",
		`INSERT INTO sessions (hash, id, person, origin, agent, created, seen, idle, expires) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
		s.Hash, s.ID, s.User, s.From, s.Agent, micros(s.Created), micros(s.Seen), micros(s.Idle), micros(s.Expires))
	return err
}

// withUser is a thing and the user whose it is.
type withUser[T any] struct {
	thing T
	user  account.User
}

// Session finds one by the hash of its secret.
func (a Accounts) Session(ctx context.Context, hash string) (account.Session, account.User, error) {
	v, err := oneOf(ctx, a.db.reader, func(row scanner) (v withUser[account.Session], err error) {
		var s sessionRow
		var u userRow
		err = row.Scan(append(s.columns(), u.columns()...)...)
		return withUser[account.Session]{s.session(), u.user()}, err
	}, "session", `SELECT `+sessionColumns+`, `+userColumns+` FROM sessions s JOIN users u ON u.id = s.person WHERE s.hash = $1`, hash)
	return v.thing, v.user, a.db.explain("read a session", err)
}

// TouchSession moves the end of idleness.
func (a Accounts) TouchSession(ctx context.Context, hash string, seen, idle time.Time) error {
	_, err := a.db.exec(ctx, "note the use of a session", `UPDATE sessions SET seen = $2, idle = $3 WHERE hash = $1`, hash, micros(seen), micros(idle))
	return err
}

// SessionsOf are a user's, the latest first.
func (a Accounts) SessionsOf(ctx context.Context, user string) ([]account.Session, error) {
	all, err := list(ctx, a.db.reader, func(row scanner) (account.Session, error) {
		var s sessionRow
		err := row.Scan(s.columns()...)
		return s.session(), err
	}, `SELECT `+sessionColumns+` FROM sessions s WHERE s.person = $1 ORDER BY s.seen DESC, s.id`, user)
	return all, a.db.explain("read sessions", err)
}

// EndSession ends one by the hash of its secret.
func (a Accounts) EndSession(ctx context.Context, hash string) error {
	_, err := a.db.exec(ctx, "end a session", `DELETE FROM sessions WHERE hash = $1`, hash)
	return err
}

// EndSessions ends all of a user but one.
func (a Accounts) EndSessions(ctx context.Context, user, except string) error {
	_, err := a.db.exec(ctx, "end sessions", `DELETE FROM sessions WHERE person = $1 AND hash <> $2`, user, except)
	return err
}

const tokenColumns = `t.id, t.hash, t.prefix, t.person, t.name, t.scopes, t.sandboxes, t.cpu_seconds_day, t.disk_bytes, t.snapshots,
	t.origin, t.created, t.expires, t.used, t.revoked`

type tokenRow struct {
	t                               account.Token
	scopes                          string
	created, expires, used, revoked int64
}

func (r *tokenRow) columns() []any {
	return []any{
		&r.t.ID, &r.t.Hash, &r.t.Prefix, &r.t.User, &r.t.Name, &r.scopes, &r.t.Quotas.SandboxesAtOnce, &r.t.Quotas.CPUSecondsPerDay,
		&r.t.Quotas.DiskBytes, &r.t.Quotas.Snapshots, &r.t.From, &r.created, &r.expires, &r.used, &r.revoked,
	}
}

func (r *tokenRow) token() (account.Token, error) {
	r.t.Created, r.t.Expires, r.t.Used, r.t.Revoked = fromMicros(r.created), fromMicros(r.expires), fromMicros(r.used), fromMicros(r.revoked)
	var err error
	r.t.Scopes, err = scopesOf(r.scopes)
	return r.t, err
}

// scopesOf reads scopes; they are never nil, which would be all.
func scopesOf(text string) ([]account.Scope, error) {
	scopes := []account.Scope{}
	if err := json.Unmarshal([]byte(text), &scopes); err != nil {
		return []account.Scope{}, err
	}
	if scopes == nil {
		scopes = []account.Scope{}
	}
	return scopes, nil
}

func scopesText(scopes []account.Scope) (string, error) {
	if scopes == nil {
		scopes = []account.Scope{}
	}
	text, err := json.Marshal(scopes)
	return string(text), err
}

func scanToken(row scanner) (account.Token, error) {
	var r tokenRow
	if err := row.Scan(r.columns()...); err != nil {
		return r.t, err
	}
	return r.token()
}

func insertToken(ctx context.Context, tx *sql.Tx, t account.Token) error {
	scopes, err := scopesText(t.Scopes)
	if err != nil {
		return err
	}
	return insert(ctx, tx, fault.Errorf(fault.Conflict, "there is a token %s already", t.ID),
		`INSERT INTO tokens (id, hash, prefix, person, name, scopes, sandboxes, cpu_seconds_day, disk_bytes, snapshots, origin, created, expires, used, revoked)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)`,
		t.ID, t.Hash, t.Prefix, t.User, t.Name, scopes, t.Quotas.SandboxesAtOnce, t.Quotas.CPUSecondsPerDay, t.Quotas.DiskBytes, t.Quotas.Snapshots,
		t.From, micros(t.Created), micros(t.Expires), micros(t.Used), micros(t.Revoked))
}

// CreateToken adds one.
func (a Accounts) CreateToken(ctx context.Context, t account.Token) error {
	return a.db.write(ctx, "make a token", func(tx *sql.Tx) error { return insertToken(ctx, tx, t) })
}

// Token finds one by its ID.
func (a Accounts) Token(ctx context.Context, id string) (account.Token, error) {
	t, err := oneOf(ctx, a.db.reader, scanToken, "token", `SELECT `+tokenColumns+` FROM tokens t WHERE t.id = $1`, id)
	return t, a.db.explain("read a token", err)
}

// TokenByHash finds one by the hash of its secret.
func (a Accounts) TokenByHash(ctx context.Context, hash string) (account.Token, account.User, error) {
	v, err := oneOf(ctx, a.db.reader, func(row scanner) (v withUser[account.Token], err error) {
		var t tokenRow
		var u userRow
		if err = row.Scan(append(t.columns(), u.columns()...)...); err != nil {
			return v, err
		}
		v.user = u.user()
		v.thing, err = t.token()
		return v, err
	}, "token", `SELECT `+tokenColumns+`, `+userColumns+` FROM tokens t JOIN users u ON u.id = t.person WHERE t.hash = $1`, hash)
	return v.thing, v.user, a.db.explain("read a token", err)
}

// TokensOf are a user's, or all.
func (a Accounts) TokensOf(ctx context.Context, user, after string, limit int) ([]account.Token, error) {
	var c conditions
	c.is("t.person", user)
	c.add("t.id > $$", after)
	query := `SELECT ` + tokenColumns + ` FROM tokens t` + c.end("t.id", limit)
	all, err := list(ctx, a.db.reader, scanToken, query, c.args...)
	return all, a.db.explain("read tokens", err)
}

// CountTokens counts those that work.
func (a Accounts) CountTokens(ctx context.Context, user string, now time.Time) (n int, err error) {
	err = a.db.reader.QueryRowContext(ctx, `SELECT count(*) FROM tokens WHERE person = $1 AND revoked = 0 AND (expires = 0 OR expires > $2)`, user, micros(now)).Scan(&n)
	return n, a.db.explain("count tokens", err)
}

// TouchToken notes a use.
func (a Accounts) TouchToken(ctx context.Context, id string, used, before time.Time) error {
	_, err := a.db.exec(ctx, "note the use of a token", `UPDATE tokens SET used = $2 WHERE id = $1 AND used <= $3`, id, micros(used), micros(before))
	return err
}

// RevokeToken keeps the first time.
func (a Accounts) RevokeToken(ctx context.Context, id string, at time.Time) error {
	_, err := a.db.exec(ctx, "revoke a token", `UPDATE tokens SET revoked = $2 WHERE id = $1 AND revoked = 0`, id, micros(at))
	return err
}
