-- The hot tiers that land here, which of them holds each partition, and the stamp of the raise that gave it the partition.
-- A migration may be cut at any statement and is then run again from its beginning: each statement tolerates that it ran before.
CREATE TABLE IF NOT EXISTS `{stem}_hot` (
    id      BIGINT UNSIGNED NOT NULL PRIMARY KEY,
    address VARBINARY(255)  NOT NULL,
    since   DATETIME(3)     NOT NULL,
    seen_at DATETIME(3)     NOT NULL
) ENGINE = InnoDB;

CREATE TABLE IF NOT EXISTS `{stem}_stamp` (
    partition_id INT UNSIGNED    NOT NULL PRIMARY KEY,
    stamp        BIGINT UNSIGNED NOT NULL,
    hot          BIGINT UNSIGNED NOT NULL
) ENGINE = InnoDB;

INSERT IGNORE INTO `{stem}_stamp` (partition_id, stamp, hot)
SELECT partition_id, 0, 0 FROM `{stem}_partition`;
