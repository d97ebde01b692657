//! Statements that break a rule on purpose, for `scripts/sabotage`.

use storage_model::sabotage::broken;

use crate::Statement;

/// One change of a statement: the switch, the statement, a marker of its dialect's text, the part
/// to replace, and the replacement. The part occurs in the text exactly once.
type Break = (
    &'static str,
    Statement,
    &'static str,
    &'static str,
    &'static str,
);

const SQLITE: &str = "ON CONFLICT";
const MYSQL: &str = "ON DUPLICATE KEY";

const BREAKS: &[Break] = &[
    // An older row replaces a newer one.
    (
        "R3-unguarded",
        Statement::Upsert,
        SQLITE,
        "WHERE excluded.up_version > ",
        "WHERE 0 < ",
    ),
    (
        "R3-unguarded",
        Statement::Upsert,
        MYSQL,
        "IF(VALUES(up_version) > up_version, VALUES(value), value)",
        "VALUES(value)",
    ),
    (
        "R3-equal",
        Statement::Upsert,
        SQLITE,
        "excluded.up_version > ",
        "excluded.up_version >= ",
    ),
    // An epoch is raised from any value.
    (
        "R14-raised-blindly",
        Statement::RaisePartitions,
        "",
        "WHERE epoch = ?",
        "WHERE epoch >= 0 * ?",
    ),
    // MySQL assigns from left to right, so the later comparisons find the new version.
    (
        "R3-version-first",
        Statement::Upsert,
        MYSQL,
        "UPDATE\n",
        "UPDATE\n    up_version = GREATEST(VALUES(up_version), up_version),\n",
    ),
];

/// The statement's text with the change of the chosen switch.
///
/// # Panics
/// The part to replace does not occur exactly once. Then the switch would break something else or
/// nothing.
pub(crate) fn spoil(statement: Statement, text: String) -> String {
    let of_text = BREAKS.iter().filter(|(switch, of, dialect, ..)| {
        *of == statement && text.contains(dialect) && broken(switch)
    });
    let breaks: Vec<_> = of_text.collect();
    breaks
        .into_iter()
        .fold(text, |text, (switch, _, _, from, to)| {
            assert_eq!(
                text.matches(from).count(),
                1,
                "sabotage: {switch} is stale: {statement:?} must have {from:?} once"
            );
            text.replace(from, to)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_break_fits_its_statement() {
        for (switch, statement, dialect, from, to) in BREAKS {
            let templates = [
                crate::mysql::template(*statement),
                crate::sqlite::template(*statement),
            ];
            let texts: Vec<_> = templates
                .iter()
                .filter(|text| text.contains(dialect))
                .collect();
            assert!(!texts.is_empty() && from != to, "{switch}");
            for text in texts {
                let statement = text
                    .lines()
                    .filter(|line| !line.starts_with("--"))
                    .collect::<Vec<_>>()
                    .join("\n");
                assert_eq!(
                    statement.matches(from).count(),
                    1,
                    "{switch}: {statement} must have {from:?} once"
                );
            }
        }
    }
}
