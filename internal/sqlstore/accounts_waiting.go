package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"assay/internal/account"
	"assay/internal/fault"
)

const deviceColumns = `hash, user_hash, client, origin, scopes, state, person, created, expires, wait, polled`

func scanDevice(row scanner) (d account.Device, err error) {
	var scopes string
	var created, expires, wait, polled int64
	if err = row.Scan(&d.Hash, &d.UserHash, &d.Client, &d.From, &scopes, &d.State, &d.User, &created, &expires, &wait, &polled); err != nil {
		return d, err
	}
	d.Created, d.Expires, d.Polled = fromMicros(created), fromMicros(expires), fromMicros(polled)
	d.Interval = time.Duration(wait) * time.Microsecond
	d.Scopes, err = scopesOf(scopes)
	return d, err
}

// CreateDevice refuses a user code that is taken, and too many at once.
func (a Accounts) CreateDevice(ctx context.Context, d account.Device, limit int) error {
	scopes, err := scopesText(d.Scopes)
	if err != nil {
		return err
	}
	return a.db.writeLocked(ctx, "begin a sign-in", "devices", func(tx *sql.Tx) error {
		var n int
		if err := tx.QueryRowContext(ctx, `SELECT count(*) FROM devices WHERE expires > $1`, micros(d.Created)).Scan(&n); err != nil {
			return err
		}
		if n >= limit {
			return fault.Errorf(fault.Exhausted, "%d sign-ins wait for an approval", n).WithHint("try again in some minutes")
		}
		return insert(ctx, tx, fault.Errorf(fault.Conflict, "the code is taken"),
			`INSERT INTO devices (`+deviceColumns+`) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)`,
			d.Hash, d.UserHash, d.Client, d.From, scopes, string(d.State), d.User, micros(d.Created), micros(d.Expires), d.Interval.Microseconds(), micros(d.Polled))
	})
}

// DeviceByUserCode finds one by the hash of its user code.
func (a Accounts) DeviceByUserCode(ctx context.Context, hash string) (account.Device, error) {
	d, err := oneOf(ctx, a.db.reader, scanDevice, "code", `SELECT `+deviceColumns+` FROM devices WHERE user_hash = $1`, hash)
	return d, a.db.explain("read a sign-in", err)
}

// UpdateDevice keeps what change made of a device, and the token with it.
func (a Accounts) UpdateDevice(ctx context.Context, hash string, change func(*account.Device) (*account.Token, error)) error {
	return a.db.writeLocked(ctx, "answer a sign-in", "device "+hash, func(tx *sql.Tx) error {
		d, err := oneOf(ctx, tx, scanDevice, "code", `SELECT `+deviceColumns+` FROM devices WHERE hash = $1`, hash)
		if err != nil {
			return err
		}
		token, err := change(&d)
		if err != nil {
			return err
		}
		if token != nil {
			if err := insertToken(ctx, tx, *token); err != nil {
				return err
			}
		}
		_, err = tx.ExecContext(ctx, `UPDATE devices SET state = $2, person = $3, wait = $4, polled = $5 WHERE hash = $1`,
			hash, string(d.State), d.User, d.Interval.Microseconds(), micros(d.Polled))
		return err
	})
}

// CreateLink adds one.
func (a Accounts) CreateLink(ctx context.Context, l account.Link) error {
	_, err := a.db.exec(ctx, "make a link", `INSERT INTO links (hash, person, created, expires, by_whom) VALUES ($1, $2, $3, $4, $5)`,
		l.Hash, l.User, micros(l.Created), micros(l.Expires), l.By)
	return err
}

func scanLink(row scanner) (l account.Link, err error) {
	var created, expires int64
	err = row.Scan(&l.Hash, &l.User, &created, &expires, &l.By)
	l.Created, l.Expires = fromMicros(created), fromMicros(expires)
	return l, err
}

// Link finds one by the hash of its code.
func (a Accounts) Link(ctx context.Context, hash string) (account.Link, error) {
	l, err := oneOf(ctx, a.db.reader, scanLink, "link", `SELECT hash, person, created, expires, by_whom FROM links WHERE hash = $1`, hash)
	return l, a.db.explain("read a link", err)
}

// UseLink makes or changes the user and removes the link.
func (a Accounts) UseLink(ctx context.Context, hash string, u account.User) error {
	return a.db.writeLocked(ctx, "use a link", usersLock, func(tx *sql.Tx) error {
		var person string
		err := tx.QueryRowContext(ctx, `DELETE FROM links WHERE hash = $1 RETURNING person`, hash).Scan(&person)
		if errors.Is(err, sql.ErrNoRows) {
			return fault.Errorf(fault.NotFound, "there is no such link")
		}
		if err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, `DELETE FROM links WHERE person = $1`, person); err != nil {
			return err
		}
		if person == "" {
			has, err := hasAdmin(ctx, tx)
			if err == nil && has {
				err = fault.Errorf(fault.Conflict, "there is an admin already").WithHint("ask them for a link of your own")
			}
			if err != nil {
				return err
			}
			return insertUser(ctx, tx, u)
		}
		// Only the password: what else has changed meanwhile stays.
		if _, err := tx.ExecContext(ctx, `UPDATE users SET password = $2 WHERE id = $1`, person, u.Password); err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `DELETE FROM sessions WHERE person = $1`, person)
		return err
	})
}

