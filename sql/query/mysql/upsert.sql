-- Purpose: writes each row that is newer than the row in the table, and ignores the others.
-- Arguments: for each row app_id, region_id, logic_type, owner_id, field, value, up_version,
--   is_del. The rows come in key order.
-- Result: none. The number of affected rows can't tell an ignored row from an inserted one.
-- MySQL assigns from left to right, so the version comes last. Placed first, it would hide that the
-- row is newer, and the old value would stay under the new version. VALUES() is the only form that
-- MySQL 8, MySQL 9 and MariaDB all accept.
INSERT INTO `{table}` (app_id, region_id, logic_type, owner_id, field, value, up_version, is_del)
VALUES {each (?, ?, ?, ?, ?, ?, ?, ?)}
ON DUPLICATE KEY UPDATE
    value      = IF(VALUES(up_version) > up_version, VALUES(value), value),
    is_del     = IF(VALUES(up_version) > up_version, VALUES(is_del), is_del),
    updated_at = IF(VALUES(up_version) > up_version, CURRENT_TIMESTAMP(3), updated_at),
    up_version = GREATEST(VALUES(up_version), up_version)
