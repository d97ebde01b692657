-- Purpose: enters each score that is newer than the one in the table, and ignores the others.
-- Arguments: for each row owner_id, score, up_version. The rows come in key order.
-- Result: none.
INSERT INTO `{stem}_toy` (owner_id, score, up_version)
VALUES {each (?, ?, ?)}
ON CONFLICT (owner_id) DO UPDATE SET score = excluded.score, up_version = excluded.up_version
WHERE excluded.up_version > `{stem}_toy`.up_version
