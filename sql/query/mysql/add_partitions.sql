-- Purpose: creates missing records of partitions, and locks the records until the transaction ends.
-- Arguments: each partition_id, ascending.
-- Result: none.
INSERT INTO `{stem}_partition` (partition_id, epoch, last_version, landed_epoch)
VALUES {each (?, 0, 0, 0)}
ON DUPLICATE KEY UPDATE epoch = epoch
