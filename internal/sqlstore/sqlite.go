package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"assay/internal/fault"
)

// busyTimeout is how long one writer waits for another.
const busyTimeout = 30 * time.Second

// Open opens the SQLite database in a file, makes it if it is not there, and
// brings an older one up to date. Close it.
func Open(ctx context.Context, path string) (_ *DB, err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fault.Errorf(fault.Unavailable, "make the folder of %s: %w", path, err)
	}
	// What is in it is about people.
	if f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600); err != nil {
		return nil, fault.Errorf(fault.Unavailable, "open database: %w", err).WithHint("is the data directory yours? see --data-dir")
	} else if err := f.Close(); err != nil {
		return nil, fmt.Errorf("open database: %w", err)
	}
	db := &DB{name: path}
	defer func() {
		if err != nil {
			err = errors.Join(err, db.Close())
		}
	}()
	if db.writer, err = sql.Open("sqlite", dsn(path, "&_txlock=immediate")); err != nil {
		return db, fmt.Errorf("open database: %w", err)
	}
	db.writer.SetMaxOpenConns(1)
	if err := db.migrateFile(ctx); err != nil {
		return db, err
	}
	readers, err := sql.Open("sqlite", dsn(path, "&_pragma=query_only(1)"))
	if err != nil {
		return db, fmt.Errorf("open database: %w", err)
	}
	readers.SetMaxOpenConns(readersOpen)
	readers.SetMaxIdleConns(readersOpen)
	readers.SetConnMaxIdleTime(readersIdle)
	db.reader = newReader(readers, true)
	return db, nil
}

// dsn has the pragmas: each connection of a pool needs them.
func dsn(path, more string) string {
	name := url.URL{Scheme: "file", OmitHost: true, Path: path}
	return fmt.Sprintf("%s?_pragma=busy_timeout(%d)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=foreign_keys(1)%s",
		name.String(), busyTimeout.Milliseconds(), more)
}

// migrateFile brings the tables up to date, one process at a time.
func (db *DB) migrateFile(ctx context.Context) error {
	lock, err := os.OpenFile(db.name+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("lock database: %w", err)
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		return fmt.Errorf("lock database: %w", err)
	}
	return db.migrate(ctx)
}
