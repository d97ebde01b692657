-- Purpose: begins a transaction; READ COMMITTED is set for the whole connection.
-- Arguments: none.
-- Result: none.
START TRANSACTION
