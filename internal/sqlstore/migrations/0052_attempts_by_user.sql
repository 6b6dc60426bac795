-- +goose Up
-- What an account has handed in of late, to hold back who hands in too often.
CREATE INDEX class_attempts_by_user ON class_attempts (user_id, received, id);
