-- Purpose: claims a shard that still has the token and the beat that were seen.
-- Arguments: holder, holder, token, service, dc, plan, range_begin, the token that was seen, the beat that was seen.
-- Result: one matched row, or none if the shard is no longer as it was seen.
-- Behind 2^63 - 1, the greatest number of SQLite, beats go on with 1.
UPDATE `{stem}_shard`
SET transitions = transitions + CASE WHEN holder = ? THEN 0 ELSE 1 END,
    holder = ?, token = ?, beat = beat % 9223372036854775807 + 1,
    claimed_at = strftime('%Y-%m-%d %H:%M:%f', 'now'), renewed_at = strftime('%Y-%m-%d %H:%M:%f', 'now')
WHERE service = ? AND dc = ? AND plan = ? AND range_begin = ? AND token = ? AND beat = ?
