-- Purpose: forgets hot tiers that nobody has used for 30 days.
-- Arguments: the number of each incarnation.
-- Result: the number of deleted rows.
DELETE FROM `{stem}_hot`
WHERE id IN ({each ?}) AND seen_at < strftime('%Y-%m-%d %H:%M:%f', 'now', '-2592000 seconds')
