-- The feed: landed events, how far each partition's feed reaches, and rows that are ahead of their notes.
-- A migration may be cut at any statement and is then run again from its beginning: each statement tolerates that it ran before.
CREATE TABLE IF NOT EXISTS `{stem}_feed` (
    partition_id   INT UNSIGNED    NOT NULL PRIMARY KEY,
    epoch          BIGINT UNSIGNED NOT NULL,
    number         BIGINT UNSIGNED NOT NULL,
    trimmed_epoch  BIGINT UNSIGNED NOT NULL,
    trimmed_number BIGINT UNSIGNED NOT NULL
) ENGINE = InnoDB;

CREATE TABLE IF NOT EXISTS `{stem}_event` (
    partition_id INT UNSIGNED     NOT NULL,
    epoch        BIGINT UNSIGNED  NOT NULL,
    number       BIGINT UNSIGNED  NOT NULL,
    kind         TINYINT UNSIGNED NOT NULL,
    app_id       VARBINARY(64)    NOT NULL,
    region_id    VARBINARY(64)    NOT NULL,
    logic_type   VARBINARY(64)    NOT NULL,
    owner_id     VARBINARY(255)   NOT NULL,
    up_version   BIGINT UNSIGNED  NOT NULL,
    previous     BIGINT UNSIGNED  NOT NULL,
    counters     MEDIUMBLOB       NOT NULL,
    body         LONGBLOB         NOT NULL,
    landed_at    DATETIME(3)      NOT NULL DEFAULT CURRENT_TIMESTAMP(3),
    PRIMARY KEY (partition_id, epoch, number)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

CREATE TABLE IF NOT EXISTS `{stem}_lead` (
    partition_id INT UNSIGNED    NOT NULL,
    app_id       VARBINARY(64)   NOT NULL,
    region_id    VARBINARY(64)   NOT NULL,
    logic_type   VARBINARY(64)   NOT NULL,
    owner_id     VARBINARY(255)  NOT NULL,
    epoch        BIGINT UNSIGNED NOT NULL,
    number       BIGINT UNSIGNED NOT NULL,
    PRIMARY KEY (partition_id, app_id, region_id, logic_type, owner_id, epoch)
) ENGINE = InnoDB;
