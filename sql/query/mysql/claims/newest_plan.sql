-- Purpose: reads the greatest number of a plan of a service in a data centre.
-- Arguments: service, dc.
-- Result: plan. No row if there is no plan.
SELECT plan
FROM `{stem}_shard`
WHERE service = ? AND dc = ?
ORDER BY plan DESC
LIMIT 1
