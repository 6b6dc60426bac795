package sqlstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"

	"assay/internal/fault"
	"assay/internal/judging"
)

// Judging is the store of problems, submissions and runs.
type Judging struct{ db *DB }

var _ judging.Store = Judging{}

// Judging gives the store of problems, submissions and runs.
func (db *DB) Judging() Judging { return Judging{db} }

// PutVersion makes a version current.
func (j Judging) PutVersion(ctx context.Context, v judging.Version) error {
	about, err := json.Marshal(v.About)
	if err != nil {
		return err
	}
	return j.db.writeLocked(ctx, "keep problem "+v.Problem, "problem "+v.Problem, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO problems (id, is_open, version, created) VALUES ($1, $2, $3, $4)
			ON CONFLICT (id) DO UPDATE SET version = excluded.version`, v.Problem, false, v.Digest, micros(v.Uploaded))
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `INSERT INTO problem_versions (problem, digest, number, package, about, uploaded, by_whom)
			VALUES ($1, $2, (SELECT COUNT(*) + 1 FROM problem_versions WHERE problem = $1), $3, $4, $5, $6)
			ON CONFLICT (problem, digest) DO NOTHING`, v.Problem, v.Digest, v.Package, string(about), micros(v.Uploaded), v.By)
		return err
	})
}

const problemColumns = `p.id, p.is_open, p.created, v.problem, v.digest, v.number, v.package, v.about, v.uploaded, v.by_whom
	FROM problems p JOIN problem_versions v ON v.problem = p.id AND v.digest = p.version`

func scanProblem(row scanner) (p judging.Problem, err error) {
	var created, uploaded int64
	var about string
	v := &p.Current
	if err = row.Scan(&p.ID, &p.Open, &created, &v.Problem, &v.Digest, &v.Number, &v.Package, &about, &uploaded, &v.By); err != nil {
		return p, err
	}
	p.Created, v.Uploaded = fromMicros(created), fromMicros(uploaded)
	return p, json.Unmarshal([]byte(about), &v.About)
}

// Problem gives one problem.
func (j Judging) Problem(ctx context.Context, id string) (judging.Problem, error) {
	p, err := scanProblem(j.db.reader.QueryRowContext(ctx, `SELECT `+problemColumns+` WHERE p.id = $1`, id))
	if errors.Is(err, sql.ErrNoRows) {
		err = noProblem(id)
	}
	return p, j.db.explain("find problem "+id, err)
}

func noProblem(id string) error { return fault.Errorf(fault.NotFound, "there is no problem %s", id) }

// Problems gives a page of problems.
func (j Judging) Problems(ctx context.Context, q judging.ProblemQuery) ([]judging.Problem, error) {
	all, err := list(ctx, j.db.reader, scanProblem, `SELECT `+problemColumns+`
		WHERE p.id > $1 AND (p.is_open OR $2) ORDER BY p.id LIMIT $3`, q.After, q.Closed, q.Limit)
	return all, j.db.explain("list problems", err)
}

func scanVersion(row scanner) (v judging.Version, err error) {
	var uploaded int64
	var about string
	if err = row.Scan(&v.Problem, &v.Digest, &v.Number, &v.Package, &about, &uploaded, &v.By); err != nil {
		return v, err
	}
	v.Uploaded = fromMicros(uploaded)
	return v, json.Unmarshal([]byte(about), &v.About)
}

// Version gives one version of a problem.
func (j Judging) Version(ctx context.Context, problem, digest string) (judging.Version, error) {
	v, err := scanVersion(j.db.reader.QueryRowContext(ctx, `SELECT problem, digest, number, package, about, uploaded, by_whom
		FROM problem_versions WHERE problem = $1 AND digest = $2`, problem, digest))
	if errors.Is(err, sql.ErrNoRows) {
		err = fault.Errorf(fault.NotFound, "problem %s has no version %s", problem, digest)
	}
	return v, j.db.explain("find version of problem "+problem, err)
}

// Versions gives all versions of a problem.
func (j Judging) Versions(ctx context.Context, problem string) ([]judging.Version, error) {
	all, err := list(ctx, j.db.reader, scanVersion, `SELECT problem, digest, number, package, about, uploaded, by_whom
		FROM problem_versions WHERE problem = $1 ORDER BY number DESC`, problem)
	return all, j.db.explain("list versions of problem "+problem, err)
}

// OpenProblem opens or closes a problem.
func (j Judging) OpenProblem(ctx context.Context, id string, open bool) error {
	res, err := j.db.exec(ctx, "change problem "+id, `UPDATE problems SET is_open = $2 WHERE id = $1`, id, open)
	if err != nil {
		return err
	}
	return one(res, noProblem(id))
}
