-- Purpose: reads how far a sink has got in some partitions.
-- Arguments: name, each partition_id.
-- Result: partition_id, epoch and number of the last event that the sink has taken.
SELECT partition_id, epoch, number
FROM `{stem}_sink` FORCE INDEX (PRIMARY)
WHERE name = ? AND partition_id IN ({each ?})
