package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
)

var digest = regexp.MustCompile(`sha256:[0-9a-f]{64}`)

// notBlobs are columns that are large and name no blob of their own: what they
// name is in another column of the row, too.
var notBlobs = map[string]bool{"judge_runs.result": true, "class_gradings.grade": true, "course_runs.grade": true}

// Digests gives each digest that is written anywhere in the database, some of
// them many times. All columns of text are looked at: a table that somebody
// adds keeps its blobs without being named here.
func (db *DB) Digests(ctx context.Context, visit func(digest string)) error {
	columns, err := db.textColumns(ctx)
	if err != nil {
		return db.explain("list the columns of text", err)
	}
	for _, c := range columns {
		if notBlobs[c.table+"."+c.name] {
			continue
		}
		if err := db.digestsIn(ctx, c, visit); err != nil {
			return db.explain("look for digests in "+c.table, err)
		}
	}
	return nil
}

type textColumn struct{ table, name string }

// textColumns are all columns of text of all tables.
func (db *DB) textColumns(ctx context.Context) ([]textColumn, error) {
	query := `SELECT t.name, c.name FROM sqlite_master t JOIN pragma_table_info(t.name) c WHERE t.type = 'table' AND upper(c.type) = 'TEXT' ORDER BY 1, 2`
	if db.postgres {
		query = `SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = current_schema() AND data_type = 'text' ORDER BY 1, 2`
	}
	return list(ctx, db.reader, func(row scanner) (c textColumn, err error) { return c, row.Scan(&c.table, &c.name) }, query)
}

func quoted(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

func (db *DB) digestsIn(ctx context.Context, c textColumn, visit func(string)) (err error) {
	rows, err := db.reader.QueryContext(ctx, fmt.Sprintf(`SELECT %[2]s FROM %[1]s WHERE %[2]s LIKE '%%sha256:%%'`, quoted(c.table), quoted(c.name)))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			return err
		}
		for _, d := range digest.FindAllString(text, -1) {
			visit(d)
		}
	}
	return rows.Err()
}
