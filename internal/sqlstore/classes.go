package sqlstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"time"

	"assay/internal/classes"
	"assay/internal/course/class"
	"assay/internal/fault"
	"assay/internal/work"
)

// Classes is the store of courses with what a server has beside their marks.
type Classes struct{ courseStore }

// courseStore is Courses under a name that is none of its methods.
type courseStore = Courses

var _ classes.Store = Classes{}

// Classes gives the store of courses on a server.
func (db *DB) Classes() Classes { return Classes{db.Courses()} }

// Priorities of jobs beside those of the judge: a whole class waits for a check.
const (
	priorityAttempt = 10
	priorityCheck   = 20
	priorityRegrade = 0
)

// RemoveCourse takes away a course with all that is in it, and its jobs.
func (c Classes) RemoveCourse(ctx context.Context, id string) error {
	return c.db.writeLocked(ctx, "remove course "+id, lockOf(id), func(tx *sql.Tx) error {
		for _, of := range []string{`SELECT id FROM class_gradings WHERE course = $1`, `SELECT id FROM class_versions WHERE course = $1`} {
			if err := cancelJobs(ctx, tx, "its course was removed", of, id); err != nil {
				return err
			}
		}
		res, err := tx.ExecContext(ctx, `DELETE FROM courses WHERE id = $1`, id)
		if err == nil {
			err = one(res, noCourse(id))
		}
		return err
	})
}

// Archive closes a course or opens it again.
func (c Classes) Archive(ctx context.Context, course string, at time.Time) error {
	return c.db.writeLocked(ctx, "archive course "+course, lockOf(course), func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, `DELETE FROM class_archived WHERE course = $1`, course); err != nil || at.IsZero() {
			return err
		}
		res, err := tx.ExecContext(ctx, `INSERT INTO class_archived (course, at) SELECT id, CAST($2 AS BIGINT) FROM courses WHERE id = $1`, course, micros(at))
		if err == nil {
			err = one(res, noCourse(course))
		}
		return err
	})
}

// Archived are the courses that are closed.
func (c Classes) Archived(ctx context.Context) (map[string]time.Time, error) {
	type closed struct {
		course string
		at     int64
	}
	all, err := list(ctx, c.db.reader, func(row scanner) (x closed, err error) {
		return x, row.Scan(&x.course, &x.at)
	}, `SELECT course, at FROM class_archived`)
	out := map[string]time.Time{}
	for _, x := range all {
		out[x.course] = fromMicros(x.at)
	}
	return out, c.db.explain("list archived courses", err)
}

// isPerson finds an account on a roster. Whoever has an address is found by it
// first: a login may be another person's.
const isPerson = `removed = 0 AND (email <> '' AND lower(email) = lower($1) OR login <> '' AND lower(login) = lower($2))`

// OnRosters are the courses on whose roster an account is.
func (c Classes) OnRosters(ctx context.Context, login, email string) ([]string, error) {
	all, err := list(ctx, c.db.reader, func(row scanner) (id string, err error) {
		return id, row.Scan(&id)
	}, `SELECT DISTINCT course FROM course_people WHERE `+isPerson+` ORDER BY course`, email, login)
	return all, c.db.explain("list the courses of "+login, err)
}

// OnRoster is the person that an account is in a course.
func (c Classes) OnRoster(ctx context.Context, course, login, email string) (class.Person, error) {
	p, err := scanPerson(c.db.reader.QueryRowContext(ctx, `SELECT id, student_id, email, login, canvas_id, name, section, role, removed
		FROM course_people WHERE course = $3 AND `+isPerson+`
		ORDER BY CASE WHEN email <> '' AND lower(email) = lower($1) THEN 0 ELSE 1 END, id LIMIT 1`, email, login, course))
	if errors.Is(err, sql.ErrNoRows) {
		return class.Person{}, nil
	}
	return p, c.db.explain("find "+login+" in course "+course, err)
}

