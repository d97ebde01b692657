-- Purpose: begins a transaction that writes. Waits for another writer here; a transaction that turns into a writer later cannot.
-- Arguments: none.
-- Result: none.
BEGIN IMMEDIATE
