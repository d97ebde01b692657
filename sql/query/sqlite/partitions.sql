-- Purpose: reads the records of some partitions.
-- Arguments: each partition_id.
-- Result: partition_id, epoch, last_version, landed_epoch, the stamp of the last raise, the number of
--   the hot tier that it was for. Both are 0 for a partition that only older programs raised.
SELECT p.partition_id, p.epoch, p.last_version, p.landed_epoch, COALESCE(s.stamp, 0), COALESCE(s.hot, 0)
FROM `{stem}_partition` AS p LEFT JOIN `{stem}_stamp` AS s ON s.partition_id = p.partition_id
WHERE p.partition_id IN ({each ?})
