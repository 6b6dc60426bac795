package sqlstore

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"assay/internal/account"
	"assay/internal/classes"
	"assay/internal/fault"
	"assay/internal/judging"
)

var argument = regexp.MustCompile(`\$\d+`)

// TestQueriesOfListsFindTheirIndex: a year's rows are not read for one page.
func TestQueriesOfListsFindTheirIndex(t *testing.T) {
	t.Parallel()
	for index, ask := range map[string]func(db *DB) error{
		"submissions_by_time": func(db *DB) error {
			_, err := db.Judging().Submissions(t.Context(), judging.SubmissionQuery{Limit: 10})
			return err
		},
		"submissions_by_user": func(db *DB) error {
			_, err := db.Judging().Submissions(t.Context(), judging.SubmissionQuery{Limit: 10, User: "u"})
			return err
		},
		"submissions_by_problem": func(db *DB) error {
			_, err := db.Judging().Submissions(t.Context(), judging.SubmissionQuery{Limit: 10, Problem: "p"})
			return err
		},
		"submissions_by_key": func(db *DB) error {
			_, err := db.Judging().SubmissionByKey(t.Context(), "u", "k")
			return err
		},
		"class_attempts_by_user": func(db *DB) error {
			_, err := db.Classes().Attempts(t.Context(), classes.AttemptQuery{Limit: 10, User: "u"})
			return err
		},
		"class_attempts_by_course": func(db *DB) error {
			_, err := db.Classes().Attempts(t.Context(), classes.AttemptQuery{Limit: 10, Course: "c", Assignment: "a"})
			return err
		},
		"class_attempts_by_person": func(db *DB) error {
			_, err := db.Classes().Attempts(t.Context(), classes.AttemptQuery{Limit: 10, Course: "c", Person: "p"})
			return err
		},
		"class_attempts_by_key": func(db *DB) error {
			_, err := db.Classes().AttemptByKey(t.Context(), "u", "k")
			return err
		},
		"audit_who": func(db *DB) error {
			_, err := db.Accounts().Audit(t.Context(), account.AuditQuery{Limit: 10, Who: "u"})
			return err
		},
		"tokens_person": func(db *DB) error {
			_, err := db.Accounts().TokensOf(t.Context(), "u", "", 10)
			return err
		},
	} {
		t.Run(index, func(t *testing.T) {
			t.Parallel()
			db := open(t, filepath.Join(t.TempDir(), "assay.db"))
			if err := ask(db); err != nil && !fault.Is(err, fault.NotFound) {
				t.Fatal(err)
			}
			for query := range db.reader.kept {
				plan, err := list(t.Context(), db.reader, func(row scanner) (s string, err error) {
					var id, parent, unused int
					err = row.Scan(&id, &parent, &unused, &s)
					return s, err
				}, "EXPLAIN QUERY PLAN "+query, make([]any, len(argument.FindAllString(query, -1)))...)
				if err != nil {
					t.Fatal(err)
				}
				if text := strings.Join(plan, "\n"); !strings.Contains(text, index) || strings.Contains(text, "TEMP B-TREE") {
					t.Errorf("%s\n%s", query, text)
				}
				return
			}
			t.Error("no query was kept")
		})
	}
}
