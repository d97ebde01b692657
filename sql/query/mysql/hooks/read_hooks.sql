-- Purpose: reads the hooks that the database names.
-- Arguments: none.
-- Result: name, the number of its definitions, 1 if landings need it.
SELECT name, definitions, is_needed FROM `{stem}_hook` ORDER BY name
