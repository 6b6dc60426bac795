package sqlstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"sort"
	"time"

	"assay/internal/fault"
	"assay/internal/sandboxes"
)

// Sandboxes is the store of sandboxes, their snapshots and remembered requests.
type Sandboxes struct{ db *DB }

var _ sandboxes.Store = Sandboxes{}

// Sandboxes gives the store of sandboxes.
func (db *DB) Sandboxes() Sandboxes { return Sandboxes{db} }

// addLabels writes the labels of a thing that was just written, for filters.
func addLabels(ctx context.Context, tx *sql.Tx, insert, id string, labels map[string]string) error {
	for name, value := range labels {
		if _, err := tx.ExecContext(ctx, insert, id, name, value); err != nil {
			return err
		}
	}
	return nil
}

const sandboxColumns = `id, owner, token, node, name, labels, template, template_digest, snapshot, parent, boot_mode, boot_us,
	shape, disk_bytes, dedicated, created, deadline, idle_us, paused, cpu_us, memory_byte_s, snapshot_bytes, ended, why, cause, persistent`

// AddSandbox writes a new sandbox.
func (s Sandboxes) AddSandbox(ctx context.Context, r sandboxes.Record) error {
	labels, err := json.Marshal(r.Labels)
	if err != nil {
		return fmt.Errorf("add sandbox %s: %w", r.ID, err)
	}
	shape, err := json.Marshal(r.Shape)
	if err != nil {
		return fmt.Errorf("add sandbox %s: %w", r.ID, err)
	}
	return s.db.write(ctx, "add sandbox "+r.ID, func(tx *sql.Tx) error {
		res, err := tx.ExecContext(ctx, `INSERT INTO sandboxes (`+sandboxColumns+`)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25, $26)
			ON CONFLICT (id) DO NOTHING`,
			r.ID, r.Owner, r.Token, r.Node, r.Name, string(labels), r.Template, r.TemplateDigest, r.Snapshot, r.Parent, string(r.BootMode),
			r.Boot.Microseconds(), string(shape), r.Shape.Disk, r.Dedicated, micros(r.Created), micros(r.Deadline), r.Idle.Microseconds(), r.Paused,
			r.CPU.Microseconds(), r.ByteSeconds, r.SnapshotBytes, micros(r.End.At), r.End.Why, string(r.End.Cause), r.Persistent)
		if err == nil {
			err = one(res, fault.Errorf(fault.Conflict, "there is a sandbox %s already", r.ID))
		}
		if err != nil {
			return err
		}
		return addLabels(ctx, tx, `INSERT INTO sandbox_labels (sandbox, name, value) VALUES ($1, $2, $3)`, r.ID, r.Labels)
	})
}

func scanSandbox(row scanner) (r sandboxes.Record, err error) {
	var labels, shape string
	var boot, disk, created, deadline, idle, cpu, ended int64
	if err := row.Scan(&r.ID, &r.Owner, &r.Token, &r.Node, &r.Name, &labels, &r.Template, &r.TemplateDigest, &r.Snapshot, &r.Parent, &r.BootMode,
		&boot, &shape, &disk, &r.Dedicated, &created, &deadline, &idle, &r.Paused, &cpu, &r.ByteSeconds, &r.SnapshotBytes,
		&ended, &r.End.Why, &r.End.Cause, &r.Persistent); err != nil {
		return r, err
	}
	r.Boot, r.Idle, r.CPU = span(boot), span(idle), span(cpu)
	r.Created, r.Deadline, r.End.At = fromMicros(created), fromMicros(deadline), fromMicros(ended)
	return r, errors.Join(json.Unmarshal([]byte(labels), &r.Labels), json.Unmarshal([]byte(shape), &r.Shape))
}

// span is a stretch of time as it is kept.
func span(n int64) time.Duration { return time.Duration(n) * time.Microsecond }

// Sandbox finds one by its ID.
func (s Sandboxes) Sandbox(ctx context.Context, id string) (sandboxes.Record, error) {
	r, err := scanSandbox(s.db.reader.QueryRowContext(ctx, `SELECT `+sandboxColumns+` FROM sandboxes WHERE id = $1`, id))
	if errors.Is(err, sql.ErrNoRows) {
		return r, fault.Errorf(fault.NotFound, "there is no sandbox %.64s", id)
	}
	return r, s.db.explain("find a sandbox", err)
}

// conditionsOf are the conditions of a query on a table: made is its column of time, gone
// that of its end, labels the table of its labels with the column that names it.
func conditionsOf(q sandboxes.Query, table, made, gone, labels, labelled string) *conditions {
	c := &conditions{}
	if q.Owner != nil {
		c.add("owner = $$", *q.Owner)
	}
	c.is("node", q.Node)
	if q.Live {
		c.add(gone + " = 0")
	}
	if !q.From.IsZero() {
		c.add(made+" >= $$", micros(q.From))
	}
	if !q.To.IsZero() {
		c.add(made+" < $$", micros(q.To))
	}
	if !q.Before.IsZero() {
		c.add("("+made+", id) < ($$, $$)", micros(q.Before), q.BeforeID)
	}
	names := make([]string, 0, len(q.Labels))
	for name := range q.Labels {
		names = append(names, name)
	}
	sort.Strings(names) // the same query each time
	for _, name := range names {
		c.add("EXISTS (SELECT 1 FROM "+labels+" l WHERE l."+labelled+" = "+table+".id AND l.name = $$ AND l.value = $$)", name, q.Labels[name])
	}
	return c
}

