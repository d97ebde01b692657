-- Purpose: tells whether a table exists.
-- Arguments: the name of the table.
-- Result: one row with 1 if the table exists, otherwise no row.
SELECT 1 FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = ?
