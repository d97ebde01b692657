-- Purpose: proves that a partition's record is the one that was read with the batch, and raises its highest landed version.
-- Arguments: the batch's highest version, partition_id, epoch, last_version as read.
-- Result: one row matched if the record is the same, none otherwise. A matched row counts also if nothing changes in it.
UPDATE `{stem}_partition`
SET last_version = MAX(last_version, ?)
WHERE partition_id = ? AND epoch = ? AND last_version = ?
