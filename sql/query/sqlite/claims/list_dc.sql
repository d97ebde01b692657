-- Purpose: reads all shards of a service in one data centre, in the order of their keys. Nothing is locked.
-- Arguments: service, dc.
-- Result: dc, plan, range_begin, token, beat, holder, transitions, how long ago the shard was claimed and its claim was renewed
--   in milliseconds.
SELECT dc, plan, range_begin, token, beat, holder, transitions,
    MAX(CAST(ROUND((julianday('now') - julianday(claimed_at)) * 86400000) AS INTEGER), 0) AS claimed_ms,
    MAX(CAST(ROUND((julianday('now') - julianday(renewed_at)) * 86400000) AS INTEGER), 0) AS renewed_ms
FROM `{stem}_shard`
WHERE service = ? AND dc = ?
ORDER BY service, dc, plan, range_begin
