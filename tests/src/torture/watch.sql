-- The conditions that the database itself watches during a run, and the switch that makes it reject values. Lines of two dashes and
-- an equals sign separate the statements.
CREATE TABLE torture_switch (name VARCHAR(32) PRIMARY KEY) ENGINE = InnoDB;
--=
CREATE TABLE torture_flaw (
    id INT AUTO_INCREMENT PRIMARY KEY,
    what VARCHAR(32) NOT NULL,
    name VARBINARY(400) NOT NULL,
    held BIGINT UNSIGNED NOT NULL,
    came BIGINT UNSIGNED NOT NULL
) ENGINE = InnoDB;
--=
CREATE TRIGGER torture_insert BEFORE INSERT ON landing_rows FOR EACH ROW
BEGIN
    IF LEFT(NEW.value, 7) = 'poison-' AND EXISTS (SELECT 1 FROM torture_switch WHERE name = 'poison') THEN
        SIGNAL SQLSTATE '23000' SET MYSQL_ERRNO = 4025, MESSAGE_TEXT = 'this value is refused on purpose';
    END IF;
    IF EXISTS (
        SELECT 1 FROM landing_rows
        WHERE app_id = NEW.app_id AND region_id = NEW.region_id AND logic_type = NEW.logic_type AND owner_id = NEW.owner_id
          AND field = NEW.field AND up_version = NEW.up_version AND (value <> NEW.value OR is_del <> NEW.is_del)
    ) THEN
        INSERT INTO torture_flaw (what, name, held, came)
        VALUES ('two values of a version', CONCAT(NEW.logic_type, '/', NEW.owner_id, '/', NEW.field), NEW.up_version, NEW.up_version);
    END IF;
END
--=
CREATE TRIGGER torture_update BEFORE UPDATE ON landing_rows FOR EACH ROW
BEGIN
    IF NEW.up_version < OLD.up_version THEN
        INSERT INTO torture_flaw (what, name, held, came)
        VALUES ('a falling version', CONCAT(NEW.logic_type, '/', NEW.owner_id, '/', NEW.field), OLD.up_version, NEW.up_version);
    END IF;
    IF NEW.up_version = OLD.up_version AND (NEW.value <> OLD.value OR NEW.is_del <> OLD.is_del) THEN
        INSERT INTO torture_flaw (what, name, held, came)
        VALUES ('another value', CONCAT(NEW.logic_type, '/', NEW.owner_id, '/', NEW.field), OLD.up_version, NEW.up_version);
    END IF;
END
