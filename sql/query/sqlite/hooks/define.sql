-- Purpose: counts a change of a hook's definitions. A hook without a record gets one.
-- Arguments: name, 1 if landings need the hook from now on.
-- Result: none.
INSERT INTO `{stem}_hook` (name, is_needed, definitions)
VALUES (?, ?, 1)
ON CONFLICT (name) DO UPDATE SET is_needed = excluded.is_needed, definitions = definitions + 1
