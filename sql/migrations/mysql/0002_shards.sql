-- The shards of services that answer from shards, and the claim of each. A range ends where the next row of its plan begins.
-- A migration may be cut at any statement and is then run again from its beginning: each statement tolerates that it ran before.
CREATE TABLE IF NOT EXISTS `{stem}_shard` (
    service     VARBINARY(64)   NOT NULL,
    dc          VARBINARY(64)   NOT NULL,
    plan        INT UNSIGNED    NOT NULL,
    range_begin VARBINARY(8)    NOT NULL,
    token       VARBINARY(16)   NOT NULL DEFAULT '',
    beat        BIGINT UNSIGNED NOT NULL DEFAULT 0,
    holder      VARBINARY(255)  NOT NULL DEFAULT '',
    transitions BIGINT UNSIGNED NOT NULL DEFAULT 0,
    claimed_at  DATETIME(3)     NOT NULL DEFAULT CURRENT_TIMESTAMP(3),
    renewed_at  DATETIME(3)     NOT NULL DEFAULT CURRENT_TIMESTAMP(3),
    PRIMARY KEY (service, dc, plan, range_begin)
) ENGINE = InnoDB;
