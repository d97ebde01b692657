-- Purpose: reads the events that a sink has refused, after an event, in the order of their places.
-- Arguments: name, partition_id, partition_id, epoch, epoch, number, most events.
-- Result: partition_id, epoch, number, message.
SELECT partition_id, epoch, number, message
FROM `{stem}_sink_error`
WHERE name = ? AND (partition_id > ? OR partition_id = ? AND (epoch > ? OR epoch = ? AND number > ?))
ORDER BY partition_id, epoch, number
LIMIT ?
