-- Purpose: drops the writes of the transaction.
-- Arguments: none.
-- Result: none.
ROLLBACK
