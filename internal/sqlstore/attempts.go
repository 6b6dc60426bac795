package sqlstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"strconv"
	"time"

	"assay/internal/classes"
	"assay/internal/course/class"
	"assay/internal/fault"
	"assay/internal/work"
)

// AddAttempt keeps an attempt, its grading and its job.
func (c Classes) AddAttempt(ctx context.Context, key classes.AttemptKey, admit func(class.State, []class.Attempt) (classes.Attempt, error)) (kept classes.Attempt, err error) {
	// The lock is the course's: rules of attempts hold for two that come at once,
	// and nobody changes groups or due times meanwhile.
	err = c.db.writeLocked(ctx, "keep attempt at "+key.Assignment, lockOf(key.Course), func(tx *sql.Tx) error {
		if key.Idempotency != "" {
			kept, err = attemptByKey(ctx, tx, key.User, key.Idempotency)
			if !errors.Is(err, sql.ErrNoRows) {
				return err
			}
		}
		waiting, err := list(ctx, tx, scanAttemptOf, `SELECT `+attemptColumns+`
			WHERE a.course = $1 AND a.assignment = $2 AND g.state IN ($3, $4) ORDER BY a.received, a.id`,
			key.Course, key.Assignment, string(classes.Queued), string(classes.Running))
		if err != nil {
			return err
		}
		pending := make([]class.Attempt, len(waiting))
		for i, a := range waiting {
			pending[i] = class.Attempt{ID: a.ID, Assignment: a.Assignment, Person: a.Person, Group: a.Group, Digest: a.Digest, Received: a.Received}
		}
		return withCourse(ctx, tx, key.Course, func(rec class.Records) error {
			state, err := rec.State(ctx, key.Assignment)
			if err != nil {
				return err
			}
			if kept, err = admit(state, pending); err != nil {
				return err
			}
			return c.addAttempt(ctx, tx, kept)
		})
	})
	return kept, err
}

func (c Classes) addAttempt(ctx context.Context, tx *sql.Tx, a classes.Attempt) error {
	notes, err := json.Marshal(a.Notes)
	if err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, `INSERT INTO class_attempts (id, course, assignment, person, team, user_id, login, version, version_digest, digest,
		files, notes, received, grading, idem, idem_body) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)`,
		a.ID, a.Course, a.Assignment, a.Person, a.Group, a.User, a.Login, a.Version, a.VersionDigest, a.Digest,
		a.Files, string(notes), micros(a.Received), a.Grading.ID, a.Idempotency, a.IdempotencyBody); err != nil {
		return err
	}
	if err := addGrading(ctx, tx, a.Grading); err != nil {
		return err
	}
	return enqueueJob(ctx, tx, gradeJob(a.Grading, priorityAttempt))
}

func gradeJob(g classes.Grading, priority int) work.Job {
	return work.Job{ID: g.ID, Kind: classes.GradeJob, Ref: g.ID, Priority: priority, Available: g.Created, Created: g.Created}
}