// AddVersion keeps a version and the job that checks it.
func (c Classes) AddVersion(ctx context.Context, v classes.Version) (kept classes.Version, err error) {
	about, err := json.Marshal(v.About)
	if err != nil {
		return kept, err
	}
	err = c.db.writeLocked(ctx, "keep assignment "+v.Assignment, lockOf(v.Course), func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO class_tasks (course, name, current, is_open, created) VALUES ($1, $2, 0, $3, $4)
			ON CONFLICT (course, name) DO NOTHING`, v.Course, v.Assignment, false, micros(v.Uploaded))
		if err != nil {
			return err
		}
		res, err := tx.ExecContext(ctx, `INSERT INTO class_versions (id, course, assignment, number, digest, package, state, checks, why, about,
			uploaded, by_whom, opened, despite)
			VALUES ($1, $2, $3, (SELECT COUNT(*) + 1 FROM class_versions WHERE course = $2 AND assignment = $3), $4, $5, $6, '[]', '', $7, $8, $9, 0, '')
			ON CONFLICT (course, assignment, package) DO NOTHING`,
			v.ID, v.Course, v.Assignment, v.Digest, v.Package, string(v.State), string(about), micros(v.Uploaded), v.By)
		if err != nil {
			return err
		}
		n, err := res.RowsAffected()
		if err != nil {
			return err
		}
		check := v.ID
		if n == 0 {
			// It may have been our failure that broke it.
			err = tx.QueryRowContext(ctx, `UPDATE class_versions SET state = $4, checks = '[]', why = ''
				WHERE course = $1 AND assignment = $2 AND package = $3 AND state = $5 RETURNING id`,
				v.Course, v.Assignment, v.Package, string(classes.Checking), string(classes.Broken)).Scan(&check)
		}
		switch {
		case errors.Is(err, sql.ErrNoRows): // known, and not broken
		case err != nil:
			return err
		default:
			err = enqueueJob(ctx, tx, work.Job{ID: v.ID, Kind: classes.CheckJob, Ref: check, Priority: priorityCheck, Available: v.Uploaded, Created: v.Uploaded})
			if err != nil {
				return err
			}
		}
		kept, err = scanVersionOf(tx.QueryRowContext(ctx, `SELECT `+versionColumns+` FROM class_versions v
			WHERE v.course = $1 AND v.assignment = $2 AND v.package = $3`, v.Course, v.Assignment, v.Package))
		return err
	})
	return kept, err
}

const versionColumns = `v.id, v.course, v.assignment, v.number, v.digest, v.package, v.state, v.checks, v.why, v.about, v.uploaded, v.by_whom, v.opened, v.despite`

// versionScan is where the columns of a version go.
type versionScan struct {
	v                    classes.Version
	state, checks, about string
	uploaded, opened     int64
}

func (s *versionScan) dest() []any {
	v := &s.v
	return []any{
		&v.ID, &v.Course, &v.Assignment, &v.Number, &v.Digest, &v.Package, &s.state, &s.checks, &v.Why, &s.about, &s.uploaded, &v.By, &s.opened, &v.Despite,
	}
}

func (s *versionScan) version() (classes.Version, error) {
	s.v.State, s.v.Uploaded, s.v.Opened = classes.CheckState(s.state), fromMicros(s.uploaded), fromMicros(s.opened)
	return s.v, errors.Join(json.Unmarshal([]byte(s.checks), &s.v.Checks), json.Unmarshal([]byte(s.about), &s.v.About))
}

func scanVersionOf(row scanner) (classes.Version, error) {
	var s versionScan
	if err := row.Scan(s.dest()...); err != nil {
		return classes.Version{}, err
	}
	return s.version()
}

// Version gives one version of an assignment.
func (c Classes) Version(ctx context.Context, course, assignment string, number int) (classes.Version, error) {
	v, err := scanVersionOf(c.db.reader.QueryRowContext(ctx, `SELECT `+versionColumns+` FROM class_versions v
		WHERE v.course = $1 AND v.assignment = $2 AND v.number = $3`, course, assignment, number))
	if errors.Is(err, sql.ErrNoRows) {
		err = fault.Errorf(fault.NotFound, "assignment %s of course %s has no version %d", assignment, course, number)
	}
	return v, c.db.explain("find version of assignment "+assignment, err)
}

// VersionByID gives one version.
func (c Classes) VersionByID(ctx context.Context, id string) (classes.Version, error) {
	v, err := scanVersionOf(c.db.reader.QueryRowContext(ctx, `SELECT `+versionColumns+` FROM class_versions v WHERE v.id = $1`, id))
	if errors.Is(err, sql.ErrNoRows) {
		err = fault.Errorf(fault.NotFound, "there is no assignment version %s", id)
	}
	return v, c.db.explain("find assignment version "+id, err)
}

// Versions gives all versions of an assignment.
func (c Classes) Versions(ctx context.Context, course, assignment string) ([]classes.Version, error) {
	all, err := list(ctx, c.db.reader, scanVersionOf, `SELECT `+versionColumns+` FROM class_versions v
		WHERE v.course = $1 AND v.assignment = $2 ORDER BY v.number DESC`, course, assignment)
	if err == nil && len(all) == 0 {
		err = noTask(course, assignment)
	}
	return all, c.db.explain("list versions of assignment "+assignment, err)
}

func noTask(course, name string) error {
	return fault.Errorf(fault.NotFound, "course %s has no assignment %s", course, name)
}

// Tasks are the assignments of a course.
func (c Classes) Tasks(ctx context.Context, course string) ([]classes.Task, error) {
	all, err := list(ctx, c.db.reader, func(row scanner) (t classes.Task, err error) {
		var created int64
		var v versionScan
		if err = row.Scan(append([]any{&t.Course, &t.Name, &t.Open, &created, &t.Newest}, v.dest()...)...); err != nil {
			return t, err
		}
		t.Created = fromMicros(created)
		newest, err := v.version()
		if newest.Number == t.Newest && newest.Opened.IsZero() {
			// Never opened: the newest stands in the row only to have one.
			newest = classes.Version{Course: t.Course, Assignment: t.Name}
		}
		t.Current = newest
		return t, err
	}, `SELECT t.course, t.name, t.is_open, t.created, (SELECT MAX(n.number) FROM class_versions n WHERE n.course = t.course AND n.assignment = t.name), `+versionColumns+`
		FROM class_tasks t JOIN class_versions v ON v.course = t.course AND v.assignment = t.name
		AND v.number = CASE WHEN t.current > 0 THEN t.current ELSE (SELECT MAX(n.number) FROM class_versions n WHERE n.course = t.course AND n.assignment = t.name) END
		WHERE t.course = $1 ORDER BY t.name`, course)
	return all, c.db.explain("list assignments of course "+course, err)
}

// FinishVersion keeps what came of a check and ends its job.
func (c Classes) FinishVersion(ctx context.Context, j work.Job, end work.End, v classes.Version) error {
	about, err := json.Marshal(v.About)
	if err != nil {
		return err
	}
	checks := []byte("[]")
	if v.Checks != nil {
		if checks, err = json.Marshal(v.Checks); err != nil {
			return err
		}
	}
	return c.db.write(ctx, "keep check of assignment "+v.Assignment, func(tx *sql.Tx) error {
		if err := finishJob(ctx, tx, j.ID, j.Token, end); err != nil {
			return err
		}
		res, err := tx.ExecContext(ctx, `UPDATE class_versions SET state = $2, checks = $3, why = $4, about = $5 WHERE id = $1 AND state = $6`,
			v.ID, string(v.State), string(checks), plain(v.Why), string(about), string(classes.Checking))
		if err != nil {
			return err
		}
		return one(res, fault.Errorf(fault.Conflict, "version %d of %s was checked already", v.Number, v.Assignment))
	})
}

// OpenVersion makes a version the one that attempts are graded by.
func (c Classes) OpenVersion(ctx context.Context, v classes.Version, put func(class.Records) error) error {
	return c.db.writeLocked(ctx, "open assignment "+v.Assignment, lockOf(v.Course), func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, `UPDATE class_versions SET opened = CASE WHEN opened = 0 THEN $2 ELSE opened END, despite = $3 WHERE id = $1`,
			v.ID, micros(v.Opened), v.Despite); err != nil {
			return err
		}
		res, err := tx.ExecContext(ctx, `UPDATE class_tasks SET current = $3, is_open = $4 WHERE course = $1 AND name = $2`, v.Course, v.Assignment, v.Number, true)
		if err == nil {
			err = one(res, noTask(v.Course, v.Assignment))
		}
		if err != nil {
			return err
		}
		return withCourse(ctx, tx, v.Course, put)
	})
}

// OpenTask lets people hand in, or no longer.
func (c Classes) OpenTask(ctx context.Context, course, assignment string, open bool) error {
	return c.db.writeLocked(ctx, "change assignment "+assignment, lockOf(course), func(tx *sql.Tx) error {
		var current int
		err := tx.QueryRowContext(ctx, `SELECT current FROM class_tasks WHERE course = $1 AND name = $2`, course, assignment).Scan(&current)
		switch {
		case errors.Is(err, sql.ErrNoRows):
			return noTask(course, assignment)
		case err != nil:
			return err
		case current == 0:
			return fault.Errorf(fault.Conflict, "no version of %s was opened yet", assignment).WithHint("open one of its versions")
		}
		_, err = tx.ExecContext(ctx, `UPDATE class_tasks SET is_open = $3 WHERE course = $1 AND name = $2`, course, assignment, open)
		return err
	})
}
