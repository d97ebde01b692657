-- Purpose: replaces a fact of the whole database, if it still is the one that was seen.
-- Arguments: new value, name, value as seen.
-- Result: one row matched if it was.
UPDATE `{stem}_meta` SET value = ? WHERE name = ? AND value = ?
