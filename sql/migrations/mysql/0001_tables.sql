-- The rows, the record of each partition, and what is fixed for the whole database.
-- A migration may be cut at any statement and is then run again from its beginning: each statement tolerates that it ran before.
CREATE TABLE IF NOT EXISTS `{table}` (
    app_id     VARBINARY(64)    NOT NULL,
    region_id  VARBINARY(64)    NOT NULL,
    logic_type VARBINARY(64)    NOT NULL,
    owner_id   VARBINARY(255)   NOT NULL,
    field      VARBINARY(255)   NOT NULL,
    value      LONGBLOB         NOT NULL,
    up_version BIGINT UNSIGNED  NOT NULL,
    is_del     TINYINT UNSIGNED NOT NULL,
    created_at DATETIME(3)      NOT NULL DEFAULT CURRENT_TIMESTAMP(3),
    updated_at DATETIME(3)      NOT NULL DEFAULT CURRENT_TIMESTAMP(3),
    PRIMARY KEY (app_id, region_id, logic_type, owner_id, field)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

CREATE TABLE IF NOT EXISTS `{stem}_partition` (
    partition_id INT UNSIGNED    NOT NULL PRIMARY KEY,
    epoch        BIGINT UNSIGNED NOT NULL,
    last_version BIGINT UNSIGNED NOT NULL,
    landed_epoch BIGINT UNSIGNED NOT NULL
) ENGINE = InnoDB;

CREATE TABLE IF NOT EXISTS `{stem}_meta` (
    name  VARBINARY(64)  NOT NULL PRIMARY KEY,
    value VARBINARY(255) NOT NULL
) ENGINE = InnoDB;
