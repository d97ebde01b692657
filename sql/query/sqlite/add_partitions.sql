-- Purpose: creates missing records of partitions.
-- Arguments: each partition_id, ascending.
-- Result: none.
-- The transaction holds the lock of the whole database already.
INSERT INTO `{stem}_partition` (partition_id, epoch, last_version, landed_epoch)
VALUES {each (?, 0, 0, 0)}
ON CONFLICT (partition_id) DO NOTHING
