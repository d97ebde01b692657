-- Purpose: stores that a hot tier is used now.
-- Arguments: the number of its incarnation.
-- Result: one matched row, or none if that was stored within the last second.
UPDATE `{stem}_hot` SET seen_at = UTC_TIMESTAMP(3)
WHERE id = ? AND seen_at < UTC_TIMESTAMP(3) - INTERVAL 1 SECOND
