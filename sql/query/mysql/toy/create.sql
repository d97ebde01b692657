-- Purpose: makes the table of scores, unless it is there.
-- Arguments: none.
-- Result: none.
CREATE TABLE IF NOT EXISTS `{stem}_toy` (
    owner_id   VARBINARY(255)  NOT NULL PRIMARY KEY,
    score      BIGINT UNSIGNED NOT NULL,
    up_version BIGINT UNSIGNED NOT NULL
) ENGINE = InnoDB
