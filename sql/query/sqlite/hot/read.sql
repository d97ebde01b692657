-- Purpose: reads the hot tiers, the latest first.
-- Arguments: none.
-- Result: the number of the incarnation, the address, for how long it has been known and how long ago
--   it was used in milliseconds, the number of its partitions.
SELECT id, address, MAX(CAST(ROUND((julianday('now') - julianday(since)) * 86400000) AS INTEGER), 0) AS since_ms,
    MAX(CAST(ROUND((julianday('now') - julianday(seen_at)) * 86400000) AS INTEGER), 0) AS seen_ms,
    (SELECT COUNT(*) FROM `{stem}_stamp` WHERE hot = id) AS partitions
FROM `{stem}_hot`
ORDER BY since DESC
