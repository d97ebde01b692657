-- The tables of a run reject a version that falls, and on demand one field of one owner.
CREATE TABLE poison (owner_id BLOB NOT NULL);

CREATE TRIGGER poisoned_insert BEFORE INSERT ON landing_rows
WHEN NEW.field = CAST('v' AS BLOB) AND EXISTS (SELECT 1 FROM poison WHERE owner_id = NEW.owner_id)
BEGIN
    SELECT RAISE(ABORT, 'poison');
END;

CREATE TRIGGER falling_version BEFORE UPDATE ON landing_rows
WHEN NEW.up_version < OLD.up_version
BEGIN
    SELECT RAISE(ABORT, 'a version falls');
END;
