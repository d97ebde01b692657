-- Purpose: the versions of many rows, each found by its whole key.
-- Arguments: for each row app_id, region_id, logic_type, owner_id, field.
-- Result: app_id, region_id, logic_type, owner_id, field, up_version.
SELECT app_id, region_id, logic_type, owner_id, field, up_version
FROM `{table}`
WHERE (app_id, region_id, logic_type, owner_id, field) IN ({each (?, ?, ?, ?, ?)})
