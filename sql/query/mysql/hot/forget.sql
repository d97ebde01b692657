-- Purpose: forgets a hot tier that nobody has used for 30 days.
-- Arguments: the number of its incarnation.
-- Result: the number of deleted rows.
DELETE FROM `{stem}_hot`
WHERE id = ? AND seen_at < UTC_TIMESTAMP(3) - INTERVAL 2592000 SECOND
