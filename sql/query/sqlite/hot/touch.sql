-- Purpose: stores that a hot tier is used now.
-- Arguments: the number of its incarnation.
-- Result: one matched row, or none if that was stored within the last second.
UPDATE `{stem}_hot` SET seen_at = strftime('%Y-%m-%d %H:%M:%f', 'now')
WHERE id = ? AND seen_at < strftime('%Y-%m-%d %H:%M:%f', 'now', '-1 seconds')
