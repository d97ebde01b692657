-- Purpose: reads all shards of a service, in the order of their keys. Nothing is locked.
-- Arguments: service.
-- Result: dc, plan, range_begin, token, beat, holder, transitions, how long ago the shard was claimed and its claim was renewed
--   in milliseconds.
SELECT dc, plan, range_begin, token, beat, holder, transitions,
    GREATEST(TIMESTAMPDIFF(MICROSECOND, claimed_at, CURRENT_TIMESTAMP(3)) DIV 1000, 0) AS claimed_ms,
    GREATEST(TIMESTAMPDIFF(MICROSECOND, renewed_at, CURRENT_TIMESTAMP(3)) DIV 1000, 0) AS renewed_ms
FROM `{stem}_shard` FORCE INDEX (PRIMARY)
WHERE service = ?
ORDER BY service, dc, plan, range_begin
