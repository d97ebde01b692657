-- Purpose: adds events to the feeds of partitions.
-- Arguments: for each event partition_id, epoch, number, kind, app_id, region_id, logic_type,
--   owner_id, up_version, previous, counters, body. The events come in key order.
-- Result: none.
INSERT INTO `{stem}_event` (partition_id, epoch, number, kind, app_id, region_id, logic_type, owner_id, up_version, previous, counters, body)
VALUES {each (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)}
