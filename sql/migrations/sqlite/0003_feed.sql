-- The feed: landed events, how far each partition's feed reaches, and rows that are ahead of their notes.
-- A migration may be cut at any statement and is then run again from its beginning: each statement tolerates that it ran before.
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
