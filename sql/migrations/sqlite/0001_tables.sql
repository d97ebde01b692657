-- The rows, the record of each partition, and what is fixed for the whole database.
-- A migration may be cut at any statement and is then run again from its beginning: each statement tolerates that it ran before.
CREATE TABLE IF NOT EXISTS `{table}` (
    app_id     BLOB    NOT NULL CHECK (length(app_id) <= 64),
    region_id  BLOB    NOT NULL CHECK (length(region_id) <= 64),
    logic_type BLOB    NOT NULL CHECK (length(logic_type) <= 64),
    owner_id   BLOB    NOT NULL CHECK (length(owner_id) <= 255),
    field      BLOB    NOT NULL CHECK (length(field) <= 255),
    value      BLOB    NOT NULL,
    up_version INTEGER NOT NULL,
    is_del     INTEGER NOT NULL,
    created_at TEXT    NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now')),
    updated_at TEXT    NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now')),
    PRIMARY KEY (app_id, region_id, logic_type, owner_id, field)
) WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS `{stem}_partition` (
    partition_id INTEGER NOT NULL PRIMARY KEY,
    epoch        INTEGER NOT NULL,
    last_version INTEGER NOT NULL,
    landed_epoch INTEGER NOT NULL
);

CREATE TABLE IF NOT EXISTS `{stem}_meta` (
    name  BLOB NOT NULL PRIMARY KEY,
    value BLOB NOT NULL
) WITHOUT ROWID;

-- The feed: landed events, how far each partition's feed reaches, and rows that are ahead of their notes.
CREATE TABLE IF NOT EXISTS `{stem}_feed` (
    partition_id   INTEGER NOT NULL PRIMARY KEY,
    epoch          INTEGER NOT NULL,
    number         INTEGER NOT NULL,
    trimmed_epoch  INTEGER NOT NULL,
    trimmed_number INTEGER NOT NULL
);

CREATE TABLE IF NOT EXISTS `{stem}_event` (
    partition_id INTEGER NOT NULL,
    epoch        INTEGER NOT NULL,
    number       INTEGER NOT NULL,
    kind         INTEGER NOT NULL,
    app_id       BLOB    NOT NULL CHECK (length(app_id) <= 64),
    region_id    BLOB    NOT NULL CHECK (length(region_id) <= 64),
    logic_type   BLOB    NOT NULL CHECK (length(logic_type) <= 64),
    owner_id     BLOB    NOT NULL CHECK (length(owner_id) <= 255),
    up_version   INTEGER NOT NULL,
    previous     INTEGER NOT NULL,
    counters     BLOB    NOT NULL,
    body         BLOB    NOT NULL,
    landed_at    TEXT    NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now')),
    PRIMARY KEY (partition_id, epoch, number)
) WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS `{stem}_lead` (
    partition_id INTEGER NOT NULL,
    app_id       BLOB    NOT NULL CHECK (length(app_id) <= 64),
    region_id    BLOB    NOT NULL CHECK (length(region_id) <= 64),
    logic_type   BLOB    NOT NULL CHECK (length(logic_type) <= 64),
    owner_id     BLOB    NOT NULL CHECK (length(owner_id) <= 255),
    epoch        INTEGER NOT NULL,
    number       INTEGER NOT NULL,
    PRIMARY KEY (partition_id, app_id, region_id, logic_type, owner_id, epoch)
) WITHOUT ROWID;

-- The hooks of layers: rows that follow from landed rows, in the same transaction.
CREATE TABLE IF NOT EXISTS `{stem}_hook` (
    name        BLOB    NOT NULL PRIMARY KEY,
    is_needed   INTEGER NOT NULL,
    definitions INTEGER NOT NULL
);

-- The sinks of the feed: how far each has got in each partition, and the events that it refused.
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

-- The hot tiers that land here, which of them holds each partition, and the stamp of the raise that gave it the partition.
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
