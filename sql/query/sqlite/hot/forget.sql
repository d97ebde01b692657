-- Purpose: forgets a hot tier that nobody has used for a day.
-- Arguments: the number of its incarnation.
-- Result: the number of deleted rows.
DELETE FROM `{stem}_hot`
WHERE id = ? AND seen_at < strftime('%Y-%m-%d %H:%M:%f', 'now', '-86400 seconds')
