-- Purpose: forgets that a sink has refused an event.
-- Arguments: name, partition_id, epoch and number of the event.
-- Result: none.
DELETE FROM `{stem}_sink_error`
WHERE name = ? AND partition_id = ? AND epoch = ? AND number = ?
