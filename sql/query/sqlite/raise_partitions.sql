-- Purpose: raises the epoch of partitions. The transaction has locked their records, and has compared
--   each with the one that was seen.
-- Arguments: the new epoch. Then each partition_id.
-- Result: the number of raised records.
UPDATE `{stem}_partition`
SET epoch = ?
WHERE partition_id IN ({each ?})
