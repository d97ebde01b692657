-- Purpose: enters each score that is newer than the one in the table, and ignores the others.
-- Arguments: for each row owner_id, score, up_version. The rows come in key order.
-- Result: none.
-- MySQL assigns from left to right, so the version comes last.
INSERT INTO `{stem}_toy` (owner_id, score, up_version)
VALUES {each (?, ?, ?)}
ON DUPLICATE KEY UPDATE
    score      = IF(VALUES(up_version) > up_version, VALUES(score), score),
    up_version = GREATEST(VALUES(up_version), up_version)
