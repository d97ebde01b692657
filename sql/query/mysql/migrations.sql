-- Purpose: reads the versions of the completely applied migrations.
-- Arguments: none.
-- Result: version, ascending.
SELECT version FROM `{stem}_migration` WHERE success ORDER BY version
