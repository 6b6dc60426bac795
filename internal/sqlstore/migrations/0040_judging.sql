-- +goose Up
-- Problems in versions, submissions and their runs, and rejudge sets. Instants
-- are microseconds since 1970 in UTC, 0 is none; scores are decimal numbers as
-- text, '' is none.

CREATE TABLE problems (
  id      TEXT    NOT NULL PRIMARY KEY,
  is_open BOOLEAN NOT NULL,
  version TEXT    NOT NULL,
  created BIGINT  NOT NULL
);

CREATE TABLE problem_versions (
  problem  TEXT   NOT NULL REFERENCES problems (id) ON DELETE CASCADE,
  digest   TEXT   NOT NULL,
  number   BIGINT NOT NULL,
  package  TEXT   NOT NULL,
  about    TEXT   NOT NULL,
  uploaded BIGINT NOT NULL,
  by_whom  TEXT   NOT NULL,
  PRIMARY KEY (problem, digest)
);

CREATE TABLE submissions (
  id        TEXT   NOT NULL PRIMARY KEY,
  problem   TEXT   NOT NULL REFERENCES problems (id),
  version   TEXT   NOT NULL,
  user_id   TEXT   NOT NULL,
  login     TEXT   NOT NULL,
  language  TEXT   NOT NULL,
  entry     TEXT   NOT NULL,
  digest    TEXT   NOT NULL,
  files     TEXT   NOT NULL,
  labels    TEXT   NOT NULL,
  received  BIGINT NOT NULL,
  run       TEXT   NOT NULL,
  idem      TEXT   NOT NULL,
  idem_body TEXT   NOT NULL
);

CREATE INDEX submissions_by_time ON submissions (received, id);
CREATE INDEX submissions_by_problem ON submissions (problem, received, id);
CREATE INDEX submissions_by_user ON submissions (user_id, received, id);
-- The index holds that a key stands for one submission.
CREATE UNIQUE INDEX submissions_by_key ON submissions (user_id, idem) WHERE idem <> '';

CREATE TABLE judge_runs (
  id          TEXT   NOT NULL PRIMARY KEY,
  submission  TEXT   NOT NULL REFERENCES submissions (id) ON DELETE CASCADE,
  version     TEXT   NOT NULL,
  state       TEXT   NOT NULL,
  verdict     TEXT   NOT NULL,
  reason      TEXT   NOT NULL,
  failed_case BIGINT NOT NULL,
  score       TEXT   NOT NULL,
  time_us     BIGINT NOT NULL,
  memory      BIGINT NOT NULL,
  node        TEXT   NOT NULL,
  tries       BIGINT NOT NULL,
  rejudge     TEXT   NOT NULL,
  -- The run that counted before, once this one does.
  replaced    TEXT   NOT NULL,
  created     BIGINT NOT NULL,
  ended       BIGINT NOT NULL,
  record      TEXT   NOT NULL,
  result      TEXT   NOT NULL
);

CREATE INDEX judge_runs_by_submission ON judge_runs (submission, created, id);
CREATE INDEX judge_runs_by_rejudge ON judge_runs (rejudge, id) WHERE rejudge <> '';

CREATE TABLE rejudges (
  id      TEXT   NOT NULL PRIMARY KEY,
  problem TEXT   NOT NULL REFERENCES problems (id),
  version TEXT   NOT NULL,
  reason  TEXT   NOT NULL,
  state   TEXT   NOT NULL,
  by_whom TEXT   NOT NULL,
  created BIGINT NOT NULL,
  ended   BIGINT NOT NULL
);

CREATE INDEX rejudges_by_time ON rejudges (created, id);
