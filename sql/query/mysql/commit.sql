-- Purpose: makes the writes of the transaction durable and visible.
-- Arguments: none.
-- Result: none.
COMMIT
