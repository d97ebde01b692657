-- Purpose: claims a shard that still has the token and the beat that were seen.
-- Arguments: holder, holder, token, service, dc, plan, range_begin, the token that was seen, the beat that was seen.
-- Result: one matched row, or none if the shard is no longer as it was seen.
-- Behind 2^63 - 1, the greatest number of SQLite, beats go on with 1.
-- MySQL assigns from left to right, so the holder is compared before it is replaced.
-- Without the hint a server reads the whole of a small table, and waits for the claims of other shards.
UPDATE `{stem}_shard` FORCE INDEX (PRIMARY)
SET transitions = transitions + CASE WHEN holder = ? THEN 0 ELSE 1 END,
    holder = ?, token = ?, beat = beat % 9223372036854775807 + 1,
    claimed_at = CURRENT_TIMESTAMP(3), renewed_at = CURRENT_TIMESTAMP(3)
WHERE service = ? AND dc = ? AND plan = ? AND range_begin = ? AND token = ? AND beat = ?
