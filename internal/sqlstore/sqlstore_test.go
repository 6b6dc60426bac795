package sqlstore

import (
	"context"
	"database/sql"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"

	"assay/internal/course/class"
	"assay/internal/course/class/storetest"
	"assay/internal/fault"
	"assay/internal/sqlstore/sqltest"
)

func open(t *testing.T, path string) *DB {
	t.Helper()
	db, err := Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

// onBoth runs a test on each kind of database. Each call of open is another
// process that uses the same, at first empty one.
func onBoth(t *testing.T, run func(t *testing.T, open func(t *testing.T) *DB)) {
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		path := filepath.Join(t.TempDir(), "assay.db")
		run(t, func(t *testing.T) *DB { return open(t, path) })
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		d := sqltest.Postgres(t)
		run(t, func(t *testing.T) *DB { return openPostgres(t, d) })
	})
}

func openPostgres(t *testing.T, d *sqltest.Database) *DB {
	t.Helper()
	db, err := OpenURL(t.Context(), d.URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

// suiteOnBoth runs a suite that opens an empty store several times.
func suiteOnBoth[S any](t *testing.T, run func(t *testing.T, open func(t *testing.T) S), store func(t *testing.T, open func(t *testing.T) *DB) S) {
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		run(t, func(t *testing.T) S {
			path := filepath.Join(t.TempDir(), "assay.db")
			return store(t, func(t *testing.T) *DB { return open(t, path) })
		})
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		run(t, func(t *testing.T) S {
			d := sqltest.Postgres(t)
			return store(t, func(t *testing.T) *DB { return openPostgres(t, d) })
		})
	})
}

func TestCourses(t *testing.T) {
	t.Parallel()
	suiteOnBoth(t, storetest.Run, func(t *testing.T, open func(t *testing.T) *DB) class.Store { return open(t).Courses() })
}

// twoHandles writes by one handle and reads by another, as two processes do.
type twoHandles struct {
	class.Store
	reader class.Store
}

func (h twoHandles) Courses(ctx context.Context) ([]class.Course, error) {
	return h.reader.Courses(ctx)
}

func (h twoHandles) Read(ctx context.Context, course string, fn func(class.Records) error) error {
	return h.reader.Read(ctx, course, fn)
}

func TestTwoProcesses(t *testing.T) {
	t.Parallel()
	suiteOnBoth(t, storetest.Run, func(t *testing.T, open func(t *testing.T) *DB) class.Store {
		return twoHandles{open(t).Courses(), open(t).Courses()}
	})
}

func TestManyOpenAtOnce(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a folder?", "assay#1.db")
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			db, err := Open(t.Context(), path)
			if err != nil {
				t.Error(err)
				return
			}
			if err := db.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file is %v, %v; want it to be its owner's alone", info, err)
	}
}

func TestNewerDatabaseIsRefused(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, open func(t *testing.T) *DB) {
		db := open(t)
		if _, err := db.writer.ExecContext(t.Context(), `INSERT INTO goose_db_version (version_id, is_applied) VALUES ($1, $2)`, 9999, true); err != nil {
			t.Fatal(err)
		}
		if err := db.migrate(t.Context()); !fault.Is(err, fault.Unsupported) {
			t.Errorf("got %v, want it to be unsupported", err)
		}
	})
}

func TestNoDatabaseIsRefused(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "assay.db")
	if err := os.WriteFile(path, []byte("this is a text and not a database, and it is long enough to be one"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), path); !fault.Is(err, fault.Unavailable) || fault.HintOf(err) == "" {
		t.Errorf("got %v", err)
	}
}

func TestPragmasHold(t *testing.T) {
	t.Parallel()
	db := open(t, filepath.Join(t.TempDir(), "assay.db"))
	for _, h := range []*sql.DB{db.writer, db.reader.DB} {
		for pragma, want := range map[string]string{"journal_mode": "wal", "foreign_keys": "1", "busy_timeout": "30000", "synchronous": "2"} {
			var got string
			if err := h.QueryRowContext(t.Context(), "PRAGMA "+pragma).Scan(&got); err != nil || got != want {
				t.Errorf("%s is %s, %v; want %s", pragma, got, err, want)
			}
		}
	}
}

// TestProcessesCountTogether has two processes read and then write: each must
// wait for the other before it reads.
func TestProcessesCountTogether(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, open func(t *testing.T) *DB) {
		processesCountTogether(t, []class.Store{open(t).Courses(), open(t).Courses()})
	})
}

func processesCountTogether(t *testing.T, stores []class.Store) {
	if err := stores[0].CreateCourse(t.Context(), class.Course{ID: "c"}); err != nil {
		t.Fatal(err)
	}
	const each = 30
	var wg sync.WaitGroup
	for _, s := range stores {
		wg.Go(func() {
			for range each {
				err := s.Write(t.Context(), "c", func(r class.Records) error {
					st, err := r.State(t.Context(), "")
					if err != nil {
						return err
					}
					return r.PutPerson(t.Context(), class.Person{ID: strconv.Itoa(len(st.People))})
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	err := stores[0].Read(t.Context(), "c", func(r class.Records) error {
		st, err := r.State(t.Context(), "")
		if len(st.People) != 2*each {
			t.Errorf("%d people, want %d", len(st.People), 2*each)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
