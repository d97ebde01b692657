-- Purpose: reads the leads of a partition from before an epoch.
-- Arguments: partition_id, epoch.
-- Result: app_id, region_id, logic_type, owner_id, epoch, number.
SELECT app_id, region_id, logic_type, owner_id, epoch, number
FROM `{stem}_lead`
WHERE partition_id = ? AND epoch < ?
