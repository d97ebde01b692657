-- Purpose: makes a shard free that this token claims.
-- Arguments: service, dc, plan, range_begin, token.
-- Result: one matched row, or none if the token does not claim the shard.
UPDATE `{stem}_shard`
SET token = x''
WHERE service = ? AND dc = ? AND plan = ? AND range_begin = ? AND token = ?
