package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// How often a transaction is begun, and the pause before the second time; later
// ones are longer.
const (
	transactTries = 8
	transactPause = 5 * time.Millisecond
)

// read runs fn on one state of the database: what others write meanwhile is not
// seen. Writing fails. fn may run more than once.
func (db *DB) read(ctx context.Context, doing string, fn func(*sql.Tx) error) error {
	var opts *sql.TxOptions
	if db.postgres {
		// A reader of SQLite is like this by itself.
		opts = &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true}
	}
	return db.transact(ctx, db.reader.DB, opts, doing, fn)
}

// write runs fn in a transaction: what it wrote is kept if it returns nil, and
// nothing of it otherwise. In SQLite nobody else writes meanwhile; in PostgreSQL
// others do, so whoever writes by what it has read takes a lock first. fn may
// run more than once.
func (db *DB) write(ctx context.Context, doing string, fn func(*sql.Tx) error) error {
	return db.transact(ctx, db.writer, nil, doing, fn)
}

// writeLocked is write while nobody else is in writeLocked with the same name.
func (db *DB) writeLocked(ctx context.Context, doing, name string, fn func(*sql.Tx) error) error {
	return db.write(ctx, doing, func(tx *sql.Tx) error {
		if err := db.lock(ctx, tx, name); err != nil {
			return err
		}
		return fn(tx)
	})
}

// exec runs one statement, in a transaction of its own.
func (db *DB) exec(ctx context.Context, doing, query string, args ...any) (res sql.Result, err error) {
	err = db.again(ctx, func() error {
		res, err = db.writer.ExecContext(ctx, query, args...)
		return err
	})
	return res, db.explain(doing, err)
}

func (db *DB) transact(ctx context.Context, h *sql.DB, opts *sql.TxOptions, doing string, fn func(*sql.Tx) error) error {
	return db.explain(doing, db.again(ctx, func() error {
		tx, err := h.BeginTx(ctx, opts)
		if err != nil {
			return err
		}
		// After Commit it does nothing; before, there is an error that counts more.
		defer func() { _ = tx.Rollback() }()
		if err := fn(tx); err != nil {
			return err
		}
		return tx.Commit()
	}))
}

// again runs fn once more where PostgreSQL undid a transaction because of
// another one and asks for it, a bounded number of times.
func (db *DB) again(ctx context.Context, fn func() error) error {
	pause := transactPause
	for try := 1; ; try++ {
		err := fn()
		if !collided(err) || try == transactTries {
			return err
		}
		// Two that collide must not meet again.
		timer := time.NewTimer(pause/2 + rand.N(pause))
		select {
		case <-ctx.Done():
			timer.Stop()
			return err
		case <-timer.C:
		}
		pause *= 2
	}
}

func collided(err error) bool {
	e, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (e.Code == pgSerialization || e.Code == pgDeadlock)
}