func addGrading(ctx context.Context, tx *sql.Tx, g classes.Grading) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO class_gradings (id, attempt, course, assignment, regrade, version, state, node, tries, cpu_us, memory_time,
		created, ended, failed, reason, grade) VALUES ($1, $2, $3, $4, $5, $6, $7, '', 0, 0, 0, $8, 0, $9, '', '')`,
		g.ID, g.Attempt, g.Course, g.Assignment, g.Regrade, g.Version, string(g.State), micros(g.Created), false)
	return err
}

const (
	gradingColumns = `g.id, g.attempt, g.course, g.assignment, g.regrade, g.version, g.state, g.node, g.tries, g.cpu_us, g.memory_time,
		g.created, g.ended, g.failed, g.reason`
	attemptColumns = `a.id, a.course, a.assignment, a.person, a.team, a.user_id, a.login, a.version, a.version_digest, a.digest, a.files, a.notes,
		a.received, a.idem, a.idem_body, ` + gradingColumns + ` FROM class_attempts a JOIN class_gradings g ON g.id = a.grading`
)

// gradingScan is where the columns of a grading go.
type gradingScan struct {
	g                   classes.Grading
	state               string
	cpu, created, ended int64
}

func (s *gradingScan) dest() []any {
	g := &s.g
	return []any{
		&g.ID, &g.Attempt, &g.Course, &g.Assignment, &g.Regrade, &g.Version, &s.state, &g.Node, &g.Tries, &s.cpu, &g.MemoryTime,
		&s.created, &s.ended, &g.Failed, &g.Reason,
	}
}

func (s *gradingScan) grading() classes.Grading {
	s.g.State, s.g.CPU = classes.State(s.state), time.Duration(s.cpu)*time.Microsecond
	s.g.Created, s.g.Ended = fromMicros(s.created), fromMicros(s.ended)
	return s.g
}

func scanAttemptOf(row scanner) (a classes.Attempt, err error) {
	var g gradingScan
	var notes string
	var received int64
	if err = row.Scan(append([]any{
		&a.ID, &a.Course, &a.Assignment, &a.Person, &a.Group, &a.User, &a.Login, &a.Version, &a.VersionDigest, &a.Digest, &a.Files, &notes,
		&received, &a.Idempotency, &a.IdempotencyBody,
	}, g.dest()...)...); err != nil {
		return a, err
	}
	a.Received, a.Grading = fromMicros(received), g.grading()
	return a, json.Unmarshal([]byte(notes), &a.Notes)
}

// Attempt gives one attempt.
func (c Classes) Attempt(ctx context.Context, id string) (classes.Attempt, error) {
	a, err := scanAttemptOf(c.db.reader.QueryRowContext(ctx, `SELECT `+attemptColumns+` WHERE a.id = $1`, id))
	if errors.Is(err, sql.ErrNoRows) {
		err = fault.Errorf(fault.NotFound, "there is no attempt %s", id)
	}
	return a, c.db.explain("find attempt "+id, err)
}

// AttemptByKey gives the one that a user made with an idempotency key.
func (c Classes) AttemptByKey(ctx context.Context, user, key string) (classes.Attempt, error) {
	a, err := attemptByKey(ctx, c.db.reader, user, key)
	if errors.Is(err, sql.ErrNoRows) {
		err = fault.Errorf(fault.NotFound, "there is no attempt with this key")
	}
	return a, c.db.explain("find an attempt by its key", err)
}

// attemptByKey names the condition of the index, which is not used else.
func attemptByKey(ctx context.Context, q rowQueryer, user, key string) (classes.Attempt, error) {
	return scanAttemptOf(q.QueryRowContext(ctx, `SELECT `+attemptColumns+` WHERE a.user_id = $1 AND a.idem = $2 AND a.idem <> ''`, user, key))
}

// Attempts gives a page of attempts.
func (c Classes) Attempts(ctx context.Context, q classes.AttemptQuery) ([]classes.Attempt, error) {
	before, id, err := classes.ParsePage(q.After)
	if err != nil {
		return nil, err
	}
	var where conditions
	where.add("(a.received, a.id) < ($$, $$)", before.UnixMicro(), id)
	where.is("a.course", q.Course)
	where.is("a.assignment", q.Assignment)
	where.is("a.user_id", q.User)
	if q.Person != "" {
		whose, args := `a.person = $$`, []any{q.Person}
		for assignment, group := range q.Groups {
			whose += ` OR a.team <> '' AND a.assignment = $$ AND a.team = $$`
			args = append(args, assignment, group)
		}
		where.add("("+whose+")", args...)
	}
	query := `SELECT ` + attemptColumns + where.end("a.received DESC, a.id DESC", q.Limit)
	all, err := list(ctx, c.db.reader, scanAttemptOf, query, where.args...)
	return all, c.db.explain("list attempts of course "+q.Course, err)
}

// Recorded is the run of an attempt that counts, with its grade.
func (c Classes) Recorded(ctx context.Context, course, attempt string) (class.Run, []byte, error) {
	var r runRow
	var grade string
	err := c.db.reader.QueryRowContext(ctx, `SELECT r.id, r.attempt, r.version, r.score, r.points, r.failed, r.suspicious, r.by_whom, r.at, r.reason, r.grade
		FROM course_attempts a JOIN course_runs r ON r.course = a.course AND r.id = a.run WHERE a.course = $1 AND a.id = $2`, course, attempt).
		Scan(append(r.columns(), &grade)...)
	if errors.Is(err, sql.ErrNoRows) {
		err = fault.Errorf(fault.NotFound, "attempt %s has no grade yet", attempt)
	}
	if err != nil {
		return class.Run{}, nil, c.db.explain("find the grade of attempt "+attempt, err)
	}
	run, err := r.run()
	return run, []byte(grade), err
}

// Grading gives one grading.
func (c Classes) Grading(ctx context.Context, id string) (classes.Grading, error) {
	var s gradingScan
	err := c.db.reader.QueryRowContext(ctx, `SELECT `+gradingColumns+` FROM class_gradings g WHERE g.id = $1`, id).Scan(s.dest()...)
	if errors.Is(err, sql.ErrNoRows) {
		err = fault.Errorf(fault.NotFound, "there is no grading %s", id)
	}
	return s.grading(), c.db.explain("find grading "+id, err)
}

// BeginGrading says that a node has begun a grading.
func (c Classes) BeginGrading(ctx context.Context, id, node string, tries int) error {
	_, err := c.db.exec(ctx, "begin grading "+id, `UPDATE class_gradings SET state = $2, node = $3, tries = $4 WHERE id = $1 AND state IN ($5, $2)`,
		id, string(classes.Running), node, tries, string(classes.Queued))
	return err
}

// FinishGrading keeps what came of a grading and ends its job.
func (c Classes) FinishGrading(ctx context.Context, j work.Job, end work.End, g classes.Grading, record func(class.Records) error) error {
	return c.db.writeLocked(ctx, "keep grading "+g.ID, lockOf(g.Course), func(tx *sql.Tx) error {
		if err := finishJob(ctx, tx, j.ID, j.Token, end); err != nil {
			return err
		}
		res, err := tx.ExecContext(ctx, `UPDATE class_gradings SET state = $2, node = $3, tries = $4, cpu_us = $5, memory_time = $6, ended = $7,
			failed = $8, reason = $9, grade = $10 WHERE id = $1 AND state IN ($11, $12)`,
			g.ID, string(g.State), g.Node, g.Tries, g.CPU.Microseconds(), g.MemoryTime, micros(g.Ended), g.Failed, plain(g.Reason), string(g.Grade),
			string(classes.Queued), string(classes.Running))
		if err == nil {
			err = one(res, fault.Errorf(fault.Conflict, "grading %s has ended already", g.ID))
		}
		if err != nil || record == nil {
			return err
		}
		return withCourse(ctx, tx, g.Course, record)
	})
}

// cancelJobs ends the jobs that a query names, whoever holds them: who does finds
// out when the lease is renewed or the result is kept.
func cancelJobs(ctx context.Context, tx *sql.Tx, reason, which string, args ...any) error {
	n := len(args)
	_, err := tx.ExecContext(ctx, `UPDATE work_jobs SET state = 'failed', reason = $`+strconv.Itoa(n+1)+`, ended = $`+strconv.Itoa(n+2)+`, token = '', lease_until = 0
		WHERE state IN ('queued', 'running') AND id IN (`+which+`)`, append(args, reason, micros(time.Now()))...)
	return err
}

// EndJob ends a job whose thing is gone or has ended.
func (c Classes) EndJob(ctx context.Context, j work.Job, end work.End) error {
	return c.db.write(ctx, "end job "+j.ID, func(tx *sql.Tx) error { return finishJob(ctx, tx, j.ID, j.Token, end) })
}
