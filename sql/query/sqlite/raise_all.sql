-- Purpose: raises the epoch of each partition with a record, because another hot tier takes over.
-- Arguments: none.
-- Result: the number of raised records.
-- The statement waits for the landings under way. No landing that read an earlier epoch commits
-- after it.
UPDATE `{stem}_partition` SET epoch = epoch + 1
