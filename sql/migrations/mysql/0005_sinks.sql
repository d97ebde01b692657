-- The sinks of the feed: how far each has got in each partition, and the events that it refused.
-- A migration may be cut at any statement and is then run again from its beginning: each statement tolerates that it ran before.
CREATE TABLE IF NOT EXISTS `{stem}_sink` (
    name         VARBINARY(32)   NOT NULL,
    partition_id INT UNSIGNED    NOT NULL,
    epoch        BIGINT UNSIGNED NOT NULL,
    number       BIGINT UNSIGNED NOT NULL,
    PRIMARY KEY (name, partition_id)
) ENGINE = InnoDB;

CREATE TABLE IF NOT EXISTS `{stem}_sink_error` (
    name         VARBINARY(32)   NOT NULL,
    partition_id INT UNSIGNED    NOT NULL,
    epoch        BIGINT UNSIGNED NOT NULL,
    number       BIGINT UNSIGNED NOT NULL,
    message      VARBINARY(1024) NOT NULL,
    parked_at    DATETIME(3)     NOT NULL DEFAULT CURRENT_TIMESTAMP(3),
    PRIMARY KEY (name, partition_id, epoch, number)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;
