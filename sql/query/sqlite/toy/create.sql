-- Purpose: makes the table of scores, unless it is there.
-- Arguments: none.
-- Result: none.
CREATE TABLE IF NOT EXISTS `{stem}_toy` (
    owner_id   BLOB    NOT NULL PRIMARY KEY,
    score      INTEGER NOT NULL,
    up_version INTEGER NOT NULL
)
