-- Purpose: a page of the owners of all worlds that have a live row, in key order.
-- Arguments: after what: app_id, app_id, region_id, app_id, region_id, logic_type, app_id, region_id, logic_type, owner_id
--            (empty: from the beginning), the most owners.
-- Result: app_id, region_id, logic_type, owner_id.
-- The comparison of four columns is written out, since a row constructor in a range does not use the primary key.
SELECT app_id, region_id, logic_type, owner_id
FROM `{table}`
WHERE (app_id > ?
    OR (app_id = ? AND region_id > ?)
    OR (app_id = ? AND region_id = ? AND logic_type > ?)
    OR (app_id = ? AND region_id = ? AND logic_type = ? AND owner_id > ?))
    AND is_del = 0
GROUP BY app_id, region_id, logic_type, owner_id
ORDER BY app_id, region_id, logic_type, owner_id
LIMIT ?
