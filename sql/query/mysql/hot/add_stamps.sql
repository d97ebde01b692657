-- Purpose: creates missing stamps of partitions, and locks the stamps until the transaction ends.
-- Arguments: each partition_id, ascending.
-- Result: none.
INSERT INTO `{stem}_stamp` (partition_id, stamp, hot)
VALUES {each (?, 0, 0)}
ON DUPLICATE KEY UPDATE stamp = stamp
