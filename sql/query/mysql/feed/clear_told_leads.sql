-- Purpose: deletes the leads of owners that readers were told to read again.
-- Arguments: partition_id, epoch, epoch and number of the event. For each owner app_id, region_id,
--   logic_type, owner_id.
-- Result: none.
DELETE FROM `{stem}_lead`
WHERE partition_id = ? AND (epoch < ? OR epoch = ? AND number <= ?)
  AND (app_id, region_id, logic_type, owner_id) IN ({each (?, ?, ?, ?)})
