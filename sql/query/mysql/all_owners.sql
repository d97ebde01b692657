-- Purpose: reads a page of the owners of all worlds that have a live row, in key order.
-- Arguments: the last owner of the page before, as app_id, app_id, region_id, app_id, region_id,
--   logic_type, app_id, region_id, logic_type, owner_id. Empty texts select the first page.
--   Then the most owners of the page.
-- Result: app_id, region_id, logic_type, owner_id.
-- The comparison names each column, because MySQL does not use the primary key for
-- a range of row constructors.
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
