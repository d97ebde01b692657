-- The hot tier's keys have layout 2, with one mark an owner. `landing-worker migrate` has made sure that no mark of layout 1 is left.
UPDATE `{stem}_meta` SET value = CAST('2' AS BLOB) WHERE name = CAST('layout' AS BLOB) AND value = CAST('1' AS BLOB);
