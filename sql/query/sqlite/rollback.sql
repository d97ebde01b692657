-- Purpose: gives the transaction's writes up.
-- Arguments: none.
-- Result: none.
ROLLBACK
