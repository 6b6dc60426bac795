package sqlstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"time"

	"assay/internal/fault"
	"assay/internal/usage"
)

// Usage counts what sandboxes, judgings and gradings have used.
type Usage struct{ db *DB }

var _ usage.Store = Usage{}

// Usage gives the store of what was used.
func (db *DB) Usage() Usage { return Usage{db} }

// UserID is the ID of a login.
func (u Usage) UserID(ctx context.Context, login string) (id string, err error) {
	err = u.db.reader.QueryRowContext(ctx, `SELECT id FROM users WHERE login = lower($1)`, login).Scan(&id)
	if errors.Is(err, sql.ErrNoRows) {
		err = fault.Errorf(fault.NotFound, "there is no user %s", login)
	}
	return id, u.db.explain("find user "+login, err)
}

// usageSource is a table that says what was used. Its query takes the first
// instant, the one after the last, the user, and the label where the key is one.
type usageSource struct{ keys, sums, from string }

// The sums of each source: CPU time in microseconds, memory and snapshots in
// bytes times seconds, sandboxes, runs.
var (
	sandboxUse = usageSource{
		sums: `SUM(s.cpu_us), SUM(s.memory_byte_s), 0, COUNT(*), 0`,
		from: ` FROM sandboxes s LEFT JOIN users u ON u.id = s.owner
			LEFT JOIN sandbox_labels l ON l.sandbox = s.id AND l.name = $4
			WHERE s.created >= $1 AND s.created < $2 AND ($3 = '' OR s.owner = $3)`,
	}
	// A snapshot that nobody has removed ends when it expires.
	snapshotUse = usageSource{
		sums: `0, 0, SUM(CAST(s.bytes AS DOUBLE PRECISION) * ((CASE WHEN s.gone < $2 THEN s.gone ELSE $2 END) - (CASE WHEN s.taken > $1 THEN s.taken ELSE $1 END)) / 1000000), 0, 0`,
		from: ` FROM (SELECT id, owner, sandbox, bytes, taken,
				CASE WHEN removed > 0 THEN removed WHEN expires > 0 THEN expires ELSE 9223372036854775807 END AS gone FROM sandbox_snapshots) s
			LEFT JOIN users u ON u.id = s.owner
			LEFT JOIN sandbox_snapshot_labels l ON l.snapshot = s.id AND l.name = $4
			WHERE s.taken < $2 AND s.gone > $1 AND ($3 = '' OR s.owner = $3)`,
	}
	judgingUse = usageSource{
		sums: `SUM(r.cpu_us), SUM(r.memory_time), 0, 0, COUNT(*)`,
		from: ` FROM judge_runs r JOIN submissions s ON s.id = r.submission
			WHERE r.ended >= $1 AND r.ended < $2 AND r.ended > 0 AND ($3 = '' OR s.user_id = $3) AND CAST($4 AS TEXT) = $4`,
	}
	gradingUse = usageSource{
		sums: `SUM(g.cpu_us), SUM(g.memory_time), 0, 0, COUNT(*)`,
		from: ` FROM class_gradings g JOIN class_attempts a ON a.id = g.attempt
			WHERE g.ended >= $1 AND g.ended < $2 AND g.ended > 0 AND ($3 = '' OR a.user_id = $3) AND CAST($4 AS TEXT) = $4`,
	}
)

// sources are what is counted for a kind of line, each with its key.
func sources(by usage.By) []usageSource {
	with := func(s usageSource, key string) usageSource { s.keys = key; return s }
	switch by {
	case usage.BySandbox:
		return []usageSource{with(sandboxUse, `s.id`), with(snapshotUse, `s.sandbox`)}
	case usage.ByUser:
		return []usageSource{with(sandboxUse, `COALESCE(u.login, '')`), with(snapshotUse, `COALESCE(u.login, '')`), with(judgingUse, `s.login`), with(gradingUse, `a.login`)}
	case usage.ByProblem:
		return []usageSource{with(judgingUse, `s.problem`)}
	case usage.ByCourse:
		return []usageSource{with(gradingUse, `g.course`)}
	}
	// The labels of submissions are JSON, which no query reads on both databases.
	return []usageSource{with(sandboxUse, `COALESCE(l.value, '')`), with(snapshotUse, `COALESCE(l.value, '')`), with(judgingUse, `s.labels`)}
}

// Used counts.
func (u Usage) Used(ctx context.Context, q usage.Query) ([]usage.Line, error) {
	var all []usage.Line
	label := q.By.Label()
	err := u.db.read(ctx, "count what was used", func(tx *sql.Tx) error {
		all = nil
		for _, s := range sources(q.By) {
			lines, err := list(ctx, tx, scanUse, `SELECT `+s.keys+`, `+s.sums+s.from+` GROUP BY `+s.keys, micros(q.From), micros(q.To), q.User, label)
			if err != nil {
				return err
			}
			if s.keys == `s.labels` {
				if err := byLabel(lines, label); err != nil {
					return err
				}
			}
			all = append(all, lines...)
		}
		return nil
	})
	return all, err
}

func scanUse(row scanner) (l usage.Line, err error) {
	var cpu int64
	err = row.Scan(&l.Key, &cpu, &l.Memory, &l.Snapshots, &l.Sandboxes, &l.Runs)
	l.CPU = time.Duration(cpu) * time.Microsecond
	return l, err
}

// byLabel makes keys that are labels as JSON the value of one of them.
func byLabel(lines []usage.Line, label string) error {
	for i := range lines {
		var labels map[string]string
		if err := json.Unmarshal([]byte(lines[i].Key), &labels); err != nil {
			return err
		}
		lines[i].Key = labels[label]
	}
	return nil
}
