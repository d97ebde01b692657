-- Purpose: the newest row of one owner, which tells its version; of equally new ones the first.
-- Arguments: app_id, region_id, logic_type, owner_id.
-- Result: owner_id, field, value, up_version, is_del.
SELECT owner_id, field, value, up_version, is_del
FROM `{table}`
WHERE app_id = ? AND region_id = ? AND logic_type = ? AND owner_id = ?
ORDER BY up_version DESC, field
LIMIT 1
