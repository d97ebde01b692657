-- Purpose: raises the epoch of every partition that has a record, since another hot tier takes over.
-- Arguments: none.
-- Result: the number of raised records.
-- Waits for the landings under way. No landing that read an earlier epoch commits after it.
UPDATE `{stem}_partition` SET epoch = epoch + 1
