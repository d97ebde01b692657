-- Purpose: a fact of the whole database.
-- Arguments: name.
-- Result: value; no row if it was never stored.
SELECT value FROM `{stem}_meta` WHERE name = ?
