-- Purpose: creates missing stamps of partitions.
-- Arguments: each partition_id, ascending.
-- Result: none.
INSERT INTO `{stem}_stamp` (partition_id, stamp, hot)
VALUES {each (?, 0, 0)}
ON CONFLICT (partition_id) DO NOTHING
