-- +goose Up
-- What a judging used: CPU time of all its cases and of compiling, and the
-- memory of its machine in bytes times seconds.
ALTER TABLE judge_runs ADD COLUMN cpu_us BIGINT NOT NULL DEFAULT 0;
ALTER TABLE judge_runs ADD COLUMN memory_time DOUBLE PRECISION NOT NULL DEFAULT 0;

CREATE INDEX judge_runs_by_end ON judge_runs (ended) WHERE ended > 0;
CREATE INDEX sandbox_snapshots_by_time ON sandbox_snapshots (taken);
