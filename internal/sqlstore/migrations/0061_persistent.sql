-- +goose Up
-- Sandboxes that outlive the process of their node.

ALTER TABLE sandboxes ADD COLUMN persistent BOOLEAN NOT NULL DEFAULT FALSE;
