package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"assay/internal/classes"
	"assay/internal/course/class"
	"assay/internal/fault"
)

// AddRegrade keeps a set with its gradings and their jobs.
func (c Classes) AddRegrade(ctx context.Context, r classes.Regrade, gradings []classes.Grading) error {
	return c.db.write(ctx, "keep regrade", func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, `INSERT INTO class_regrades (id, course, assignment, version, reason, state, by_whom, created, ended)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, 0)`, r.ID, r.Course, r.Assignment, r.Version, r.Reason, string(r.State), r.By, micros(r.Created)); err != nil {
			return err
		}
		for _, g := range gradings {
			if err := addGrading(ctx, tx, g); err != nil {
				return err
			}
			if err := enqueueJob(ctx, tx, gradeJob(g, priorityRegrade)); err != nil {
				return err
			}
		}
		return nil
	})
}

const (
	regradeColumns = `x.id, x.course, x.assignment, x.version, x.reason, x.state, x.by_whom, x.created, x.ended, COUNT(g.id),
		COALESCE(SUM(CASE WHEN g.state = 'done' THEN 1 ELSE 0 END), 0),
		COALESCE(SUM(CASE WHEN g.state = 'done' AND g.failed THEN 1 ELSE 0 END), 0)
		FROM class_regrades x LEFT JOIN class_gradings g ON g.regrade = x.id`
	regradeGroup = ` GROUP BY x.id, x.course, x.assignment, x.version, x.reason, x.state, x.by_whom, x.created, x.ended`
)

// A set that runs is ready when none of its gradings is left.
func scanRegrade(row scanner) (r classes.Regrade, err error) {
	var state string
	var created, ended int64
	if err = row.Scan(&r.ID, &r.Course, &r.Assignment, &r.Version, &r.Reason, &state, &r.By, &created, &ended, &r.Total, &r.Done, &r.Failed); err != nil {
		return r, err
	}
	r.State, r.Created, r.Ended = classes.RegradeState(state), fromMicros(created), fromMicros(ended)
	if r.State == classes.RegradeRunning && r.Done == r.Total {
		r.State = classes.RegradeReady
	}
	return r, nil
}

func regrade(ctx context.Context, row *sql.Row, id string) (classes.Regrade, error) {
	r, err := scanRegrade(row)
	if errors.Is(err, sql.ErrNoRows) {
		err = fault.Errorf(fault.NotFound, "there is no regrade %s", id)
	}
	return r, err
}

// Regrade gives one set.
func (c Classes) Regrade(ctx context.Context, id string) (classes.Regrade, error) {
	r, err := regrade(ctx, c.db.reader.QueryRowContext(ctx, `SELECT `+regradeColumns+` WHERE x.id = $1`+regradeGroup, id), id)
	return r, c.db.explain("find regrade "+id, err)
}

// Regrades gives a page of the sets of a course.
func (c Classes) Regrades(ctx context.Context, course, after string, limit int) ([]classes.Regrade, error) {
	before, id, err := classes.ParsePage(after)
	if err != nil {
		return nil, err
	}
	all, err := list(ctx, c.db.reader, scanRegrade, `SELECT `+regradeColumns+`
		WHERE x.course = $4 AND (x.created < $1 OR x.created = $1 AND x.id < $2)`+regradeGroup+`
		ORDER BY x.created DESC, x.id DESC LIMIT $3`, before.UnixMicro(), id, limit, course)
	return all, c.db.explain("list regrades of course "+course, err)
}

// RegradeGradings gives the gradings of a set that have ended, with their grades.
func (c Classes) RegradeGradings(ctx context.Context, id string) ([]classes.Grading, error) {
	all, err := gradingsOf(ctx, c.db.reader, id)
	return all, c.db.explain("list the gradings of regrade "+id, err)
}

func gradingsOf(ctx context.Context, q queryer, regrade string) ([]classes.Grading, error) {
	return list(ctx, q, func(row scanner) (classes.Grading, error) {
		var s gradingScan
		var grade string
		if err := row.Scan(append(s.dest(), &grade)...); err != nil {
			return s.g, err
		}
		s.g.Grade = []byte(grade)
		return s.grading(), nil
	}, `SELECT `+gradingColumns+`, g.grade FROM class_gradings g JOIN class_attempts a ON a.id = g.attempt
		WHERE g.regrade = $1 AND g.state = $2 ORDER BY a.received, a.id`, regrade, string(classes.Done))
}

// EndRegrade applies or cancels a set.
func (c Classes) EndRegrade(ctx context.Context, id string, state classes.RegradeState, apply func(class.Records, []classes.Grading) error) error {
	set, err := c.Regrade(ctx, id)
	if err != nil {
		return err
	}
	return c.db.writeLocked(ctx, "end regrade "+id, lockOf(set.Course), func(tx *sql.Tx) error {
		r, err := regrade(ctx, tx.QueryRowContext(ctx, `SELECT `+regradeColumns+` WHERE x.id = $1`+regradeGroup, id), id)
		if err != nil {
			return err
		}
		switch {
		case r.State == classes.RegradeApplied || r.State == classes.RegradeCancelled:
			return fault.Errorf(fault.Conflict, "regrade %s is %s already", id, r.State)
		case state == classes.RegradeApplied && r.State != classes.RegradeReady:
			return fault.Errorf(fault.Conflict, "regrade %s: %d of %d gradings have ended", id, r.Done, r.Total).WithHint("wait for all, or cancel it")
		}
		if _, err := tx.ExecContext(ctx, `UPDATE class_regrades SET state = $2, ended = $3 WHERE id = $1`, id, string(state), micros(time.Now())); err != nil {
			return err
		}
		if state == classes.RegradeCancelled {
			return cancelGradings(ctx, tx, id)
		}
		// What comes later is graded by the same version.
		if _, err := tx.ExecContext(ctx, `UPDATE class_tasks SET current = $3 WHERE course = $1 AND name = $2`, r.Course, r.Assignment, r.Version); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, `UPDATE class_versions SET opened = $4 WHERE course = $1 AND assignment = $2 AND number = $3 AND opened = 0`,
			r.Course, r.Assignment, r.Version, micros(time.Now())); err != nil {
			return err
		}
		done, err := gradingsOf(ctx, tx, id)
		if err != nil {
			return err
		}
		return withCourse(ctx, tx, r.Course, func(rec class.Records) error { return apply(rec, done) })
	})
}

// cancelGradings ends what has not; whoever works on it finds that out when it is
// done.
func cancelGradings(ctx context.Context, tx *sql.Tx, id string) error {
	if err := cancelJobs(ctx, tx, "its regrade was cancelled", `SELECT id FROM class_gradings WHERE regrade = $1`, id); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, `UPDATE class_gradings SET state = $2, ended = $3 WHERE regrade = $1 AND state IN ($4, $5)`,
		id, string(classes.Cancelled), micros(time.Now()), string(classes.Queued), string(classes.Running))
	return err
}
