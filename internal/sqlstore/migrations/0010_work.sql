-- +goose Up
-- Jobs: state is queued, running, done or failed. Node, token and lease_until
-- belong to whoever claimed it. Roles are JSON.

CREATE TABLE work_jobs (
  id          TEXT   NOT NULL PRIMARY KEY,
  kind        TEXT   NOT NULL,
  ref         TEXT   NOT NULL,
  priority    BIGINT NOT NULL,
  state       TEXT   NOT NULL,
  node        TEXT   NOT NULL,
  token       TEXT   NOT NULL,
  lease_until BIGINT NOT NULL,
  tries       BIGINT NOT NULL,
  available   BIGINT NOT NULL,
  created     BIGINT NOT NULL,
  ended       BIGINT NOT NULL,
  reason      TEXT   NOT NULL
);

-- Jobs that have ended become many: what workers look for must not be among them.
CREATE INDEX work_jobs_queued ON work_jobs (priority DESC, created, id) WHERE state = 'queued';
CREATE INDEX work_jobs_running ON work_jobs (lease_until) WHERE state = 'running';
CREATE INDEX work_jobs_ended ON work_jobs (ended) WHERE ended > 0;

CREATE TABLE work_nodes (
  id       TEXT   NOT NULL PRIMARY KEY,
  address  TEXT   NOT NULL,
  capacity BIGINT NOT NULL,
  roles    TEXT   NOT NULL,
  started  BIGINT NOT NULL,
  seen     BIGINT NOT NULL
);
