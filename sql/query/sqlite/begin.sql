-- Purpose: begins a transaction that writes. It waits for another writer here.
--   A transaction that becomes a writer later can't wait.
-- Arguments: none.
-- Result: none.
BEGIN IMMEDIATE
