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
