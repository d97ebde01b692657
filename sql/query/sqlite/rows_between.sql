-- Purpose: reads rows of the owners of one logic type whose ids lie between two texts, in the order of the ids.
-- Arguments: app_id, region_id, logic_type, the first owner_id, the owner_id behind the last, is_del. Then each
--   field. Then the most rows.
-- Result: owner_id, field, value, up_version, is_del.
SELECT owner_id, field, value, up_version, is_del
FROM `{table}`
WHERE app_id = ? AND region_id = ? AND logic_type = ? AND owner_id >= ? AND owner_id < ? AND is_del = ?
    AND field IN ({each ?})
ORDER BY app_id, region_id, logic_type, owner_id
LIMIT ?
