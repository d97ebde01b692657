-- Purpose: deletes the rows among these that are purged and old.
-- Arguments: age in seconds. For each row app_id, region_id, logic_type, owner_id, field.
-- Result: the number of deleted rows.
-- Without the hint a server reads the whole of a small table, and waits for the rows of other partitions.
DELETE r FROM `{table}` AS r FORCE INDEX (PRIMARY)
WHERE is_del = 2
  AND updated_at < CURRENT_TIMESTAMP(3) - INTERVAL ? SECOND
  AND (app_id, region_id, logic_type, owner_id, field) IN ({each (?, ?, ?, ?, ?)})
