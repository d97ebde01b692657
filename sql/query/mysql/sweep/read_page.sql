-- Purpose: reads a page of the table in key order, and which of its rows are purged and old.
-- Arguments: age in seconds. The last row of the page before, as app_id, app_id, region_id, app_id,
--   region_id, logic_type, app_id, region_id, logic_type, owner_id, app_id, region_id, logic_type,
--   owner_id, field. Empty texts select the first page. Then the most rows of the page.
-- Result: app_id, region_id, logic_type, owner_id, field, 1 if the row is purged and its last change
--   is older than the age.
-- The comparison names each column, because MySQL does not use the primary key for
-- a range of row constructors.
SELECT app_id, region_id, logic_type, owner_id, field,
    CASE WHEN is_del = 2 AND updated_at < CURRENT_TIMESTAMP(3) - INTERVAL ? SECOND THEN 1 ELSE 0 END AS is_due
FROM `{table}`
WHERE app_id > ?
    OR (app_id = ? AND region_id > ?)
    OR (app_id = ? AND region_id = ? AND logic_type > ?)
    OR (app_id = ? AND region_id = ? AND logic_type = ? AND owner_id > ?)
    OR (app_id = ? AND region_id = ? AND logic_type = ? AND owner_id = ? AND field > ?)
ORDER BY app_id, region_id, logic_type, owner_id, field
LIMIT ?
