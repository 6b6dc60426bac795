-- +goose Up
-- People, who is signed in, and what was done. Secrets are kept as SHA-256 in
-- hexadecimal, passwords as argon2id. Instants are microseconds, 0 is none.

CREATE TABLE users (
  id       TEXT   NOT NULL PRIMARY KEY,
  login    TEXT   NOT NULL UNIQUE,
  name     TEXT   NOT NULL,
  email    TEXT   NOT NULL,
  role     TEXT   NOT NULL,
  password TEXT   NOT NULL,
  subject  TEXT   NOT NULL,
  created  BIGINT NOT NULL,
  disabled BIGINT NOT NULL
);
CREATE UNIQUE INDEX users_subject ON users (subject) WHERE subject <> '';
CREATE INDEX users_email ON users (lower(email));

CREATE TABLE sessions (
  hash    TEXT   NOT NULL PRIMARY KEY,
  id      TEXT   NOT NULL UNIQUE,
  person  TEXT   NOT NULL REFERENCES users (id) ON DELETE CASCADE,
  origin  TEXT   NOT NULL,
  agent   TEXT   NOT NULL,
  created BIGINT NOT NULL,
  seen    BIGINT NOT NULL,
  idle    BIGINT NOT NULL,
  expires BIGINT NOT NULL
);
CREATE INDEX sessions_person ON sessions (person);

CREATE TABLE tokens (
  id              TEXT   NOT NULL PRIMARY KEY,
  hash            TEXT   NOT NULL UNIQUE,
  prefix          TEXT   NOT NULL,
  person          TEXT   NOT NULL REFERENCES users (id) ON DELETE CASCADE,
  name            TEXT   NOT NULL,
  scopes          TEXT   NOT NULL, -- JSON
  sandboxes       BIGINT NOT NULL,
  cpu_seconds_day BIGINT NOT NULL,
  disk_bytes      BIGINT NOT NULL,
  snapshots       BIGINT NOT NULL,
  origin          TEXT   NOT NULL,
  created         BIGINT NOT NULL,
  expires         BIGINT NOT NULL,
  used            BIGINT NOT NULL,
  revoked         BIGINT NOT NULL
);
CREATE INDEX tokens_person ON tokens (person, id);

CREATE TABLE devices (
  hash      TEXT   NOT NULL PRIMARY KEY,
  user_hash TEXT   NOT NULL UNIQUE,
  client    TEXT   NOT NULL,
  origin    TEXT   NOT NULL,
  scopes    TEXT   NOT NULL, -- JSON
  state     TEXT   NOT NULL,
  person    TEXT   NOT NULL,
  created   BIGINT NOT NULL,
  expires   BIGINT NOT NULL,
  wait      BIGINT NOT NULL,
  polled    BIGINT NOT NULL
);

CREATE TABLE links (
  hash    TEXT   NOT NULL PRIMARY KEY,
  person  TEXT   NOT NULL, -- '' makes the first admin
  created BIGINT NOT NULL,
  expires BIGINT NOT NULL,
  by_whom TEXT   NOT NULL
);

CREATE TABLE sign_ons (
  hash     TEXT   NOT NULL PRIMARY KEY,
  nonce    TEXT   NOT NULL,
  verifier TEXT   NOT NULL,
  next     TEXT   NOT NULL,
  expires  BIGINT NOT NULL
);

CREATE TABLE guesses (
  target TEXT   NOT NULL PRIMARY KEY,
  count  BIGINT NOT NULL,
  last   BIGINT NOT NULL,
  until  BIGINT NOT NULL
);

-- Entries name things that may be gone, so nothing refers to them.
CREATE TABLE audit (
  id      TEXT   NOT NULL PRIMARY KEY,
  at      BIGINT NOT NULL,
  who     TEXT   NOT NULL,
  name    TEXT   NOT NULL,
  token   TEXT   NOT NULL,
  action  TEXT   NOT NULL,
  thing   TEXT   NOT NULL,
  target  TEXT   NOT NULL,
  detail  TEXT   NOT NULL,
  outcome BIGINT NOT NULL,
  origin  TEXT   NOT NULL,
  request TEXT   NOT NULL
);
CREATE INDEX audit_who ON audit (who, id);
CREATE INDEX audit_target ON audit (target, id);
