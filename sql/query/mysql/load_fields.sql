-- Purpose: reads the rows of some fields of one owner.
-- Arguments: app_id, region_id, logic_type, owner_id. Then each field.
-- Result: owner_id, field, value, up_version, is_del.
SELECT owner_id, field, value, up_version, is_del
FROM `{table}` FORCE INDEX (PRIMARY)
WHERE app_id = ? AND region_id = ? AND logic_type = ? AND owner_id = ? AND field IN ({each ?})
