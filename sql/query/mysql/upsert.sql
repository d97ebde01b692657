-- Purpose: writes each row that is newer than what the table holds; leaves the others as they are.
-- Arguments: for each row app_id, region_id, logic_type, owner_id, field, value, up_version, is_del; in key order.
-- Result: none; the number of affected rows cannot tell an ignored row from an inserted one.
-- Assignments run from left to right, so the version comes last: placed first, it would hide that the row is newer, and the old
-- value would stay under the new version. VALUES() is the one form that MySQL 8, MySQL 9 and MariaDB all take.
INSERT INTO `{table}` (app_id, region_id, logic_type, owner_id, field, value, up_version, is_del)
VALUES {each (?, ?, ?, ?, ?, ?, ?, ?)}
ON DUPLICATE KEY UPDATE
    value      = IF(VALUES(up_version) > up_version, VALUES(value), value),
    is_del     = IF(VALUES(up_version) > up_version, VALUES(is_del), is_del),
    updated_at = IF(VALUES(up_version) > up_version, CURRENT_TIMESTAMP(3), updated_at),
    up_version = GREATEST(VALUES(up_version), up_version)
