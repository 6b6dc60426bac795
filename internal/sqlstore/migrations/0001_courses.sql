-- +goose Up
-- Instants are microseconds since 1970 in UTC, 0 is none. Scores are decimal
-- numbers as text. What is only read whole is JSON.

CREATE TABLE courses (
  id      TEXT   NOT NULL PRIMARY KEY,
  title   TEXT   NOT NULL,
  zone    TEXT   NOT NULL,
  secret  TEXT   NOT NULL,
  created BIGINT NOT NULL
);

CREATE TABLE course_people (
  course     TEXT   NOT NULL REFERENCES courses (id) ON DELETE CASCADE,
  id         TEXT   NOT NULL,
  student_id TEXT   NOT NULL,
  email      TEXT   NOT NULL,
  login      TEXT   NOT NULL,
  canvas_id  TEXT   NOT NULL,
  name       TEXT   NOT NULL,
  section    TEXT   NOT NULL,
  role       TEXT   NOT NULL,
  removed    BIGINT NOT NULL,
  PRIMARY KEY (course, id)
);

CREATE TABLE course_assignments (
  course    TEXT    NOT NULL REFERENCES courses (id) ON DELETE CASCADE,
  name      TEXT    NOT NULL,
  title     TEXT    NOT NULL,
  version   TEXT    NOT NULL,
  points    TEXT    NOT NULL,
  due       TEXT    NOT NULL,
  late      TEXT    NOT NULL,
  attempts  TEXT    NOT NULL,
  anonymous BOOLEAN NOT NULL,
  published BIGINT  NOT NULL,
  created   BIGINT  NOT NULL,
  PRIMARY KEY (course, name)
);

-- The key holds that nobody is in two groups of one assignment.
CREATE TABLE course_members (
  course     TEXT NOT NULL REFERENCES courses (id) ON DELETE CASCADE,
  assignment TEXT NOT NULL,
  person     TEXT NOT NULL,
  team       TEXT NOT NULL,
  PRIMARY KEY (course, assignment, person)
);

CREATE TABLE course_extensions (
  course     TEXT   NOT NULL REFERENCES courses (id) ON DELETE CASCADE,
  id         TEXT   NOT NULL,
  assignment TEXT   NOT NULL,
  person     TEXT   NOT NULL,
  team       TEXT   NOT NULL,
  due        TEXT   NOT NULL,
  days       BIGINT NOT NULL,
  by_whom    TEXT   NOT NULL,
  at         BIGINT NOT NULL,
  reason     TEXT   NOT NULL,
  revoked    TEXT   NOT NULL,
  PRIMARY KEY (course, id)
);

CREATE TABLE course_adjustments (
  course     TEXT    NOT NULL REFERENCES courses (id) ON DELETE CASCADE,
  id         TEXT    NOT NULL,
  assignment TEXT    NOT NULL,
  person     TEXT    NOT NULL,
  replaces   BOOLEAN NOT NULL,
  points     TEXT    NOT NULL,
  by_whom    TEXT    NOT NULL,
  at         BIGINT  NOT NULL,
  reason     TEXT    NOT NULL,
  revoked    TEXT    NOT NULL,
  PRIMARY KEY (course, id)
);

CREATE TABLE course_attempts (
  course     TEXT   NOT NULL REFERENCES courses (id) ON DELETE CASCADE,
  id         TEXT   NOT NULL,
  assignment TEXT   NOT NULL,
  person     TEXT   NOT NULL,
  team       TEXT   NOT NULL,
  digest     TEXT   NOT NULL,
  received   BIGINT NOT NULL,
  run        TEXT   NOT NULL,
  PRIMARY KEY (course, id)
);

CREATE INDEX course_attempts_by_assignment ON course_attempts (course, assignment, received, id);

CREATE TABLE course_runs (
  course     TEXT    NOT NULL REFERENCES courses (id) ON DELETE CASCADE,
  id         TEXT    NOT NULL,
  attempt    TEXT    NOT NULL,
  version    TEXT    NOT NULL,
  score      TEXT    NOT NULL,
  points     TEXT    NOT NULL,
  failed     BOOLEAN NOT NULL,
  suspicious BOOLEAN NOT NULL,
  by_whom    TEXT    NOT NULL,
  at         BIGINT  NOT NULL,
  reason     TEXT    NOT NULL,
  grade      TEXT    NOT NULL,
  PRIMARY KEY (course, id)
);

CREATE INDEX course_runs_by_attempt ON course_runs (course, attempt);
