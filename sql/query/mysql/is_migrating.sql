-- Purpose: tells whether a program is creating or upgrading the tables.
-- Arguments: the end of the lock's name.
-- Result: one row with 1 if the lock is held, otherwise no row.
SELECT 1 FROM DUAL WHERE IS_USED_LOCK(CONCAT(LEFT(DATABASE(), 12), '/', ?)) IS NOT NULL
