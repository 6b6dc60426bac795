package sqlstore

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"assay/internal/account"
)

func digestOf(digit string) string { return "sha256:" + strings.Repeat(digit, 64) }

func TestDigestsAreFoundWhereverTheyAre(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, open func(t *testing.T) *DB) {
		db := open(t)
		exec := func(query string, args ...any) {
			t.Helper()
			if _, err := db.exec(t.Context(), "test", query, args...); err != nil {
				t.Fatal(err)
			}
		}
		exec(`INSERT INTO problems (id, is_open, version, created) VALUES ('p', $1, 'v', 1)`, true)
		exec(`INSERT INTO problem_versions (problem, digest, number, package, about, uploaded, by_whom) VALUES ('p', 'v', 1, $1, $2, 1, '')`,
			digestOf("a"), fmt.Sprintf(`{"x": [%q, %q]}`, digestOf("b"), digestOf("c")))
		exec(`INSERT INTO judge_runs (id, submission, version, state, verdict, reason, failed_case, score, time_us, memory, node, tries, rejudge, replaced, created, ended, record, result)
			SELECT 'r', id, '', '', '', '', 0, '', 0, 0, '', 0, '', '', 1, 1, $1, $2 FROM submissions`, digestOf("0"), digestOf("0")) // there is none yet
		exec(`INSERT INTO submissions (id, problem, version, user_id, login, language, entry, digest, files, labels, received, run, idem, idem_body)
			VALUES ('s', 'p', 'v', '', '', '', '', 'sha256:short', $1, '{}', 1, 'r', '', '')`, digestOf("d"))
		exec(`INSERT INTO judge_runs (id, submission, version, state, verdict, reason, failed_case, score, time_us, memory, node, tries, rejudge, replaced, created, ended, record, result)
			VALUES ('r', 's', '', '', '', '', 0, '', 0, 0, '', 0, '', '', 1, 1, $1, $2)`, digestOf("e"), digestOf("f"))
		exec(`CREATE TABLE added_later (body TEXT NOT NULL)`)
		exec(`INSERT INTO added_later VALUES ($1)`, "see "+digestOf("9"))
		var got []string
		if err := db.Digests(t.Context(), func(d string) { got = append(got, d) }); err != nil {
			t.Fatal(err)
		}
		slices.Sort(got)
		// The result of a run is not read: it is large and names no blob of its own.
		want := []string{digestOf("9"), digestOf("a"), digestOf("b"), digestOf("c"), digestOf("d"), digestOf("e")}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("want -, got +:\n%s", diff)
		}
	})
}

func TestOldAuditIsPruned(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, open func(t *testing.T) *DB) {
		db, at := open(t), time.UnixMicro(1_000_000).UTC()
		for i := range 3 {
			e := account.Entry{ID: fmt.Sprint(i), At: at.Add(time.Duration(i) * time.Second), Action: "GET /"}
			if err := db.Accounts().AddAudit(t.Context(), []account.Entry{e}); err != nil {
				t.Fatal(err)
			}
		}
		for _, tt := range []struct {
			before time.Time
			want   int
		}{{at, 0}, {at.Add(2 * time.Second), 2}, {at.Add(2 * time.Second), 0}} {
			if n, err := db.Accounts().PruneAudit(t.Context(), tt.before); err != nil || n != tt.want {
				t.Errorf("before %v: %d, %v, want %d", tt.before, n, err, tt.want)
			}
		}
		left, err := db.Accounts().Audit(t.Context(), account.AuditQuery{Limit: 9})
		if err != nil || len(left) != 1 || left[0].ID != "2" {
			t.Errorf("left: %+v, %v", left, err)
		}
	})
}
