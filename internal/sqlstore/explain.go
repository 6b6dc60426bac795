package sqlstore

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/jackc/pgx/v5/pgconn"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"assay/internal/fault"
)

// explain gives an error of the database its kind. A fault stays what it is.
func (db *DB) explain(doing string, err error) error {
	if err == nil || fault.KindOf(err) != fault.Internal {
		return err
	}
	explained := explainSQLite
	if db.postgres {
		explained = explainPostgres
	}
	if f := explained(doing, db.name, err); f != nil {
		return f
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// explainSQLite gives nil for what has no kind.
func explainSQLite(doing, name string, err error) *fault.Error {
	e, ok := errors.AsType[*sqlite.Error](err)
	if !ok {
		return nil
	}
	switch e.Code() & 0xff {
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
		return fault.Errorf(fault.Unavailable, "%s: another process has been writing to %s for too long: %w", doing, name, err).WithHint("try again")
	case sqlite3.SQLITE_FULL:
		return fault.Errorf(fault.Exhausted, "%s: no room for %s: %w", doing, name, err).WithHint("make room on the disk")
	case sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT:
		return fault.Errorf(fault.Unavailable, "%s: %s is damaged or no database: %w", doing, name, err).WithHint("put a copy of it back")
	case sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM:
		return fault.Errorf(fault.Denied, "%s: %s cannot be written: %w", doing, name, err).WithHint("is the data directory yours? see --data-dir")
	}
	return nil
}

// Codes of PostgreSQL that mean something here (its manual, appendix A).
const (
	pgSerialization   = "40001"
	pgDeadlock        = "40P01"
	pgLockTimeout     = "55P03"
	pgDiskFull        = "53100"
	pgTooMany         = "53300"
	pgNoDatabase      = "3D000"
	pgNoSchema        = "3F000"
	pgNotAllowed      = "42501"
	pgBadText         = "22021"
	pgClassConnection = "08"
	pgClassSignIn     = "28"
	pgClassResources  = "53"
	pgClassOperator   = "57"
)

// explainPostgres gives nil for what has no kind.
func explainPostgres(doing, name string, err error) *fault.Error {
	// A connection that is refused has a code inside too: the code says more.
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		class := e.Code[:min(2, len(e.Code))]
		switch {
		case e.Code == pgDiskFull:
			return fault.Errorf(fault.Exhausted, "%s: the disk of %s is full: %w", doing, name, err).WithHint("make room on the database's disk")
		case e.Code == pgSerialization, e.Code == pgDeadlock, e.Code == pgLockTimeout:
			return fault.Errorf(fault.Unavailable, "%s: others have been writing to the same things for too long: %w", doing, err).WithHint("try again")
		case e.Code == pgTooMany:
			return fault.Errorf(fault.Unavailable, "%s: %s takes no more connections: %w", doing, name, err).WithHint("try again, or raise max_connections of the database")
		case e.Code == pgNoDatabase, e.Code == pgNoSchema:
			return fault.Errorf(fault.Unavailable, "%s: %s is not there: %w", doing, name, err).WithHint("make the database with createdb, or correct the database URL")
		case e.Code == pgBadText:
			return fault.Errorf(fault.Invalid, "%s: a text has a byte that no text can have: %w", doing, err).WithHint("use UTF-8 without zero bytes")
		case e.Code == pgNotAllowed, class == pgClassSignIn:
			return fault.Errorf(fault.Unavailable, "%s: %s refuses us: %w", doing, name, err).WithHint("are user and password of the database URL right, and may that user make tables?")
		case class == pgClassConnection, class == pgClassResources, class == pgClassOperator:
			return unreachable(doing, name, err)
		}
		return nil
	}
	_, connecting := errors.AsType[*pgconn.ConnectError](err)
	network, isNetwork := errors.AsType[net.Error](err)
	switch {
	case errors.Is(err, context.Canceled):
		return nil
	// The driver gives a context's deadline as an error of the network.
	case errors.Is(err, context.DeadlineExceeded), isNetwork && network.Timeout():
		return fault.Errorf(fault.Unavailable, "%s: %s did not answer in time: %w", doing, name, err).WithHint("try again")
	case connecting, isNetwork, pgconn.SafeToRetry(err), errors.Is(err, driver.ErrBadConn), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed):
		return unreachable(doing, name, err)
	}
	return nil
}

func unreachable(doing, name string, err error) *fault.Error {
	return fault.Errorf(fault.Unavailable, "%s: no connection to %s: %w", doing, name, err).WithHint("try again; is the database running?")
}
