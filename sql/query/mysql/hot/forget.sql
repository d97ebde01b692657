-- Purpose: forgets a hot tier that nobody has used for a day.
-- Arguments: the number of its incarnation.
-- Result: the number of deleted rows.
DELETE FROM `{stem}_hot`
WHERE id = ? AND seen_at < UTC_TIMESTAMP(3) - INTERVAL 86400 SECOND
