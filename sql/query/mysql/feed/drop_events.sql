-- Purpose: deletes the events of a partition up to a position.
-- Arguments: partition_id, epoch, epoch, number.
-- Result: none.
DELETE FROM `{stem}_event`
WHERE partition_id = ? AND (epoch < ? OR epoch = ? AND number <= ?)
