-- Purpose: reads which of the oldest events of a partition are older than an age.
-- Arguments: partition_id, most events, age in seconds.
-- Result: epoch, number.
SELECT epoch, number
FROM (
    SELECT epoch, number, landed_at
    FROM `{stem}_event`
    WHERE partition_id = ?
    ORDER BY epoch, number
    LIMIT ?
) AS oldest
WHERE landed_at < CURRENT_TIMESTAMP(3) - INTERVAL ? SECOND
ORDER BY epoch, number
