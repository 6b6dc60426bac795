package sqlstore

import (
	"context"
	"database/sql"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"

	"assay/internal/course/class"
	"assay/internal/fault"
	"assay/internal/judge"
)

// Courses is the store of courses.
type Courses struct{ db *DB }

var _ class.Store = Courses{}

// Courses gives the store of courses.
func (db *DB) Courses() Courses { return Courses{db} }

// Courses are all, by ID.
func (c Courses) Courses(ctx context.Context) ([]class.Course, error) {
	all, err := list(ctx, c.db.reader, scanCourse, `SELECT id, title, zone, secret, created FROM courses ORDER BY id`)
	return all, c.db.explain("list courses", err)
}

func scanCourse(row scanner) (c class.Course, err error) {
	var secret string
	var created int64
	if err = row.Scan(&c.ID, &c.Title, &c.Zone, &secret, &created); err != nil {
		return c, err
	}
	c.Created = fromMicros(created)
	c.Key, err = base64.StdEncoding.DecodeString(secret)
	return c, err
}

// CreateCourse refuses an ID that is taken.
func (c Courses) CreateCourse(ctx context.Context, n class.Course) error {
	res, err := c.db.exec(ctx, "make course "+n.ID,
		`INSERT INTO courses (id, title, zone, secret, created) VALUES ($1, $2, $3, $4, $5) ON CONFLICT (id) DO NOTHING`,
		n.ID, n.Title, n.Zone, base64.StdEncoding.EncodeToString(n.Key), micros(n.Created))
	if err == nil {
		err = one(res, fault.Errorf(fault.Conflict, "there is a course %q already", n.ID).WithHint("choose another name, or see \"assay course show %s\"", n.ID))
	}
	return err
}

// RemoveCourse takes away a course with all that is in it.
func (c Courses) RemoveCourse(ctx context.Context, id string) error {
	// Whoever is writing to the course must not add to what is being removed.
	return c.db.writeLocked(ctx, "remove course "+id, lockOf(id), func(tx *sql.Tx) error {
		res, err := tx.ExecContext(ctx, `DELETE FROM courses WHERE id = $1`, id)
		if err == nil {
			err = one(res, noCourse(id))
		}
		return err
	})
}

func lockOf(course string) string { return "course/" + course }

func noCourse(id string) error {
	return fault.Errorf(fault.NotFound, "there is no course %q", id).WithHint("see \"assay course list\"")
}

// one wants exactly one row to have been changed.
func one(res sql.Result, none error) error {
	n, err := res.RowsAffected()
	if err == nil && n == 0 {
		err = none
	}
	return err
}

// Read runs fn on one state of a course.
func (c Courses) Read(ctx context.Context, course string, fn func(class.Records) error) error {
	return c.db.read(ctx, "use course "+course, func(tx *sql.Tx) error { return withCourse(ctx, tx, course, fn) })
}

// Write runs fn while nobody else writes to the course.
func (c Courses) Write(ctx context.Context, course string, fn func(class.Records) error) error {
	return c.db.writeLocked(ctx, "use course "+course, lockOf(course), func(tx *sql.Tx) error { return withCourse(ctx, tx, course, fn) })
}

func withCourse(ctx context.Context, tx *sql.Tx, course string, fn func(class.Records) error) error {
	r := records{tx: tx}
	var err error
	r.course, err = scanCourse(tx.QueryRowContext(ctx, `SELECT id, title, zone, secret, created FROM courses WHERE id = $1`, course))
	if errors.Is(err, sql.ErrNoRows) {
		err = noCourse(course)
	}
	if err != nil {
		return err
	}
	return fn(r)
}

// records are the things of one course within a transaction.
type records struct {
	tx     *sql.Tx
	course class.Course
}

// scanner is a row or one of rows.
type scanner interface{ Scan(dest ...any) error }

