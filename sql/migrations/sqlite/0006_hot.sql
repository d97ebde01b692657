-- The hot tiers that land here, which of them holds each partition, and the stamp of the raise that gave it the partition.
-- A migration may be cut at any statement and is then run again from its beginning: each statement tolerates that it ran before.
CREATE TABLE IF NOT EXISTS `{stem}_hot` (
    id      INTEGER NOT NULL PRIMARY KEY,
    address BLOB    NOT NULL CHECK (length(address) <= 255),
    since   TEXT    NOT NULL,
    seen_at TEXT    NOT NULL
);

CREATE TABLE IF NOT EXISTS `{stem}_stamp` (
    partition_id INTEGER NOT NULL PRIMARY KEY,
    stamp        INTEGER NOT NULL,
    hot          INTEGER NOT NULL
);

INSERT INTO `{stem}_stamp` (partition_id, stamp, hot)
SELECT partition_id, 0, 0 FROM `{stem}_partition` WHERE true
ON CONFLICT (partition_id) DO NOTHING;
