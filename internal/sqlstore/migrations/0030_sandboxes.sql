-- +goose Up
-- Times that a clock measures (deadlines, spans) are microseconds, as instants
-- are. memory_byte_s is bytes of memory times seconds.

CREATE TABLE sandboxes (
  id              TEXT             NOT NULL PRIMARY KEY,
  owner           TEXT             NOT NULL,
  token           TEXT             NOT NULL,
  node            TEXT             NOT NULL,
  name            TEXT             NOT NULL,
  labels          TEXT             NOT NULL,
  template        TEXT             NOT NULL,
  template_digest TEXT             NOT NULL,
  snapshot        TEXT             NOT NULL,
  parent          TEXT             NOT NULL,
  boot_mode       TEXT             NOT NULL,
  boot_us         BIGINT           NOT NULL,
  shape           TEXT             NOT NULL,
  disk_bytes      BIGINT           NOT NULL,
  dedicated       BOOLEAN          NOT NULL,
  created         BIGINT           NOT NULL,
  deadline        BIGINT           NOT NULL,
  idle_us         BIGINT           NOT NULL,
  paused          BOOLEAN          NOT NULL,
  cpu_us          BIGINT           NOT NULL,
  memory_byte_s   DOUBLE PRECISION NOT NULL,
  snapshot_bytes  BIGINT           NOT NULL,
  ended           BIGINT           NOT NULL,
  why             TEXT             NOT NULL,
  cause           TEXT             NOT NULL
);

CREATE INDEX sandboxes_by_owner ON sandboxes (owner, created, id);
CREATE INDEX sandboxes_by_time ON sandboxes (created, id);
CREATE INDEX sandboxes_live ON sandboxes (node, ended);

CREATE TABLE sandbox_labels (
  sandbox TEXT NOT NULL REFERENCES sandboxes (id) ON DELETE CASCADE,
  name    TEXT NOT NULL,
  value   TEXT NOT NULL,
  PRIMARY KEY (sandbox, name)
);

CREATE TABLE sandbox_snapshots (
  id       TEXT   NOT NULL PRIMARY KEY,
  owner    TEXT   NOT NULL,
  node     TEXT   NOT NULL,
  name     TEXT   NOT NULL,
  labels   TEXT   NOT NULL,
  sandbox  TEXT   NOT NULL,
  template TEXT   NOT NULL,
  shape    TEXT   NOT NULL,
  bytes    BIGINT NOT NULL,
  taken    BIGINT NOT NULL,
  expires  BIGINT NOT NULL,
  removed  BIGINT NOT NULL
);

CREATE INDEX sandbox_snapshots_by_owner ON sandbox_snapshots (owner, taken, id);

CREATE TABLE sandbox_snapshot_labels (
  snapshot TEXT NOT NULL REFERENCES sandbox_snapshots (id) ON DELETE CASCADE,
  name     TEXT NOT NULL,
  value    TEXT NOT NULL,
  PRIMARY KEY (snapshot, name)
);

-- What an owner's sandboxes used on a day.
CREATE TABLE sandbox_days (
  owner  TEXT   NOT NULL,
  day    BIGINT NOT NULL,
  cpu_us BIGINT NOT NULL,
  PRIMARY KEY (owner, day)
);

CREATE TABLE sandbox_requests (
  owner       TEXT    NOT NULL,
  request_key TEXT    NOT NULL,
  digest      TEXT    NOT NULL,
  node        TEXT    NOT NULL,
  made        BIGINT  NOT NULL,
  answered    BOOLEAN NOT NULL,
  answer      TEXT    NOT NULL,
  PRIMARY KEY (owner, request_key)
);

CREATE INDEX sandbox_requests_by_time ON sandbox_requests (made);
