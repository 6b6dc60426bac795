// Package sqltest gives a test an empty PostgreSQL database of its own, on the
// server that tools/with-postgres started. Start with Postgres.
//
// It is imported by tests only and must not know any store.
package sqltest

import (
	"context"
	"crypto/rand"
	"database/sql"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"

	"assay/internal/require"
)

// Database is an empty database that a test has for itself.
type Database struct {
	// URL opens it.
	URL string
	// Name is that of its schema, and the application_name of all connections
	// opened by URL.
	Name string

	admin *sql.DB
}

// Postgres makes a database, which is removed after the test. Without a server
// the test is skipped, or fails: see require.Postgres.
func Postgres(t testing.TB) *Database {
	t.Helper()
	server := require.Postgres(t)
	u, err := url.Parse(server)
	if err != nil {
		t.Fatal("ASSAY_TEST_POSTGRES is no URL")
	}
	admin, err := sql.Open("pgx", server)
	if err != nil {
		t.Fatal(err)
	}
	admin.SetMaxOpenConns(1)
	d := &Database{Name: "t" + strings.ToLower(rand.Text()[:16]), admin: admin}
	q := u.Query()
	q.Set("search_path", d.Name)
	q.Set("application_name", d.Name)
	u.RawQuery = q.Encode()
	d.URL = u.String()
	t.Cleanup(func() {
		// The test's context has ended.
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if _, err := admin.ExecContext(ctx, `DROP SCHEMA IF EXISTS `+d.Name+` CASCADE`); err != nil {
			t.Errorf("remove the test's database: %v", err)
		}
		if err := admin.Close(); err != nil {
			t.Error(err)
		}
	})
	if _, err := admin.ExecContext(t.Context(), `CREATE SCHEMA `+d.Name); err != nil {
		t.Fatal(err)
	}
	return d
}

// Socket is where the server listens.
func (d *Database) Socket() string {
	return filepath.Join(d.parsed().Query().Get("host"), ".s.PGSQL.5432")
}

// Through gives the URL of the database by way of an address that leads to its
// Socket.
func (d *Database) Through(address string) string {
	u := d.parsed()
	q := u.Query()
	q.Del("host")
	q.Set("sslmode", "disable")
	u.Host, u.RawQuery = address, q.Encode()
	return u.String()
}

func (d *Database) parsed() *url.URL {
	u, err := url.Parse(d.URL)
	if err != nil {
		panic(err) // Postgres made it from one
	}
	return u
}

// CutConnections ends all connections to the database at the server, as its
// restart does, and says how many there were.
func (d *Database) CutConnections(t testing.TB) int {
	t.Helper()
	var n int
	err := d.admin.QueryRowContext(t.Context(),
		`SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = $1`, d.Name).Scan(&n)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
