-- The shards of services that answer from shards, and the claim of each. A range ends where the next row of its plan begins.
-- A migration may be cut at any statement and is then run again from its beginning: each statement tolerates that it ran before.
CREATE TABLE IF NOT EXISTS `{stem}_shard` (
    service     BLOB    NOT NULL CHECK (length(service) <= 64),
    dc          BLOB    NOT NULL CHECK (length(dc) <= 64),
    plan        INTEGER NOT NULL,
    range_begin BLOB    NOT NULL CHECK (length(range_begin) <= 8),
    token       BLOB    NOT NULL DEFAULT x'' CHECK (length(token) <= 16),
    beat        INTEGER NOT NULL DEFAULT 0,
    holder      BLOB    NOT NULL DEFAULT x'' CHECK (length(holder) <= 255),
    transitions INTEGER NOT NULL DEFAULT 0,
    claimed_at  TEXT    NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now')),
    renewed_at  TEXT    NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now')),
    PRIMARY KEY (service, dc, plan, range_begin)
) WITHOUT ROWID;
