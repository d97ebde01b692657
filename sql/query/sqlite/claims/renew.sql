-- Purpose: raises the beat of a shard that this token claims.
-- Arguments: service, dc, plan, range_begin, token.
-- Result: one matched row, or none if the token does not claim the shard.
-- Behind 2^63 - 1, the greatest number of SQLite, beats go on with 1.
UPDATE `{stem}_shard`
SET beat = beat % 9223372036854775807 + 1, renewed_at = strftime('%Y-%m-%d %H:%M:%f', 'now')
WHERE service = ? AND dc = ? AND plan = ? AND range_begin = ? AND token = ?
