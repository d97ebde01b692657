-- Purpose: stores a fact about the whole database, in place of the one before.
-- Arguments: name, value.
-- Result: none.
INSERT INTO `{stem}_meta` (name, value)
VALUES (?, ?)
ON CONFLICT (name) DO UPDATE SET value = excluded.value
