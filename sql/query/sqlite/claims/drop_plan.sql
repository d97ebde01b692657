-- Purpose: deletes the shards of a plan, with their claims.
-- Arguments: service, dc, plan.
-- Result: the number of deleted rows.
DELETE FROM `{stem}_shard`
WHERE service = ? AND dc = ? AND plan = ?
