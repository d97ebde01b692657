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

-- The feed: landed events, how far each partition's feed reaches, and rows that are ahead of their notes.
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

-- The hooks of layers: rows that follow from landed rows, in the same transaction.
CREATE TABLE IF NOT EXISTS `{stem}_hook` (
    name        VARBINARY(64)    NOT NULL PRIMARY KEY,
    is_needed   TINYINT UNSIGNED NOT NULL,
    definitions BIGINT UNSIGNED  NOT NULL
) ENGINE = InnoDB;

-- The sinks of the feed: how far each has got in each partition, and the events that it refused.
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

-- The hot tiers that land here, which of them holds each partition, and the stamp of the raise that gave it the partition.
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
