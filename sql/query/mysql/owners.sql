-- Purpose: a page of the owners of one world that have a live row, in key order.
-- Arguments: app_id, region_id, then after what: logic_type, logic_type, owner_id (empty: from the beginning), the most owners.
-- Result: app_id, region_id, logic_type, owner_id.
SELECT app_id, region_id, logic_type, owner_id
FROM `{table}`
WHERE app_id = ? AND region_id = ? AND (logic_type > ? OR (logic_type = ? AND owner_id > ?)) AND is_del = 0
GROUP BY app_id, region_id, logic_type, owner_id
ORDER BY app_id, region_id, logic_type, owner_id
LIMIT ?
