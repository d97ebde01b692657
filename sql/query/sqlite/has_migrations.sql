-- Purpose: tells whether the table of applied migrations exists.
-- Arguments: the name of the table.
-- Result: one row with 1 if the table exists, otherwise no row.
SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = CAST(? AS TEXT)
