package sqlstore

import (
	"fmt"
	"path/filepath"
	"sync"
	"testing"
)

func TestStatementsAreKept(t *testing.T) {
	t.Parallel()
	db := open(t, filepath.Join(t.TempDir(), "assay.db"))
	var all sync.WaitGroup
	for i := range 100 {
		all.Go(func() {
			var n int
			if err := db.reader.QueryRowContext(t.Context(), `SELECT $1 + 1`, i).Scan(&n); err != nil || n != i+1 {
				t.Errorf("got %d, %v, want %d", n, err, i+1)
			}
		})
	}
	all.Wait()
	if n := len(db.reader.kept); n != 1 {
		t.Errorf("%d statements are kept, want 1", n)
	}
	for i := range 2 * statementsKept {
		var n int
		if err := db.reader.QueryRowContext(t.Context(), fmt.Sprintf(`SELECT %d`, i)).Scan(&n); err != nil || n != i {
			t.Fatalf("got %d, %v, want %d", n, err, i)
		}
	}
	if n := len(db.reader.kept); n != statementsKept {
		t.Errorf("%d statements are kept, want %d", n, statementsKept)
	}
	if open := db.reader.Stats().OpenConnections; open > readersOpen {
		t.Errorf("%d connections are open", open)
	}
	// What cannot be prepared says so, each time, and is not kept.
	for range 2 {
		if err := db.reader.QueryRowContext(t.Context(), `SELECT nonsense FROM nothing`).Scan(new(int)); err == nil {
			t.Error("nonsense has an answer")
		}
	}
}

// A table that another process has changed meanwhile.
func TestKeptStatementsSeeAChangedTable(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "assay.db")
	db, other := open(t, path), open(t, path)
	count := func() (columns int) {
		t.Helper()
		rows, err := db.reader.QueryContext(t.Context(), `SELECT * FROM changing`)
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()
		names, err := rows.Columns()
		if err != nil {
			t.Fatal(err)
		}
		for rows.Next() {
			if err := rows.Scan(places(len(names))...); err != nil {
				t.Fatal(err)
			}
			columns = len(names)
		}
		if err := rows.Err(); err != nil {
			t.Fatal(err)
		}
		return columns
	}
	change := func(statement string) {
		t.Helper()
		if _, err := other.writer.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	change(`CREATE TABLE changing (a TEXT)`)
	change(`INSERT INTO changing VALUES ('x')`)
	if n := count(); n != 1 {
		t.Errorf("%d columns, want 1", n)
	}
	change(`ALTER TABLE changing ADD COLUMN b TEXT`)
	if n := count(); n != 2 {
		t.Errorf("%d columns, want 2", n)
	}
}

// places makes places for n values.
func places(n int) []any {
	all := make([]any, n)
	for i := range all {
		all[i] = new(any)
	}
	return all
}
