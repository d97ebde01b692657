-- Purpose: the facts of the whole database.
-- Arguments: none.
-- Result: name, value; no row for a fact that was never stored.
SELECT name, value FROM `{stem}_meta`
