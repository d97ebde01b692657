-- Purpose: makes sure that these partitions have records.
-- Arguments: each partition_id, ascending.
-- Result: none.
INSERT INTO `{stem}_partition` (partition_id, epoch, last_version, landed_epoch)
VALUES {each (?, 0, 0, 0)}
ON CONFLICT (partition_id) DO NOTHING
