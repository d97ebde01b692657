-- Purpose: stores how far a sink has got in a partition. A position that is further already stays.
-- Arguments: name, partition_id, epoch and number of the last event that the sink has taken.
-- Result: none.
-- MySQL assigns from left to right, so the number is compared while the epoch is still the old one.
INSERT INTO `{stem}_sink` (name, partition_id, epoch, number)
VALUES (?, ?, ?, ?)
ON DUPLICATE KEY UPDATE
    number = IF(VALUES(epoch) > epoch OR VALUES(epoch) = epoch AND VALUES(number) > number, VALUES(number), number),
    epoch = GREATEST(VALUES(epoch), epoch)
