-- Purpose: as rows_between, against the order of ids.
-- Arguments: app_id, region_id, logic_type, the first owner_id, the owner_id behind the last, is_del. Then each
--   field. Then the most rows.
-- Result: owner_id, field, value, up_version, is_del.
SELECT owner_id, field, value, up_version, is_del
FROM `{table}`
WHERE app_id = ? AND region_id = ? AND logic_type = ? AND owner_id >= ? AND owner_id < ? AND is_del = ?
    AND field IN ({each ?})
ORDER BY app_id DESC, region_id DESC, logic_type DESC, owner_id DESC
LIMIT ?
