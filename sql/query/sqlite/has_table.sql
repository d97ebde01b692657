-- Purpose: tells whether a table exists.
-- Arguments: the name of the table.
-- Result: one row with 1 if the table exists, otherwise no row.
SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = CAST(? AS TEXT)
