-- Purpose: stores how far a sink has got in a partition. A position that is further already stays.
-- Arguments: name, partition_id, epoch and number of the last event that the sink has taken.
-- Result: none.
INSERT INTO `{stem}_sink` (name, partition_id, epoch, number)
VALUES (?, ?, ?, ?)
ON CONFLICT (name, partition_id) DO UPDATE SET epoch = excluded.epoch, number = excluded.number
WHERE excluded.epoch > epoch OR excluded.epoch = epoch AND excluded.number > number
