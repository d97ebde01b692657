-- Purpose: stores how far the feed of a partition reaches.
-- Arguments: partition_id, epoch and number of the last event.
-- Result: none.
-- The fence of the partition is held, so nobody else changes the record.
INSERT INTO `{stem}_feed` (partition_id, epoch, number, trimmed_epoch, trimmed_number)
VALUES (?, ?, ?, 0, 0)
ON DUPLICATE KEY UPDATE epoch = VALUES(epoch), number = VALUES(number)
