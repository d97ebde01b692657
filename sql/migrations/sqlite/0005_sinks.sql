-- The sinks of the feed: how far each has got in each partition, and the events that it refused.
-- A migration may be cut at any statement and is then run again from its beginning: each statement tolerates that it ran before.
CREATE TABLE IF NOT EXISTS `{stem}_sink` (
    name         BLOB    NOT NULL CHECK (length(name) <= 32),
    partition_id INTEGER NOT NULL,
    epoch        INTEGER NOT NULL,
    number       INTEGER NOT NULL,
    PRIMARY KEY (name, partition_id)
) WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS `{stem}_sink_error` (
    name         BLOB    NOT NULL CHECK (length(name) <= 32),
    partition_id INTEGER NOT NULL,
    epoch        INTEGER NOT NULL,
    number       INTEGER NOT NULL,
    message      BLOB    NOT NULL CHECK (length(message) <= 1024),
    parked_at    TEXT    NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now')),
    PRIMARY KEY (name, partition_id, epoch, number)
) WITHOUT ROWID;
