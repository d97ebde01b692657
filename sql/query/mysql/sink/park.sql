-- Purpose: stores that a sink has refused an event, with the reason. A later reason replaces an earlier one.
-- Arguments: name, partition_id, epoch and number of the event, message.
-- Result: none.
INSERT INTO `{stem}_sink_error` (name, partition_id, epoch, number, message)
VALUES (?, ?, ?, ?, ?)
ON DUPLICATE KEY UPDATE message = VALUES(message)
