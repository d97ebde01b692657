-- Purpose: raises the epoch of those partitions that still have the one that was seen.
-- Arguments: new epoch; epoch as seen; then each partition_id.
-- Result: the number of raised records.
UPDATE `{stem}_partition`
SET epoch = ?
WHERE epoch = ? AND partition_id IN ({each ?})
