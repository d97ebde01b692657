-- Purpose: reads the hot tiers, the latest first.
-- Arguments: none.
-- Result: the number of the incarnation, the address, for how long it has been known and how long ago
--   it was used in milliseconds, the number of its partitions.
SELECT id, address, GREATEST(TIMESTAMPDIFF(MICROSECOND, since, UTC_TIMESTAMP(3)) DIV 1000, 0) AS since_ms,
    GREATEST(TIMESTAMPDIFF(MICROSECOND, seen_at, UTC_TIMESTAMP(3)) DIV 1000, 0) AS seen_ms,
    (SELECT COUNT(*) FROM `{stem}_stamp` WHERE hot = id) AS partitions
FROM `{stem}_hot`
ORDER BY since DESC
