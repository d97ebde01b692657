-- Purpose: stores how far the feed of a partition reaches.
-- Arguments: partition_id, epoch and number of the last event.
-- Result: none.
INSERT INTO `{stem}_feed` (partition_id, epoch, number, trimmed_epoch, trimmed_number)
VALUES (?, ?, ?, 0, 0)
ON CONFLICT (partition_id) DO UPDATE SET epoch = excluded.epoch, number = excluded.number
