-- Purpose: moves how far the landings of each partition in use reach, because the definitions of a
--   hook have changed. Nothing lands under epoch 0.
-- Arguments: none.
-- Result: the number of moved records.
-- The statement waits for the landings under way. No landing that was collected before commits
-- after it.
UPDATE `{stem}_partition` SET last_version = last_version + 1 WHERE epoch > 0
