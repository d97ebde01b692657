-- Purpose: writes each row that is newer than the row in the table, and ignores the others.
-- Arguments: for each row app_id, region_id, logic_type, owner_id, field, value, up_version,
--   is_del. The rows come in key order.
-- Result: none.
INSERT INTO `{table}` (app_id, region_id, logic_type, owner_id, field, value, up_version, is_del)
VALUES {each (?, ?, ?, ?, ?, ?, ?, ?)}
ON CONFLICT (app_id, region_id, logic_type, owner_id, field) DO UPDATE SET
    value      = excluded.value,
    is_del     = excluded.is_del,
    updated_at = strftime('%Y-%m-%d %H:%M:%f', 'now'),
    up_version = excluded.up_version
WHERE excluded.up_version > `{table}`.up_version
