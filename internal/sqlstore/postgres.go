package sqlstore

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"assay/internal/fault"
)

// A process has at most twice as many connections as poolSize: PostgreSQL takes
// 100 unless told otherwise, from all processes together.
const (
	poolSize = 12
	poolIdle = 4
	// connectTimeout is for one address, unless the URL has connect_timeout.
	connectTimeout = 5 * time.Second
)

// OpenURL opens a PostgreSQL database, "postgres://user:password@host:5432/name",
// and brings its tables up to date; many processes may do so at once. The
// database must be there. Everything that libpq knows may follow as parameters
// (sslmode, search_path, …). Close it. No error has the password in it.
func OpenURL(ctx context.Context, databaseURL string) (_ *DB, err error) {
	config, name, err := parseURL(databaseURL)
	if err != nil {
		return nil, err
	}
	db := &DB{name: name, postgres: true}
	defer func() {
		if err != nil {
			err = errors.Join(err, db.Close())
		}
	}()
	db.writer, db.reader = openPool(config), newReader(openPool(config), false)
	if err := db.migrateLocked(ctx); err != nil {
		return db, err
	}
	return db, nil
}

func openPool(config *pgx.ConnConfig) *sql.DB {
	h := stdlib.OpenDB(*config)
	h.SetMaxOpenConns(poolSize)
	h.SetMaxIdleConns(poolIdle)
	h.SetConnMaxIdleTime(5 * time.Minute)
	return h
}

// parseURL gives the name that errors may show, too.
func parseURL(databaseURL string) (*pgx.ConnConfig, string, error) {
	const hint = "a database URL looks like postgres://user:password@host:5432/name"
	u, err := url.Parse(databaseURL)
	// The error of url.Parse repeats the URL, and the password with it.
	if err != nil || (u.Scheme != "postgres" && u.Scheme != "postgresql") {
		return nil, "", fault.Errorf(fault.Invalid, "the database URL is not one of PostgreSQL").WithHint(hint)
	}
	name := (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
	config, err := pgx.ParseConfig(databaseURL)
	if err != nil {
		// What is wrong is shown only if it can show no secret.
		reason := ""
		if inner := errors.Unwrap(err); inner != nil && !showsSecret(inner.Error(), u) {
			reason = ": " + inner.Error()
		}
		return nil, "", fault.Errorf(fault.Invalid, "the database URL %s cannot be used%s", name, reason).WithHint(hint)
	}
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = connectTimeout
	}
	return config, name, nil
}

// showsSecret looks for anything of the URL that may be a password.
func showsSecret(text string, u *url.URL) bool {
	secrets := []string{u.Query().Get("password"), u.Query().Get("sslpassword")}
	if p, ok := u.User.Password(); ok {
		secrets = append(secrets, p, url.QueryEscape(p), url.PathEscape(p))
	}
	for _, s := range secrets {
		if s != "" && strings.Contains(text, s) {
			return true
		}
	}
	return false
}

// migrateLocked brings the tables up to date, one process at a time. The lock
// ends with its transaction, whatever happens to this process.
func (db *DB) migrateLocked(ctx context.Context) error {
	return db.transact(ctx, db.reader.DB, nil, "bring the database up to date", func(tx *sql.Tx) error {
		var schema sql.NullString
		if err := tx.QueryRowContext(ctx, `SELECT current_schema()`).Scan(&schema); err != nil {
			return err
		}
		if !schema.Valid {
			return fault.Errorf(fault.Unavailable, "%s has no schema to make tables in", db.name).WithHint("correct search_path in the database URL")
		}
		// Others may need long: there is no bound but the caller's.
		if _, err := tx.ExecContext(ctx, `SELECT pg_advisory_xact_lock($1)`, lockKey("migrate/"+schema.String)); err != nil {
			return err
		}
		if err := db.migrate(ctx); err != nil {
			return err
		}
		return db.orderByBytes(ctx)
	})
}

// orderByBytes makes all texts sort as they do in SQLite, by their bytes:
// otherwise lists would depend on the language of the database. It finds work
// only after a migration made new columns, which have few rows yet.
func (db *DB) orderByBytes(ctx context.Context) error {
	type column struct{ table, name string }
	columns, err := list(ctx, db.writer, func(row scanner) (c column, err error) {
		return c, row.Scan(&c.table, &c.name)
	}, `SELECT c.table_name, c.column_name FROM information_schema.columns c
		JOIN information_schema.tables t ON t.table_schema = c.table_schema AND t.table_name = c.table_name
		WHERE c.table_schema = current_schema() AND t.table_type = 'BASE TABLE' AND c.data_type = 'text' AND c.collation_name IS NULL`)
	if err != nil {
		return err
	}
	for _, c := range columns {
		statement := fmt.Sprintf(`ALTER TABLE %s ALTER COLUMN %s TYPE text COLLATE "C"`, pgx.Identifier{c.table}.Sanitize(), pgx.Identifier{c.name}.Sanitize())
		if _, err := db.writer.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

// lock keeps all others with the same name out until the transaction ends. In
// SQLite a writer is alone anyway.
func (db *DB) lock(ctx context.Context, tx *sql.Tx, name string) error {
	if !db.postgres {
		return nil
	}
	_, err := tx.ExecContext(ctx, `SELECT set_config('lock_timeout', $1, true), pg_advisory_xact_lock($2)`,
		fmt.Sprint(busyTimeout.Milliseconds()), lockKey(name))
	return err
}

// lockKey is the number of a lock in PostgreSQL. Two names with the same number
// would only wait for each other.
func lockKey(name string) int64 {
	sum := sha256.Sum256([]byte("assay/" + name))
	return int64(binary.BigEndian.Uint64(sum[:8]))
}
