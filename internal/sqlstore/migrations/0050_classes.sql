-- +goose Up
-- What a server has of courses beside their marks: packages of assignments in
-- versions, what was handed in, gradings and regrade sets. Instants are
-- microseconds since 1970 in UTC, 0 is none. What is only read whole is JSON.

CREATE TABLE class_archived (
  course TEXT   NOT NULL PRIMARY KEY REFERENCES courses (id) ON DELETE CASCADE,
  at     BIGINT NOT NULL
);

-- current is the number of the version that attempts are graded by, 0 is none.
CREATE TABLE class_tasks (
  course  TEXT    NOT NULL REFERENCES courses (id) ON DELETE CASCADE,
  name    TEXT    NOT NULL,
  current BIGINT  NOT NULL,
  is_open BOOLEAN NOT NULL,
  created BIGINT  NOT NULL,
  PRIMARY KEY (course, name)
);

CREATE TABLE class_versions (
  id         TEXT   NOT NULL PRIMARY KEY,
  course     TEXT   NOT NULL,
  assignment TEXT   NOT NULL,
  number     BIGINT NOT NULL,
  digest     TEXT   NOT NULL,
  package    TEXT   NOT NULL,
  state      TEXT   NOT NULL,
  checks     TEXT   NOT NULL,
  why        TEXT   NOT NULL,
  about      TEXT   NOT NULL,
  uploaded   BIGINT NOT NULL,
  by_whom    TEXT   NOT NULL,
  opened     BIGINT NOT NULL,
  despite    TEXT   NOT NULL,
  UNIQUE (course, assignment, number),
  UNIQUE (course, assignment, package),
  FOREIGN KEY (course, assignment) REFERENCES class_tasks (course, name) ON DELETE CASCADE
);

CREATE TABLE class_attempts (
  id             TEXT   NOT NULL PRIMARY KEY,
  course         TEXT   NOT NULL REFERENCES courses (id) ON DELETE CASCADE,
  assignment     TEXT   NOT NULL,
  person         TEXT   NOT NULL,
  team           TEXT   NOT NULL,
  user_id        TEXT   NOT NULL,
  login          TEXT   NOT NULL,
  version        BIGINT NOT NULL,
  version_digest TEXT   NOT NULL,
  digest         TEXT   NOT NULL,
  files          TEXT   NOT NULL,
  notes          TEXT   NOT NULL,
  received       BIGINT NOT NULL,
  grading        TEXT   NOT NULL,
  idem           TEXT   NOT NULL,
  idem_body      TEXT   NOT NULL
);

CREATE INDEX class_attempts_by_course ON class_attempts (course, assignment, received, id);
CREATE INDEX class_attempts_by_person ON class_attempts (course, person, received, id);
-- The index holds that a key stands for one attempt.
CREATE UNIQUE INDEX class_attempts_by_key ON class_attempts (user_id, idem) WHERE idem <> '';

CREATE TABLE class_gradings (
  id          TEXT             NOT NULL PRIMARY KEY,
  attempt     TEXT             NOT NULL REFERENCES class_attempts (id) ON DELETE CASCADE,
  course      TEXT             NOT NULL,
  assignment  TEXT             NOT NULL,
  regrade     TEXT             NOT NULL,
  version     BIGINT           NOT NULL,
  state       TEXT             NOT NULL,
  node        TEXT             NOT NULL,
  tries       BIGINT           NOT NULL,
  cpu_us      BIGINT           NOT NULL,
  memory_time DOUBLE PRECISION NOT NULL,
  created     BIGINT           NOT NULL,
  ended       BIGINT           NOT NULL,
  failed      BOOLEAN          NOT NULL,
  reason      TEXT             NOT NULL,
  grade       TEXT             NOT NULL
);

CREATE INDEX class_gradings_by_attempt ON class_gradings (attempt);
CREATE INDEX class_gradings_by_course ON class_gradings (course, assignment, state);
CREATE INDEX class_gradings_by_regrade ON class_gradings (regrade, id) WHERE regrade <> '';
CREATE INDEX class_gradings_by_end ON class_gradings (ended);

CREATE TABLE class_regrades (
  id         TEXT   NOT NULL PRIMARY KEY,
  course     TEXT   NOT NULL REFERENCES courses (id) ON DELETE CASCADE,
  assignment TEXT   NOT NULL,
  version    BIGINT NOT NULL,
  reason     TEXT   NOT NULL,
  state      TEXT   NOT NULL,
  by_whom    TEXT   NOT NULL,
  created    BIGINT NOT NULL,
  ended      BIGINT NOT NULL
);

CREATE INDEX class_regrades_by_time ON class_regrades (course, created, id);
