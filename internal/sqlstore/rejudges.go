package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"assay/internal/fault"
	"assay/internal/judge"
	"assay/internal/judging"
)

// AddRejudge keeps a set with its runs and their jobs.
func (j Judging) AddRejudge(ctx context.Context, r judging.Rejudge, runs []judging.Run) error {
	return j.db.write(ctx, "keep rejudge", func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, `INSERT INTO rejudges (id, problem, version, reason, state, by_whom, created, ended)
			VALUES ($1, $2, $3, $4, $5, $6, $7, 0)`, r.ID, r.Problem, r.Version, r.Reason, string(r.State), r.By, micros(r.Created)); err != nil {
			return err
		}
		for _, run := range runs {
			if err := addRun(ctx, tx, run); err != nil {
				return err
			}
			if err := enqueueJob(ctx, tx, jobOf(run, priorityRejudge)); err != nil {
				return err
			}
		}
		return nil
	})
}

// A set that runs is ready when none of its runs is left.
const rejudgeColumns = `x.id, x.problem, x.version, x.reason, x.state, x.by_whom, x.created, x.ended, COUNT(r.id),
	COALESCE(SUM(CASE WHEN r.state = 'done' THEN 1 ELSE 0 END), 0),
	COALESCE(SUM(CASE WHEN r.state = 'done' AND r.verdict = 'JE' THEN 1 ELSE 0 END), 0)
	FROM rejudges x LEFT JOIN judge_runs r ON r.rejudge = x.id`

func scanRejudge(row scanner) (r judging.Rejudge, err error) {
	var state string
	var created, ended int64
	if err = row.Scan(&r.ID, &r.Problem, &r.Version, &r.Reason, &state, &r.By, &created, &ended, &r.Total, &r.Done, &r.Failed); err != nil {
		return r, err
	}
	r.State, r.Created, r.Ended = judging.RejudgeState(state), fromMicros(created), fromMicros(ended)
	if r.State == judging.RejudgeRunning && r.Done == r.Total {
		r.State = judging.RejudgeReady
	}
	return r, nil
}

// Rejudge gives one set.
func (j Judging) Rejudge(ctx context.Context, id string) (judging.Rejudge, error) {
	r, err := rejudge(ctx, j.db.reader, id)
	return r, j.db.explain("find rejudge "+id, err)
}

func rejudge(ctx context.Context, q rowQueryer, id string) (judging.Rejudge, error) {
	r, err := scanRejudge(q.QueryRowContext(ctx, `SELECT `+rejudgeColumns+` WHERE x.id = $1
		GROUP BY x.id, x.problem, x.version, x.reason, x.state, x.by_whom, x.created, x.ended`, id))
	if errors.Is(err, sql.ErrNoRows) {
		err = fault.Errorf(fault.NotFound, "there is no rejudge %s", id)
	}
	return r, err
}

// Rejudges gives a page of sets.
func (j Judging) Rejudges(ctx context.Context, after string, limit int) ([]judging.Rejudge, error) {
	before, id, err := judging.ParsePage(after)
	if err != nil {
		return nil, err
	}
	all, err := list(ctx, j.db.reader, scanRejudge, `SELECT `+rejudgeColumns+` WHERE x.created < $1 OR x.created = $1 AND x.id < $2
		GROUP BY x.id, x.problem, x.version, x.reason, x.state, x.by_whom, x.created, x.ended
		ORDER BY x.created DESC, x.id DESC LIMIT $3`, before.UnixMicro(), id, limit)
	return all, j.db.explain("list rejudges", err)
}

// RejudgeRuns gives the runs of a set, each with the one that counts, or did
// before the set was applied.
func (j Judging) RejudgeRuns(ctx context.Context, id string) ([]judging.Rejudged, error) {
	all, err := list(ctx, j.db.reader, func(row scanner) (re judging.Rejudged, err error) {
		var before, after runScan
		if err = row.Scan(append(append([]any{&re.Submission, &re.Login}, before.dest()...), after.dest()...)...); err != nil {
			return re, err
		}
		if re.Before, err = before.run(); err != nil {
			return re, err
		}
		re.After, err = after.run()
		return re, err
	}, `SELECT s.id, s.login, b.id, b.submission, b.version, b.state, b.verdict, b.reason, b.failed_case, b.score, b.time_us, b.memory,
		b.node, b.tries, b.rejudge, b.created, b.ended, b.record, `+runColumns+`
		FROM judge_runs r JOIN submissions s ON s.id = r.submission
		JOIN judge_runs b ON b.id = CASE WHEN r.replaced = '' THEN s.run ELSE r.replaced END
		WHERE r.rejudge = $1 ORDER BY s.received, s.id`, id)
	return all, j.db.explain("list the runs of rejudge "+id, err)
}

// EndRejudge applies or cancels a set.
func (j Judging) EndRejudge(ctx context.Context, id string, state judging.RejudgeState) error {
	return j.db.writeLocked(ctx, "end rejudge "+id, "rejudge "+id, func(tx *sql.Tx) error {
		r, err := rejudge(ctx, tx, id)
		if err != nil {
			return err
		}
		switch {
		case r.State == judging.RejudgeApplied || r.State == judging.RejudgeCancelled:
			return fault.Errorf(fault.Conflict, "rejudge %s is %s already", id, r.State)
		case state == judging.RejudgeApplied && r.State != judging.RejudgeReady:
			return fault.Errorf(fault.Conflict, "rejudge %s: %d of %d runs have ended", id, r.Done, r.Total).WithHint("wait for all, or cancel it")
		}
		if _, err := tx.ExecContext(ctx, `UPDATE rejudges SET state = $2, ended = $3 WHERE id = $1`, id, string(state), micros(time.Now())); err != nil {
			return err
		}
		if state == judging.RejudgeCancelled {
			return cancelRuns(ctx, tx, id)
		}
		if _, err := tx.ExecContext(ctx, `UPDATE judge_runs SET replaced = (SELECT s.run FROM submissions s WHERE s.id = judge_runs.submission)
			WHERE rejudge = $1 AND verdict <> $2`, id, string(judge.JudgeError)); err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `UPDATE submissions SET
			run = (SELECT r.id FROM judge_runs r WHERE r.rejudge = $1 AND r.submission = submissions.id AND r.replaced <> ''),
			version = (SELECT r.version FROM judge_runs r WHERE r.rejudge = $1 AND r.submission = submissions.id AND r.replaced <> '')
			WHERE id IN (SELECT submission FROM judge_runs WHERE rejudge = $1 AND replaced <> '')`, id)
		return err
	})
}

// cancelRuns ends what has not, with its jobs.
func cancelRuns(ctx context.Context, tx *sql.Tx, id string) error {
	if err := cancelJobs(ctx, tx, "its rejudge was cancelled", `SELECT id FROM judge_runs WHERE rejudge = $1`, id); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, `UPDATE judge_runs SET state = $2, ended = $3 WHERE rejudge = $1 AND state IN ($4, $5)`,
		id, string(judging.Cancelled), micros(time.Now()), string(judging.Queued), string(judging.Running))
	return err
}
