-- Purpose: adds shards of a plan. They are free.
-- Arguments: for each shard service, dc, plan, range_begin, the first beat. The shards come in key order.
-- Result: none.
INSERT INTO `{stem}_shard` (service, dc, plan, range_begin, beat)
VALUES {each (?, ?, ?, ?, ?)}
