-- Purpose: deletes the leads of owners that readers were told to read again.
-- Arguments: partition_id, epoch, epoch and number of the event. For each owner app_id, region_id,
--   logic_type, owner_id.
-- Result: none.
-- Without the hint a server reads the whole of a small table, and waits for the rows of other partitions.
DELETE l FROM `{stem}_lead` AS l FORCE INDEX (PRIMARY)
WHERE partition_id = ? AND (epoch < ? OR epoch = ? AND number <= ?)
  AND (app_id, region_id, logic_type, owner_id) IN ({each (?, ?, ?, ?)})
