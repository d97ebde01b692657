-- Purpose: reads all rows of many owners of one logic type.
-- Arguments: app_id, region_id, logic_type. Then each owner_id.
-- Result: owner_id, field, value, up_version, is_del.
SELECT owner_id, field, value, up_version, is_del
FROM `{table}` FORCE INDEX (PRIMARY)
WHERE app_id = ? AND region_id = ? AND logic_type = ? AND owner_id IN ({each ?})
