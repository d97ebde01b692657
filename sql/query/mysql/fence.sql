-- Purpose: proves that a partition's record is the one that was read with the batch, raises how far its landings
--   reach, and notes the epoch of this one.
-- Arguments: how far the batch reaches, partition_id, epoch, last_version as read.
-- Result: one row matched if the record is the same, none otherwise. A matched row counts also if nothing changes in it.
-- Locks the record until the transaction ends: landings of one partition follow each other, and raising an epoch waits for them.
UPDATE `{stem}_partition`
SET last_version = GREATEST(last_version, ?), landed_epoch = epoch
WHERE partition_id = ? AND epoch = ? AND last_version = ?
