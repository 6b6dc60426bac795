// Package sqlstore keeps the domain's things in an SQL database: a SQLite file or
// PostgreSQL. Start with Open and OpenURL; Courses is the store of courses.
//
// Queries are portable: the same text runs on both databases, with $1 for
// arguments, BIGINT microseconds for instants and TEXT for the rest; migrations
// are one set too. What differs (opening, locks, errors) is in postgres.go,
// sqlite.go and explain.go. The package decides nothing: rules belong to the
// domain that declares the store.
package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"time"
)

// DB is an open database. It may be used from many goroutines; many processes
// may have the same one open.
type DB struct {
	// name is how errors call it: the file, or the URL without who and how.
	name string
	// postgres says which of the two it is.
	postgres bool
	// In SQLite there is one writer at a time, and it begins as one: a
	// transaction that becomes a writer later fails at once if somebody else has
	// written meanwhile. In PostgreSQL these are two pools, so that many readers
	// leave room for writers.
	writer *sql.DB
	reader *reader
}

// Name says which database it is, for logs: a path, or a URL without user and
// password.
func (db *DB) Name() string { return db.name }

// Ping asks whether the database answers. What it returns is Unavailable, most
// often.
func (db *DB) Ping(ctx context.Context) error {
	var n int
	return db.explain("ask the database", db.reader.QueryRowContext(ctx, `SELECT 1`).Scan(&n))
}

// Close closes the database.
func (db *DB) Close() error {
	var errs []error
	if db.reader != nil {
		errs = append(errs, db.reader.Close())
	}
	if db.writer != nil {
		errs = append(errs, db.writer.Close())
	}
	return errors.Join(errs...)
}

// plain is a text of any bytes, a program's or an error's, as a database takes
// it: UTF-8 without zero bytes.
func plain(text string) string {
	return strings.ToValidUTF8(strings.ReplaceAll(text, "\x00", ""), "\uFFFD")
}

// micros is an instant as it is kept; zero stays zero.
func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

func fromMicros(n int64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.UnixMicro(n).UTC()
}
