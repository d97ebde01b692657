-- Purpose: begins a transaction. The connection has READ COMMITTED for all transactions.
-- Arguments: none.
-- Result: none.
START TRANSACTION
