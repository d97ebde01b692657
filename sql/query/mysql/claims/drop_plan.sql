-- Purpose: deletes the shards of a plan, with their claims.
-- Arguments: service, dc, plan.
-- Result: the number of deleted rows.
-- Without the hint a server reads the whole of a small table, and waits for the claims of other shards.
DELETE s FROM `{stem}_shard` AS s FORCE INDEX (PRIMARY)
WHERE service = ? AND dc = ? AND plan = ?
