-- +goose Up
-- What a node holds, as it last said: memory and held are bytes, of what its
-- sandboxes may have together and of what they have.

ALTER TABLE work_nodes ADD COLUMN sandboxes BIGINT NOT NULL DEFAULT 0;
ALTER TABLE work_nodes ADD COLUMN memory BIGINT NOT NULL DEFAULT 0;
ALTER TABLE work_nodes ADD COLUMN held BIGINT NOT NULL DEFAULT 0;