// Sandboxes are those that a query asks for, newest first.
func (s Sandboxes) Sandboxes(ctx context.Context, q sandboxes.Query) ([]sandboxes.Record, error) {
	c := conditionsOf(q, "sandboxes", "created", "ended", "sandbox_labels", "sandbox")
	c.is("id", q.Sandbox)
	query := `SELECT ` + sandboxColumns + ` FROM sandboxes` + c.end("created DESC, id DESC", q.Limit)
	rows, err := list(ctx, s.db.reader, scanSandbox, query, c.args...)
	return rows, s.db.explain("list sandboxes", err)
}

// SetLimits changes deadline and idle limit of a live sandbox.
func (s Sandboxes) SetLimits(ctx context.Context, id string, deadline time.Time, idle time.Duration) error {
	_, err := s.db.exec(ctx, "set the limits of sandbox "+id, `UPDATE sandboxes SET deadline = $1, idle_us = $2 WHERE id = $3 AND ended = 0`,
		micros(deadline), idle.Microseconds(), id)
	return err
}

// SetPaused says whether a live sandbox is paused.
func (s Sandboxes) SetPaused(ctx context.Context, id string, paused bool) error {
	_, err := s.db.exec(ctx, "note that sandbox "+id+" was paused or resumed", `UPDATE sandboxes SET paused = $1 WHERE id = $2 AND ended = 0`, paused, id)
	return err
}

// AddUsage adds to what sandboxes and their owners used.
func (s Sandboxes) AddUsage(ctx context.Context, used []sandboxes.Used) error {
	if len(used) == 0 {
		return nil
	}
	return s.db.write(ctx, "keep account of sandboxes", func(tx *sql.Tx) error {
		for _, u := range used {
			if _, err := tx.ExecContext(ctx, `UPDATE sandboxes SET cpu_us = cpu_us + $1, memory_byte_s = memory_byte_s + $2,
				snapshot_bytes = snapshot_bytes + $3 WHERE id = $4`, u.CPU.Microseconds(), u.ByteSeconds, u.SnapshotBytes, u.Sandbox); err != nil {
				return err
			}
			if u.CPU == 0 {
				continue
			}
			keys := []string{u.Owner}
			if u.Token != "" {
				keys = append(keys, tokenKey(u.Token))
			}
			for _, key := range keys {
				if _, err := tx.ExecContext(ctx, `INSERT INTO sandbox_days (owner, day, cpu_us) VALUES ($1, $2, $3)
					ON CONFLICT (owner, day) DO UPDATE SET cpu_us = sandbox_days.cpu_us + excluded.cpu_us`,
					key, micros(u.Day), u.CPU.Microseconds()); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// EndSandbox writes the end, once.
func (s Sandboxes) EndSandbox(ctx context.Context, id string, e sandboxes.End) error {
	_, err := s.db.exec(ctx, "write the end of sandbox "+id, `UPDATE sandboxes SET ended = $1, why = $2, cause = $3 WHERE id = $4 AND ended = 0`,
		micros(e.At), plain(e.Why), string(e.Cause), id)
	return err
}

// tokenKey is under what a token's day is kept, beside those of owners: no ID of
// a user has a colon.
func tokenKey(token string) string { return "token:" + token }

// Held is what an owner has, or what was made with one token of the owner's.
func (s Sandboxes) Held(ctx context.Context, owner, token string, day time.Time) (h sandboxes.Held, err error) {
	var cpu int64
	key := owner
	if token != "" {
		key = tokenKey(token)
	}
	err = s.db.reader.QueryRowContext(ctx, `SELECT
		(SELECT COUNT(*) FROM sandboxes WHERE owner = $1 AND ended = 0 AND ($2 = '' OR token = $2)),
		(SELECT COALESCE(CAST(SUM(disk_bytes) AS BIGINT), 0) FROM sandboxes WHERE owner = $1 AND ended = 0 AND ($2 = '' OR token = $2)),
		(SELECT COUNT(*) FROM sandbox_snapshots n WHERE n.owner = $1 AND n.removed = 0
			AND ($2 = '' OR EXISTS (SELECT 1 FROM sandboxes s WHERE s.id = n.sandbox AND s.token = $2))),
		(SELECT COALESCE(CAST(SUM(bytes) AS BIGINT), 0) FROM sandbox_snapshots n WHERE n.owner = $1 AND n.removed = 0
			AND ($2 = '' OR EXISTS (SELECT 1 FROM sandboxes s WHERE s.id = n.sandbox AND s.token = $2))),
		(SELECT COALESCE(CAST(SUM(cpu_us) AS BIGINT), 0) FROM sandbox_days WHERE owner = $3 AND day = $4)`, owner, token, key, micros(day)).
		Scan(&h.Sandboxes, &h.DiskBytes, &h.Snapshots, &h.SnapshotBytes, &cpu)
	h.CPU = span(cpu)
	return h, s.db.explain("count what an owner has", err)
}
