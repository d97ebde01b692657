-- Purpose: reads the rows of one owner, up to one row above the limit of the caller.
-- Arguments: app_id, region_id, logic_type, owner_id, the most rows.
-- Result: owner_id, field, value, up_version, is_del, by field.
SELECT owner_id, field, value, up_version, is_del
FROM `{table}`
WHERE app_id = ? AND region_id = ? AND logic_type = ? AND owner_id = ?
ORDER BY field
LIMIT ?
