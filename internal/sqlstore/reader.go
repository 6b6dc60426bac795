package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"time"
)

const (
	// readersOpen is how many connections read a SQLite file at once. They need a
	// processor each; opening one costs as much as many queries.
	readersOpen = 16
	readersIdle = 5 * time.Minute
	// statementsKept bounds the queries that stay prepared on each connection:
	// more than there are in the source, less than filters can be combined.
	statementsKept = 256
)

// reader is a pool that keeps what it has prepared: SQLite takes longer to read
// a query than to answer it. It may be used from many goroutines.
type reader struct {
	*sql.DB
	// keeps says that statements are kept here; pgx does so by itself.
	keeps bool

	mu   sync.RWMutex
	kept map[string]*sql.Stmt
}

func newReader(db *sql.DB, keeps bool) *reader {
	return &reader{DB: db, keeps: keeps, kept: map[string]*sql.Stmt{}}
}

// QueryContext is that of sql.DB.
func (r *reader) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	if s := r.statement(ctx, query); s != nil {
		return s.QueryContext(ctx, args...)
	}
	return r.DB.QueryContext(ctx, query, args...)
}

// QueryRowContext is that of sql.DB.
func (r *reader) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	if s := r.statement(ctx, query); s != nil {
		return s.QueryRowContext(ctx, args...)
	}
	return r.DB.QueryRowContext(ctx, query, args...)
}

// statement gives the prepared query, or nil if it is not to be kept or cannot
// be prepared now: the query itself then says why.
func (r *reader) statement(ctx context.Context, query string) *sql.Stmt {
	if !r.keeps {
		return nil
	}
	r.mu.RLock()
	s, n := r.kept[query], len(r.kept)
	r.mu.RUnlock()
	if s != nil || n >= statementsKept {
		return s
	}
	s, err := r.DB.PrepareContext(ctx, query)
	if err != nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if first := r.kept[query]; first != nil || len(r.kept) >= statementsKept {
		// Somebody was quicker; nobody uses this one.
		_ = s.Close()
		return first
	}
	r.kept[query] = s
	return s
}

// Close closes the pool.
func (r *reader) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var errs []error
	for _, s := range r.kept {
		errs = append(errs, s.Close())
	}
	clear(r.kept)
	return errors.Join(append(errs, r.DB.Close())...)
}
