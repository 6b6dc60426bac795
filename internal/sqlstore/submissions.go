package sqlstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"assay/internal/fault"
	"assay/internal/judge"
	"assay/internal/judging"
	"assay/internal/work"
)

// Priorities of jobs: what people wait for goes first.
const (
	prioritySubmission = 10
	priorityRejudge    = 0
)

// AddSubmission keeps a submission, its run and its job.
func (j Judging) AddSubmission(ctx context.Context, s judging.Submission) (kept judging.Submission, err error) {
	labels, err := json.Marshal(s.Labels)
	if err != nil {
		return kept, err
	}
	err = j.db.write(ctx, "keep submission", func(tx *sql.Tx) error {
		kept = s
		res, err := tx.ExecContext(ctx, `INSERT INTO submissions (id, problem, version, user_id, login, language, entry, digest, files, labels,
			received, run, idem, idem_body) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14) ON CONFLICT DO NOTHING`,
			s.ID, s.Problem, s.Version, s.User, s.Login, s.Language, s.Entry, s.Digest, s.Files, string(labels),
			micros(s.Received), s.Run.ID, s.Idempotency, s.IdempotencyBody)
		if err != nil {
			return err
		}
		if n, err := res.RowsAffected(); err != nil || n == 0 {
			if err != nil {
				return err
			}
			kept, err = submissionByKey(ctx, tx, s.User, s.Idempotency)
			return err
		}
		if err := addRun(ctx, tx, s.Run); err != nil {
			return err
		}
		return enqueueJob(ctx, tx, jobOf(s.Run, prioritySubmission))
	})
	return kept, err
}

func jobOf(r judging.Run, priority int) work.Job {
	return work.Job{ID: r.ID, Kind: judging.JobKind, Ref: r.ID, Priority: priority, Created: r.Created}
}

