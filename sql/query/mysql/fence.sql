-- Purpose: proves that a partition's record is the one that was read with the batch, and that the
--   hooks have the definitions that the writers know. Raises the reach of its landings, and stores
--   the epoch of this landing.
-- Arguments: the reach of the batch, partition_id, epoch, last_version as read, partition_id, the stamp
--   of the epoch, the number of definitions.
-- Result: one matched row if all are the same, otherwise none. An unchanged row counts, too.
-- The record stays locked until the transaction ends. So landings of one partition follow each
-- other, and a raise of the epoch waits for them.
UPDATE `{stem}_partition`
SET last_version = GREATEST(last_version, ?), landed_epoch = epoch
WHERE partition_id = ? AND epoch = ? AND last_version = ?
  AND COALESCE((SELECT stamp FROM `{stem}_stamp` WHERE partition_id = ?), 0) = ?
  AND (SELECT COALESCE(SUM(definitions), 0) FROM `{stem}_hook`) = ?
