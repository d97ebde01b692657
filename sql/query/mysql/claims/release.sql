-- Purpose: makes a shard free that this token claims.
-- Arguments: service, dc, plan, range_begin, token.
-- Result: one matched row, or none if the token does not claim the shard.
-- Without the hint a server reads the whole of a small table, and waits for the claims of other shards.
UPDATE `{stem}_shard` FORCE INDEX (PRIMARY)
SET token = ''
WHERE service = ? AND dc = ? AND plan = ? AND range_begin = ? AND token = ?
