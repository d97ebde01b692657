-- Purpose: raises the epoch of the partitions that still have the seen epoch.
-- Arguments: the new epoch, the seen epoch. Then each partition_id.
-- Result: the number of raised records.
-- Without the hint a server reads the whole of a small table, and waits for the landings of other partitions.
UPDATE `{stem}_partition` FORCE INDEX (PRIMARY)
SET epoch = ?
WHERE epoch = ? AND partition_id IN ({each ?})
