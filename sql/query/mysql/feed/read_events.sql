-- Purpose: reads the events of a partition after a position, in their order.
-- Arguments: partition_id, epoch, epoch, number, most events.
-- Result: app_id, region_id, logic_type, owner_id, epoch, number, kind, up_version, previous,
--   counters, body.
SELECT app_id, region_id, logic_type, owner_id, epoch, number, kind, up_version, previous, counters, body
FROM `{stem}_event`
WHERE partition_id = ? AND (epoch > ? OR epoch = ? AND number > ?)
ORDER BY epoch, number
LIMIT ?
