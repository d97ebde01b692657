-- Purpose: forgets hot tiers that nobody has used for 30 days.
-- Arguments: the number of each incarnation.
-- Result: the number of deleted rows.
DELETE FROM `{stem}_hot`
WHERE id IN ({each ?}) AND seen_at < UTC_TIMESTAMP(3) - INTERVAL 2592000 SECOND
