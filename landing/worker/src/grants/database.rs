//! Statements for MySQL and MariaDB.

use super::PASSWORD;

/// The longest user name that MySQL takes.
const USER_CHARS_MAX: usize = 32;
const READER: &str = "_reader";

/// The statements that create a database, the user of game servers and workers, and a user that
/// only reads.
pub(super) fn statements(user: &str, database: &str) -> String {
    let start: String = user.chars().take(USER_CHARS_MAX - READER.len()).collect();
    let (reader, user) = (text(&format!("{start}{READER}")), text(user));
    let (made, granted) = (name(database), name(&pattern(database)));
    let escaped = if pattern(database) == database {
        String::new()
    } else {
        format!(
            "\n-- Where partial_revokes is on, a grant takes names as they are: write {made} in place of {granted}."
        )
    };
    format!(
        "\
-- In the database, as an administrator. '%' is any host; name those of your servers instead.{escaped}
CREATE DATABASE IF NOT EXISTS {made};
-- For game servers and workers. CREATE makes and upgrades the tables; DELETE clears away old events of the feed, rows of purged fields, and a migration that was cut.
CREATE USER IF NOT EXISTS {user}@'%' IDENTIFIED BY '{PASSWORD}';
GRANT CREATE, SELECT, INSERT, UPDATE, DELETE ON {granted}.* TO {user}@'%';
-- For commands that only read (status, errors, verify, export), also on a replica of the database.
CREATE USER IF NOT EXISTS {reader}@'%' IDENTIFIED BY '{PASSWORD}';
GRANT SELECT ON {granted}.* TO {reader}@'%';
"
    )
}

/// A name in backquotes.
fn name(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

/// A database's name in a grant. There, `_` and `%` are wildcards and need escapes.
fn pattern(database: &str) -> String {
    database.replace('_', "\\_").replace('%', "\\%")
}

/// Text in quotes.
fn text(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_escaped_and_a_grant_is_for_one_database() {
        let said = statements("o'neil", "my_game`s");
        assert!(
            said.contains("CREATE DATABASE IF NOT EXISTS `my_game``s`;"),
            "{said}"
        );
        assert!(
            said.contains("ON `my\\_game``s`.* TO 'o''neil'@'%';"),
            "{said}"
        );
        assert!(
            said.contains("GRANT SELECT ON `my\\_game``s`.* TO 'o''neil_reader'@'%';"),
            "{said}"
        );
        assert!(
            said.contains("partial_revokes is on")
                && said.contains("write `my_game``s` in place of"),
            "{said}"
        );
        assert!(
            !statements("game", "game").contains("partial_revokes"),
            "no name needs an escape"
        );
        let long = statements(&"u".repeat(32), "game");
        assert!(
            long.contains(&format!("'{}_reader'", "u".repeat(25))),
            "{long}"
        );
    }
}
