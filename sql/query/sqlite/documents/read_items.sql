-- Purpose: reads items of a collection in the order of their ids: owners of one logic type whose ids
--   lie between two texts, with one field each.
-- Arguments: app_id, region_id, logic_type, the first owner_id, the owner_id behind the
--   last, field, is_del, the most rows.
-- Result: owner_id, field, value, up_version, is_del.
SELECT owner_id, field, value, up_version, is_del
FROM `{table}`
WHERE app_id = ? AND region_id = ? AND logic_type = ? AND owner_id >= ? AND owner_id < ? AND field = ?
    AND is_del = ?
ORDER BY app_id, region_id, logic_type, owner_id
LIMIT ?
