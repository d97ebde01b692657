-- Purpose: stores a fact about the whole database, unless the fact is stored already.
-- Arguments: name, value.
-- Result: none.
INSERT INTO `{stem}_meta` (name, value)
VALUES (?, ?)
ON CONFLICT (name) DO NOTHING