// CreateFlow keeps a sign-in that goes to the provider.
func (a Accounts) CreateFlow(ctx context.Context, f account.Flow) error {
	_, err := a.db.exec(ctx, "begin a sign-on", `INSERT INTO sign_ons (hash, nonce, verifier, next, expires) VALUES ($1, $2, $3, $4, $5)`,
		f.StateHash, f.Nonce, f.Verifier, f.Next, micros(f.Expires))
	return err
}

// TakeFlow gives it once.
func (a Accounts) TakeFlow(ctx context.Context, hash string) (f account.Flow, err error) {
	err = a.db.write(ctx, "end a sign-on", func(tx *sql.Tx) error {
		f, err = oneOf(ctx, tx, func(row scanner) (f account.Flow, err error) {
			var expires int64
			err = row.Scan(&f.StateHash, &f.Nonce, &f.Verifier, &f.Next, &expires)
			f.Expires = fromMicros(expires)
			return f, err
		}, "sign-on", `DELETE FROM sign_ons WHERE hash = $1 RETURNING hash, nonce, verifier, next, expires`, hash)
		return err
	})
	return f, err
}

// UpdateGuesses keeps what change made of the guesses at a key.
func (a Accounts) UpdateGuesses(ctx context.Context, key string, change func(*account.Guess) error) error {
	return a.db.writeLocked(ctx, "count an attempt", "guess "+key, func(tx *sql.Tx) error {
		var g account.Guess
		var last, until int64
		err := tx.QueryRowContext(ctx, `SELECT count, last, until FROM guesses WHERE target = $1`, key).Scan(&g.Count, &last, &until)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		g.Last, g.Until = fromMicros(last), fromMicros(until)
		if err := change(&g); err != nil {
			return err
		}
		if g == (account.Guess{}) {
			_, err = tx.ExecContext(ctx, `DELETE FROM guesses WHERE target = $1`, key)
			return err
		}
		_, err = tx.ExecContext(ctx, `INSERT INTO guesses (target, count, last, until) VALUES ($1, $2, $3, $4)
			ON CONFLICT (target) DO UPDATE SET count = excluded.count, last = excluded.last, until = excluded.until`,
			key, g.Count, micros(g.Last), micros(g.Until))
		return err
	})
}

// AddAudit adds entries.
func (a Accounts) AddAudit(ctx context.Context, entries []account.Entry) error {
	return a.db.write(ctx, "write the audit log", func(tx *sql.Tx) error {
		for _, e := range entries {
			if _, err := tx.ExecContext(ctx, `INSERT INTO audit (id, at, who, name, token, action, thing, target, detail, outcome, origin, request)
				VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)`,
				e.ID, micros(e.At), e.Who, e.Name, e.Token, e.Action, string(e.Thing), e.Target, e.Detail, e.Outcome, e.From, e.Request); err != nil {
				return err
			}
		}
		return nil
	})
}

// Audit gives entries that fit, the latest first.
func (a Accounts) Audit(ctx context.Context, q account.AuditQuery) ([]account.Entry, error) {
	var c conditions
	c.is("who", q.Who)
	c.is("thing", string(q.Thing))
	c.is("target", q.Target)
	c.is("token", q.Token)
	if q.Action != "" {
		c.add("substr(action, 1, length($$)) = $$", q.Action, q.Action)
	}
	if !q.Since.IsZero() {
		c.add("at >= $$", micros(q.Since))
	}
	if !q.Until.IsZero() {
		c.add("at < $$", micros(q.Until))
	}
	if q.Before != "" {
		c.add("id < $$", q.Before)
	}
	query := `SELECT id, at, who, name, token, action, thing, target, detail, outcome, origin, request FROM audit` + c.end("id DESC", q.Limit)
	all, err := list(ctx, a.db.reader, func(row scanner) (e account.Entry, err error) {
		var at int64
		err = row.Scan(&e.ID, &at, &e.Who, &e.Name, &e.Token, &e.Action, &e.Thing, &e.Target, &e.Detail, &e.Outcome, &e.From, &e.Request)
		e.At = fromMicros(at)
		return e, err
	}, query, c.args...)
	return all, a.db.explain("read the audit log", err)
}

// PruneAudit removes entries written before an instant and says how many.
func (a Accounts) PruneAudit(ctx context.Context, before time.Time) (int, error) {
	res, err := a.db.exec(ctx, "prune the audit log", `DELETE FROM audit WHERE at < $1`, micros(before))
	if err != nil {
		return 0, err
	}
	n, err := res.RowsAffected()
	return int(n), a.db.explain("prune the audit log", err)
}
