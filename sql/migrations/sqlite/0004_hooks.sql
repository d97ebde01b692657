-- The hooks of layers: rows that follow from landed rows, in the same transaction.
-- A migration may be cut at any statement and is then run again from its beginning: each statement tolerates that it ran before.
CREATE TABLE IF NOT EXISTS `{stem}_hook` (
    name        BLOB    NOT NULL PRIMARY KEY,
    is_needed   INTEGER NOT NULL,
    definitions INTEGER NOT NULL
);
