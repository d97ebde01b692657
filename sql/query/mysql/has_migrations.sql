-- Purpose: whether the table exists that lists the applied migrations.
-- Arguments: its name.
-- Result: 1 if it exists; no row otherwise.
SELECT 1 FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = ?
