-- Purpose: reads the records of some partitions.
-- Arguments: each partition_id.
-- Result: partition_id, epoch, last_version, landed_epoch, the stamp of the last raise, the number of
--   the hot tier that it was for. Both are 0 for a partition that only older programs raised.
SELECT p.partition_id, p.epoch, p.last_version, p.landed_epoch,
    CAST(COALESCE(s.stamp, 0) AS UNSIGNED), CAST(COALESCE(s.hot, 0) AS UNSIGNED)
FROM `{stem}_partition` AS p FORCE INDEX (PRIMARY) LEFT JOIN `{stem}_stamp` AS s FORCE INDEX (PRIMARY) ON s.partition_id = p.partition_id
WHERE p.partition_id IN ({each ?})
