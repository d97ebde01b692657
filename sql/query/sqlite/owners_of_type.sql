-- Purpose: reads a page of the owners of one world and logic type that have a live row, in key
--   order.
-- Arguments: app_id, region_id, logic_type, the last owner_id of the page before, the most owners.
--   An empty owner_id selects the first page.
-- Result: app_id, region_id, logic_type, owner_id.
SELECT app_id, region_id, logic_type, owner_id
FROM `{table}`
WHERE app_id = ? AND region_id = ? AND logic_type = ? AND owner_id > ? AND is_del = 0
GROUP BY app_id, region_id, logic_type, owner_id
ORDER BY app_id, region_id, logic_type, owner_id
LIMIT ?
