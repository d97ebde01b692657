-- Purpose: makes the transaction's writes durable and visible.
-- Arguments: none.
-- Result: none.
COMMIT
