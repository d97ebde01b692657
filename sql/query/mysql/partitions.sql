-- Purpose: reads the records of some partitions.
-- Arguments: each partition_id.
-- Result: partition_id, epoch, last_version, landed_epoch.
SELECT partition_id, epoch, last_version, landed_epoch
FROM `{stem}_partition` FORCE INDEX (PRIMARY)
WHERE partition_id IN ({each ?})
