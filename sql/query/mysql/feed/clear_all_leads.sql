-- Purpose: deletes the leads of a partition up to a gap, whose event tells of all owners.
-- Arguments: partition_id, epoch, epoch and number of the gap.
-- Result: none.
DELETE FROM `{stem}_lead`
WHERE partition_id = ? AND (epoch < ? OR epoch = ? AND number <= ?)
