-- The hot tier's keys have layout 2, with one mark an owner. `landing-worker migrate` has made sure that no mark of layout 1 is left.
UPDATE `{stem}_meta` SET value = '2' WHERE name = 'layout' AND value = '1';
