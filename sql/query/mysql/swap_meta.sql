-- Purpose: replaces a fact about the whole database, if the fact is still the seen one.
-- Arguments: the new value, name, the seen value.
-- Result: one matched row if the fact was the seen one, otherwise none.
UPDATE `{stem}_meta` SET value = ? WHERE name = ? AND value = ?
