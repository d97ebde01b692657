-- Purpose: as read_items, against the order of ids.
-- Arguments: app_id, region_id, logic_type, the first owner_id, the owner_id behind the
--   last, field, is_del, the most rows.
-- Result: owner_id, field, value, up_version, is_del.
SELECT owner_id, field, value, up_version, is_del
FROM `{table}`
WHERE app_id = ? AND region_id = ? AND logic_type = ? AND owner_id >= ? AND owner_id < ? AND field = ?
    AND is_del = ?
ORDER BY app_id DESC, region_id DESC, logic_type DESC, owner_id DESC
LIMIT ?
