-- Purpose: counts the events that a sink has refused.
-- Arguments: name.
-- Result: the count.
SELECT COUNT(*)
FROM `{stem}_sink_error`
WHERE name = ?
