-- Purpose: whether the table exists that lists the applied migrations.
-- Arguments: its name.
-- Result: 1 if it exists; no row otherwise.
SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = CAST(? AS TEXT)
