-- Purpose: raises the epoch of partitions. The transaction has locked their records, and has compared
--   each with the one that was seen.
-- Arguments: the new epoch. Then each partition_id.
-- Result: the number of raised records.
-- Without the hint a server reads the whole of a small table, and waits for the landings of other partitions.
UPDATE `{stem}_partition` FORCE INDEX (PRIMARY)
SET epoch = ?
WHERE partition_id IN ({each ?})
