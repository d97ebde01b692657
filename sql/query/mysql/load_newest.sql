-- Purpose: reads the newest row of one owner. Its version is the version of the owner.
--   Of several equally new rows the first by field counts.
-- Arguments: app_id, region_id, logic_type, owner_id.
-- Result: owner_id, field, value, up_version, is_del.
SELECT owner_id, field, value, up_version, is_del
FROM `{table}`
WHERE app_id = ? AND region_id = ? AND logic_type = ? AND owner_id = ?
ORDER BY up_version DESC, field
LIMIT 1
