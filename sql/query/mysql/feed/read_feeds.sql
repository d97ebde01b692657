-- Purpose: reads how far the feeds of some partitions reach.
-- Arguments: each partition_id.
-- Result: partition_id, epoch and number of the last event, epoch and number of the last event that
--   was dropped for its age.
SELECT partition_id, epoch, number, trimmed_epoch, trimmed_number
FROM `{stem}_feed` FORCE INDEX (PRIMARY)
WHERE partition_id IN ({each ?})
