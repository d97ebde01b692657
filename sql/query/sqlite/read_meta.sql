-- Purpose: reads the facts about the whole database.
-- Arguments: none.
-- Result: name, value. A fact that was never stored has no row.
SELECT name, value FROM `{stem}_meta`
