-- Purpose: raises the epoch of the partitions that still have the seen epoch.
-- Arguments: the new epoch, the seen epoch. Then each partition_id.
-- Result: the number of raised records.
UPDATE `{stem}_partition`
SET epoch = ?
WHERE epoch = ? AND partition_id IN ({each ?})
