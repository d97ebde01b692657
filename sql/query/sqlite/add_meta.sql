-- Purpose: stores a fact of the whole database, unless it is stored already.
-- Arguments: name, value.
-- Result: none.
INSERT INTO `{stem}_meta` (name, value)
VALUES (?, ?)
ON CONFLICT (name) DO NOTHING
