-- Purpose: the migrations that were applied to their end.
-- Arguments: none.
-- Result: version; ascending.
SELECT version FROM `{stem}_migration` WHERE success ORDER BY version