type queryer interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// list reads all rows of a query.
func list[T any](ctx context.Context, q queryer, scan func(scanner) (T, error), query string, args ...any) (_ []T, err error) {
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, fmt.Errorf("query: %w", err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	var all []T
	for rows.Next() {
		v, err := scan(rows)
		if err != nil {
			return nil, fmt.Errorf("read row: %w", err)
		}
		all = append(all, v)
	}
	return all, rows.Err()
}

func (r records) exec(ctx context.Context, query string, args ...any) error {
	_, err := r.tx.ExecContext(ctx, query, append([]any{r.course.ID}, args...)...)
	return err
}

// State reads everything but grades.
func (r records) State(ctx context.Context, assignment string) (class.State, error) {
	s := class.State{Course: r.course}
	var err error
	read := func(fn func() error) {
		if err == nil {
			err = fn()
		}
	}
	id := r.course.ID
	read(func() (err error) {
		s.People, err = list(ctx, r.tx, scanPerson, `SELECT id, student_id, email, login, canvas_id, name, section, role, removed
			FROM course_people WHERE course = $1 ORDER BY id`, id)
		return err
	})
	read(func() (err error) {
		s.Assignments, err = list(ctx, r.tx, scanAssignment, `SELECT name, title, version, points, due, late, attempts, anonymous, published, created
			FROM course_assignments WHERE course = $1 ORDER BY created, name`, id)
		return err
	})
	read(func() (err error) {
		s.Members, err = list(ctx, r.tx, scanMember, `SELECT assignment, person, team
			FROM course_members WHERE course = $1 AND ($2 = '' OR assignment = $2) ORDER BY assignment, team, person`, id, assignment)
		return err
	})
	read(func() (err error) {
		s.Extensions, err = list(ctx, r.tx, scanExtension, `SELECT id, assignment, person, team, due, days, by_whom, at, reason, revoked
			FROM course_extensions WHERE course = $1 AND ($2 = '' OR assignment = $2) ORDER BY at, id`, id, assignment)
		return err
	})
	read(func() (err error) {
		s.Adjustments, err = list(ctx, r.tx, scanAdjustment, `SELECT id, assignment, person, replaces, points, by_whom, at, reason, revoked
			FROM course_adjustments WHERE course = $1 AND ($2 = '' OR assignment = $2) ORDER BY at, id`, id, assignment)
		return err
	})
	read(func() (err error) {
		s.Attempts, err = list(ctx, r.tx, scanAttempt, `SELECT a.id, a.assignment, a.person, a.team, a.digest, a.received,
			r.id, r.attempt, r.version, r.score, r.points, r.failed, r.suspicious, r.by_whom, r.at, r.reason
			FROM course_attempts a JOIN course_runs r ON r.course = a.course AND r.id = a.run
			WHERE a.course = $1 AND ($2 = '' OR a.assignment = $2) ORDER BY a.received, a.id`, id, assignment)
		return err
	})
	return s, err
}

func scanPerson(row scanner) (p class.Person, err error) {
	var removed int64
	err = row.Scan(&p.ID, &p.StudentID, &p.Email, &p.Login, &p.CanvasID, &p.Name, &p.Section, &p.Role, &removed)
	p.Removed = fromMicros(removed)
	return p, err
}

func (r records) PutPerson(ctx context.Context, p class.Person) error {
	return r.exec(ctx, `INSERT INTO course_people (course, id, student_id, email, login, canvas_id, name, section, role, removed)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
		ON CONFLICT (course, id) DO UPDATE SET student_id = excluded.student_id, email = excluded.email, login = excluded.login,
		canvas_id = excluded.canvas_id, name = excluded.name, section = excluded.section, role = excluded.role, removed = excluded.removed`,
		p.ID, p.StudentID, p.Email, p.Login, p.CanvasID, p.Name, p.Section, string(p.Role), micros(p.Removed))
}

func scanAssignment(row scanner) (a class.Assignment, err error) {
	var points, due, late, attempts string
	var published, created int64
	if err = row.Scan(&a.Name, &a.Title, &a.Version, &points, &due, &late, &attempts, &a.Anonymous, &published, &created); err != nil {
		return a, err
	}
	a.Published, a.Created = fromMicros(published), fromMicros(created)
	if a.Points, err = judge.ParseScore(points); err != nil {
		return a, err
	}
	return a, errors.Join(a.Due.UnmarshalText([]byte(due)), json.Unmarshal([]byte(late), &a.Late), json.Unmarshal([]byte(attempts), &a.Attempts))
}

func (r records) PutAssignment(ctx context.Context, a class.Assignment) error {
	late, err := json.Marshal(a.Late)
	if err != nil {
		return err
	}
	attempts, err := json.Marshal(a.Attempts)
	if err != nil {
		return err
	}
	return r.exec(ctx, `INSERT INTO course_assignments (course, name, title, version, points, due, late, attempts, anonymous, published, created)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
		ON CONFLICT (course, name) DO UPDATE SET title = excluded.title, version = excluded.version, points = excluded.points, due = excluded.due,
		late = excluded.late, attempts = excluded.attempts, anonymous = excluded.anonymous, published = excluded.published, created = excluded.created`,
		a.Name, a.Title, a.Version, a.Points.String(), a.Due.String(), string(late), string(attempts), a.Anonymous, micros(a.Published), micros(a.Created))
}

func scanMember(row scanner) (m class.Member, err error) {
	return m, row.Scan(&m.Assignment, &m.Person, &m.Group)
}

func (r records) PutMember(ctx context.Context, m class.Member) error {
	if m.Group == "" {
		return r.exec(ctx, `DELETE FROM course_members WHERE course = $1 AND assignment = $2 AND person = $3`, m.Assignment, m.Person)
	}
	return r.exec(ctx, `INSERT INTO course_members (course, assignment, person, team) VALUES ($1, $2, $3, $4)
		ON CONFLICT (course, assignment, person) DO UPDATE SET team = excluded.team`, m.Assignment, m.Person, m.Group)
}

// scanNote makes the part of extensions and adjustments that is the same.
func scanNote(at int64, revoked string, n *class.Note) (*class.Note, error) {
	n.At = fromMicros(at)
	if revoked == "" {
		return nil, nil
	}
	var r class.Note
	return &r, json.Unmarshal([]byte(revoked), &r)
}

func revokedText(n *class.Note) (string, error) {
	if n == nil {
		return "", nil
	}
	text, err := json.Marshal(n)
	return string(text), err
}

func scanExtension(row scanner) (e class.Extension, err error) {
	var due, revoked string
	var at int64
	if err = row.Scan(&e.ID, &e.Assignment, &e.Person, &e.Group, &due, &e.Days, &e.By, &at, &e.Reason, &revoked); err != nil {
		return e, err
	}
	if err = e.Due.UnmarshalText([]byte(due)); err != nil {
		return e, err
	}
	e.Revoked, err = scanNote(at, revoked, &e.Note)
	return e, err
}

func (r records) PutExtension(ctx context.Context, e class.Extension) error {
	revoked, err := revokedText(e.Revoked)
	if err != nil {
		return err
	}
	return r.exec(ctx, `INSERT INTO course_extensions (course, id, assignment, person, team, due, days, by_whom, at, reason, revoked)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) ON CONFLICT (course, id) DO UPDATE SET revoked = excluded.revoked`,
		e.ID, e.Assignment, e.Person, e.Group, e.Due.String(), e.Days, e.By, micros(e.At), e.Reason, revoked)
}

func scanAdjustment(row scanner) (a class.Adjustment, err error) {
	var points, revoked string
	var at int64
	if err = row.Scan(&a.ID, &a.Assignment, &a.Person, &a.Set, &points, &a.By, &at, &a.Reason, &revoked); err != nil {
		return a, err
	}
	if a.Points, err = judge.ParseScore(points); err != nil {
		return a, err
	}
	a.Revoked, err = scanNote(at, revoked, &a.Note)
	return a, err
}

func (r records) PutAdjustment(ctx context.Context, a class.Adjustment) error {
	revoked, err := revokedText(a.Revoked)
	if err != nil {
		return err
	}
	return r.exec(ctx, `INSERT INTO course_adjustments (course, id, assignment, person, replaces, points, by_whom, at, reason, revoked)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) ON CONFLICT (course, id) DO UPDATE SET revoked = excluded.revoked`,
		a.ID, a.Assignment, a.Person, a.Set, a.Points.String(), a.By, micros(a.At), a.Reason, revoked)
}

func scanAttempt(row scanner) (a class.Attempt, err error) {
	var received int64
	run := runRow{}
	if err = row.Scan(append([]any{&a.ID, &a.Assignment, &a.Person, &a.Group, &a.Digest, &received}, run.columns()...)...); err != nil {
		return a, err
	}
	a.Received = fromMicros(received)
	a.Run, err = run.run()
	return a, err
}

func (r records) PutAttempt(ctx context.Context, a class.Attempt) error {
	return r.exec(ctx, `INSERT INTO course_attempts (course, id, assignment, person, team, digest, received, run)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (course, id) DO UPDATE SET run = excluded.run`,
		a.ID, a.Assignment, a.Person, a.Group, a.Digest, micros(a.Received), a.Run.ID)
}

// runRow is a run as it is kept.
type runRow struct {
	r             class.Run
	score, points string
	at            int64
}

func (r *runRow) columns() []any {
	return []any{&r.r.ID, &r.r.Attempt, &r.r.Version, &r.score, &r.points, &r.r.Failed, &r.r.Suspicious, &r.r.By, &r.at, &r.r.Reason}
}

func (r *runRow) run() (_ class.Run, err error) {
	r.r.At = fromMicros(r.at)
	if r.r.Score, err = judge.ParseScore(r.score); err != nil {
		return r.r, err
	}
	r.r.Points, err = judge.ParseScore(r.points)
	return r.r, err
}

func (r records) PutRun(ctx context.Context, run class.Run, grade []byte) error {
	return r.exec(ctx, `INSERT INTO course_runs (course, id, attempt, version, score, points, failed, suspicious, by_whom, at, reason, grade)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)`,
		run.ID, run.Attempt, run.Version, run.Score.String(), run.Points.String(), run.Failed, run.Suspicious, run.By, micros(run.At), run.Reason, string(grade))
}

func (r records) Runs(ctx context.Context, assignment string) ([]class.Run, error) {
	return list(ctx, r.tx, func(row scanner) (class.Run, error) {
		run := runRow{}
		if err := row.Scan(run.columns()...); err != nil {
			return run.r, err
		}
		return run.run()
	}, `SELECT r.id, r.attempt, r.version, r.score, r.points, r.failed, r.suspicious, r.by_whom, r.at, r.reason
		FROM course_runs r JOIN course_attempts a ON a.course = r.course AND a.id = r.attempt
		WHERE r.course = $1 AND a.assignment = $2 ORDER BY r.at, r.id`, r.course.ID, assignment)
}

func (r records) Grade(ctx context.Context, run string) ([]byte, error) {
	var grade string
	err := r.tx.QueryRowContext(ctx, `SELECT grade FROM course_runs WHERE course = $1 AND id = $2`, r.course.ID, run).Scan(&grade)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, fault.Errorf(fault.NotFound, "course %s has no run %q", r.course.ID, run)
	}
	return []byte(grade), err
}