func addRun(ctx context.Context, tx *sql.Tx, r judging.Run) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO judge_runs (id, submission, version, state, verdict, reason, failed_case, score, time_us, memory,
		node, tries, rejudge, replaced, created, ended, record, result)
		VALUES ($1, $2, $3, $4, '', '', 0, '', 0, 0, '', 0, $5, '', $6, 0, '', '')`,
		r.ID, r.Submission, r.Version, string(r.State), r.Rejudge, micros(r.Created))
	return err
}

const (
	runColumns = `r.id, r.submission, r.version, r.state, r.verdict, r.reason, r.failed_case, r.score, r.time_us, r.memory,
		r.node, r.tries, r.rejudge, r.created, r.ended, r.record`
	submissionColumns = `s.id, s.problem, s.version, s.user_id, s.login, s.language, s.entry, s.digest, s.files, s.labels, s.received, s.idem, s.idem_body, ` +
		runColumns + ` FROM submissions s JOIN judge_runs r ON r.id = s.run`
)

// runScan is where the columns of a run go, and how they become one.
type runScan struct {
	r              judging.Run
	state, verdict string
	score          string
	created, ended int64
}

func (s *runScan) dest() []any {
	return []any{
		&s.r.ID, &s.r.Submission, &s.r.Version, &s.state, &s.verdict, &s.r.Reason, &s.r.FailedCase, &s.score, &s.r.TimeUS, &s.r.Memory,
		&s.r.Node, &s.r.Tries, &s.r.Rejudge, &s.created, &s.ended, &s.r.Record,
	}
}

func (s *runScan) run() (judging.Run, error) {
	s.r.State, s.r.Verdict = judging.State(s.state), judge.Verdict(s.verdict)
	s.r.Created, s.r.Ended = fromMicros(s.created), fromMicros(s.ended)
	if s.score != "" {
		score, err := judge.ParseScore(s.score)
		if err != nil {
			return s.r, err
		}
		s.r.Score = &score
	}
	return s.r, nil
}

func scanRun(row scanner) (judging.Run, error) {
	var s runScan
	if err := row.Scan(s.dest()...); err != nil {
		return judging.Run{}, err
	}
	return s.run()
}

func scanSubmission(row scanner) (sub judging.Submission, err error) {
	var run runScan
	var labels string
	var received int64
	if err = row.Scan(append([]any{
		&sub.ID, &sub.Problem, &sub.Version, &sub.User, &sub.Login, &sub.Language, &sub.Entry, &sub.Digest, &sub.Files, &labels, &received,
		&sub.Idempotency, &sub.IdempotencyBody,
	}, run.dest()...)...); err != nil {
		return sub, err
	}
	sub.Received = fromMicros(received)
	if sub.Run, err = run.run(); err != nil {
		return sub, err
	}
	return sub, json.Unmarshal([]byte(labels), &sub.Labels)
}

// Submission gives one submission with all of its run.
func (j Judging) Submission(ctx context.Context, id string) (sub judging.Submission, err error) {
	sub, err = scanSubmission(j.db.reader.QueryRowContext(ctx, `SELECT `+submissionColumns+` WHERE s.id = $1`, id))
	if errors.Is(err, sql.ErrNoRows) {
		return sub, fault.Errorf(fault.NotFound, "there is no submission %s", id)
	}
	// What a run that has ended came to never changes, so these may be two looks.
	if err == nil && !sub.Run.Ended.IsZero() {
		sub.Run.Result, err = result(ctx, j.db.reader, sub.Run.ID)
	}
	return sub, j.db.explain("find submission "+id, err)
}

// result is all of a run that has ended, or nil.
func result(ctx context.Context, q rowQueryer, run string) (*judge.Run, error) {
	var text string
	if err := q.QueryRowContext(ctx, `SELECT result FROM judge_runs WHERE id = $1`, run).Scan(&text); err != nil || text == "" {
		return nil, err
	}
	var r judge.Run
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		return nil, fmt.Errorf("read run %s: %w", run, err)
	}
	return &r, nil
}

// SubmissionByKey gives the one that a user made with an idempotency key.
func (j Judging) SubmissionByKey(ctx context.Context, user, key string) (judging.Submission, error) {
	sub, err := submissionByKey(ctx, j.db.reader, user, key)
	if errors.Is(err, sql.ErrNoRows) {
		err = fault.Errorf(fault.NotFound, "there is no submission with this key")
	}
	return sub, j.db.explain("find a submission by its key", err)
}

// submissionByKey names the condition of the index, which is not used else.
func submissionByKey(ctx context.Context, q rowQueryer, user, key string) (judging.Submission, error) {
	return scanSubmission(q.QueryRowContext(ctx, `SELECT `+submissionColumns+` WHERE s.user_id = $1 AND s.idem = $2 AND s.idem <> ''`, user, key))
}

// Submissions gives a page of submissions.
func (j Judging) Submissions(ctx context.Context, q judging.SubmissionQuery) ([]judging.Submission, error) {
	before, id, err := judging.ParsePage(q.After)
	if err != nil {
		return nil, err
	}
	var c conditions
	c.add("(s.received, s.id) < ($$, $$)", before.UnixMicro(), id)
	c.is("s.problem", q.Problem)
	c.is("s.user_id", q.User)
	c.is("r.verdict", string(q.Verdict))
	query := `SELECT ` + submissionColumns + c.end("s.received DESC, s.id DESC", q.Limit)
	all, err := list(ctx, j.db.reader, scanSubmission, query, c.args...)
	return all, j.db.explain("list submissions", err)
}

// Run gives one run.
func (j Judging) Run(ctx context.Context, id string) (judging.Run, error) {
	r, err := scanRun(j.db.reader.QueryRowContext(ctx, `SELECT `+runColumns+` FROM judge_runs r WHERE r.id = $1`, id))
	if errors.Is(err, sql.ErrNoRows) {
		err = fault.Errorf(fault.NotFound, "there is no run %s", id)
	}
	return r, j.db.explain("find run "+id, err)
}

// Runs gives all runs of a submission.
func (j Judging) Runs(ctx context.Context, submission string) ([]judging.Run, error) {
	all, err := list(ctx, j.db.reader, scanRun, `SELECT `+runColumns+` FROM judge_runs r WHERE r.submission = $1 ORDER BY r.created, r.id`, submission)
	return all, j.db.explain("list runs of submission "+submission, err)
}

// BeginRun says that a node has begun a run.
func (j Judging) BeginRun(ctx context.Context, run, node string, tries int) error {
	_, err := j.db.exec(ctx, "begin run "+run, `UPDATE judge_runs SET state = $2, node = $3, tries = $4 WHERE id = $1 AND state IN ($5, $2)`,
		run, string(judging.Running), node, tries, string(judging.Queued))
	return err
}

// FinishRun keeps what came of a run and ends its job.
func (j Judging) FinishRun(ctx context.Context, job work.Job, end work.End, r judging.Run) error {
	score, text := "", ""
	if r.Score != nil {
		score = r.Score.String()
	}
	if r.Result != nil {
		b, err := json.Marshal(r.Result)
		if err != nil {
			return fmt.Errorf("keep run %s: %w", r.ID, err)
		}
		text = string(b)
	}
	var cpu int64
	var memoryTime float64
	if r.Result != nil {
		cpu, memoryTime = judgeUse(r.Result)
	}
	return j.db.write(ctx, "keep run "+r.ID, func(tx *sql.Tx) error {
		if err := finishJob(ctx, tx, job.ID, job.Token, end); err != nil || r.Result == nil {
			return err // without a result it had ended before; only the job was left
		}
		res, err := tx.ExecContext(ctx, `UPDATE judge_runs SET state = $2, verdict = $3, reason = $4, failed_case = $5, score = $6, time_us = $7, memory = $8,
			node = $9, tries = $10, ended = $11, record = $12, result = $13, cpu_us = $16, memory_time = $17 WHERE id = $1 AND state IN ($14, $15)`,
			r.ID, string(r.State), string(r.Verdict), plain(r.Reason), r.FailedCase, score, r.TimeUS, r.Memory, r.Node, r.Tries, micros(r.Ended), r.Record, text,
			string(judging.Queued), string(judging.Running), cpu, memoryTime)
		if err != nil {
			return err
		}
		return one(res, fault.Errorf(fault.Conflict, "run %s has ended already", r.ID))
	})
}

// judgeUse is what a judging used, for usage: CPU time in microseconds, and the
// memory of its machine in bytes times seconds.
func judgeUse(r *judge.Run) (cpu int64, memoryTime float64) {
	cpu = r.Compile.Usage.CPU().Microseconds()
	for _, c := range r.Cases {
		cpu += c.TimeUS
	}
	return cpu, float64(r.Machine.Shape.Memory) * r.FinishedAt.Sub(r.StartedAt).Seconds()
}
