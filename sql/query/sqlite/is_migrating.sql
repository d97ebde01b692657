-- Purpose: tells whether a program is creating or upgrading the tables. All migrations are one transaction here, so no other program sees a part.
-- Arguments: the end of the lock's name.
-- Result: one row with 1 if the lock is held, otherwise no row.
SELECT 1 WHERE FALSE AND ? IS NOT NULL
