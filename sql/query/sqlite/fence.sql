-- Purpose: proves that a partition's record is the one that was read with the batch, raises how far its landings
--   reach, and notes the epoch of this one.
-- Arguments: how far the batch reaches, partition_id, epoch, last_version as read.
-- Result: one row matched if the record is the same, none otherwise. A matched row counts also if nothing changes in it.
UPDATE `{stem}_partition`
SET last_version = MAX(last_version, ?), landed_epoch = epoch
WHERE partition_id = ? AND epoch = ? AND last_version = ?
