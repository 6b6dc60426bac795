package sqlstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"assay/internal/fault"
	"assay/internal/sandboxes"
)

const snapshotColumns = `id, owner, node, name, labels, sandbox, template, shape, bytes, taken, expires, removed`

// AddSnapshot writes a new snapshot.
func (s Sandboxes) AddSnapshot(ctx context.Context, n sandboxes.Snapshot) error {
	labels, err := json.Marshal(n.Labels)
	if err != nil {
		return fmt.Errorf("add snapshot %s: %w", n.ID, err)
	}
	shape, err := json.Marshal(n.Shape)
	if err != nil {
		return fmt.Errorf("add snapshot %s: %w", n.ID, err)
	}
	return s.db.write(ctx, "add snapshot "+n.ID, func(tx *sql.Tx) error {
		res, err := tx.ExecContext(ctx, `INSERT INTO sandbox_snapshots (`+snapshotColumns+`)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12) ON CONFLICT (id) DO NOTHING`,
			n.ID, n.Owner, n.Node, n.Name, string(labels), n.Sandbox, n.Template, string(shape), n.Bytes, micros(n.Taken), micros(n.Expires), micros(n.Removed))
		if err == nil {
			err = one(res, fault.Errorf(fault.Conflict, "there is a snapshot %s already", n.ID))
		}
		if err != nil {
			return err
		}
		return addLabels(ctx, tx, `INSERT INTO sandbox_snapshot_labels (snapshot, name, value) VALUES ($1, $2, $3)`, n.ID, n.Labels)
	})
}

func scanSnapshot(row scanner) (n sandboxes.Snapshot, err error) {
	var labels, shape string
	var taken, expires, removed int64
	if err := row.Scan(&n.ID, &n.Owner, &n.Node, &n.Name, &labels, &n.Sandbox, &n.Template, &shape, &n.Bytes, &taken, &expires, &removed); err != nil {
		return n, err
	}
	n.Taken, n.Expires, n.Removed = fromMicros(taken), fromMicros(expires), fromMicros(removed)
	return n, errors.Join(json.Unmarshal([]byte(labels), &n.Labels), json.Unmarshal([]byte(shape), &n.Shape))
}

// Snapshot finds one that has not been removed.
func (s Sandboxes) Snapshot(ctx context.Context, id string) (sandboxes.Snapshot, error) {
	n, err := scanSnapshot(s.db.reader.QueryRowContext(ctx, `SELECT `+snapshotColumns+` FROM sandbox_snapshots WHERE id = $1 AND removed = 0`, id))
	if errors.Is(err, sql.ErrNoRows) {
		return n, fault.Errorf(fault.NotFound, "there is no snapshot %.64s", id)
	}
	return n, s.db.explain("find a snapshot", err)
}

// Snapshots are those that a query asks for, newest first.
func (s Sandboxes) Snapshots(ctx context.Context, q sandboxes.Query) ([]sandboxes.Snapshot, error) {
	c := conditionsOf(q, "sandbox_snapshots", "taken", "removed", "sandbox_snapshot_labels", "snapshot")
	if q.Sandbox != "" {
		c.add("sandbox = $$", q.Sandbox)
	}
	query := `SELECT ` + snapshotColumns + ` FROM sandbox_snapshots` + c.end("taken DESC, id DESC", q.Limit)
	rows, err := list(ctx, s.db.reader, scanSnapshot, query, c.args...)
	return rows, s.db.explain("list snapshots", err)
}

// EndSnapshot writes that a snapshot was removed, once.
func (s Sandboxes) EndSnapshot(ctx context.Context, id string, at time.Time) error {
	_, err := s.db.exec(ctx, "write that snapshot "+id+" was removed", `UPDATE sandbox_snapshots SET removed = $1 WHERE id = $2 AND removed = 0`, micros(at), id)
	return err
}

// Remember writes a request under way, or gives the one that came before.
func (s Sandboxes) Remember(ctx context.Context, r sandboxes.Request) (before *sandboxes.Request, err error) {
	err = s.db.write(ctx, "remember a request", func(tx *sql.Tx) error {
		res, err := tx.ExecContext(ctx, `INSERT INTO sandbox_requests (owner, request_key, digest, node, made, answered, answer)
			VALUES ($1, $2, $3, $4, $5, $6, '') ON CONFLICT (owner, request_key) DO NOTHING`, r.Owner, r.Key, r.Digest, r.Node, micros(r.Made), false)
		if err != nil {
			return err
		}
		before = nil // this may be the second try
		if n, err := res.RowsAffected(); err != nil || n == 1 {
			return err
		}
		b := sandboxes.Request{Owner: r.Owner, Key: r.Key}
		var made int64
		var answered bool
		var answer string
		if err := tx.QueryRowContext(ctx, `SELECT digest, node, made, answered, answer FROM sandbox_requests WHERE owner = $1 AND request_key = $2`, r.Owner, r.Key).
			Scan(&b.Digest, &b.Node, &made, &answered, &answer); err != nil {
			return err
		}
		b.Made = fromMicros(made)
		if answered {
			b.Answer = []byte(answer)
		}
		before = &b
		return nil
	})
	return before, err
}

// Answered keeps the answer of a request under way.
func (s Sandboxes) Answered(ctx context.Context, owner, key string, answer []byte) error {
	_, err := s.db.exec(ctx, "remember an answer", `UPDATE sandbox_requests SET answered = $1, answer = $2 WHERE owner = $3 AND request_key = $4`,
		true, string(answer), owner, key)
	return err
}

// Forget takes away a request.
func (s Sandboxes) Forget(ctx context.Context, owner, key string) error {
	_, err := s.db.exec(ctx, "forget a request", `DELETE FROM sandbox_requests WHERE owner = $1 AND request_key = $2`, owner, key)
	return err
}

// ShrinkAnswers puts another answer in place of old long ones.
func (s Sandboxes) ShrinkAnswers(ctx context.Context, before time.Time, longer int, answer []byte) error {
	_, err := s.db.exec(ctx, "shrink old answers", `UPDATE sandbox_requests SET answer = $1 WHERE made < $2 AND LENGTH(answer) > $3`,
		string(answer), micros(before), longer)
	return err
}

// ForgetBefore takes away old requests, and those that a node left under way.
func (s Sandboxes) ForgetBefore(ctx context.Context, at time.Time, node string) error {
	_, err := s.db.exec(ctx, "forget old requests", `DELETE FROM sandbox_requests WHERE made < $1 OR node = $2 AND answered = $3`, micros(at), node, false)
	return err
}
