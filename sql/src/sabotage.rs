//! Statements that break a rule on purpose, for `scripts/sabotage`.

use storage_model::sabotage::broken;

/// One change of a statement: the switch, the statement's name, a marker of its dialect's text, the part
/// to replace, and the replacement. The part occurs in the text exactly once.
type Break = (
    &'static str,
    &'static str,
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
        "upsert",
        SQLITE,
        "WHERE excluded.up_version > ",
        "WHERE 0 < ",
    ),
    (
        "R3-unguarded",
        "upsert",
        MYSQL,
        "IF(VALUES(up_version) > up_version, VALUES(value), value)",
        "VALUES(value)",
    ),
    (
        "R3-equal",
        "upsert",
        SQLITE,
        "excluded.up_version > ",
        "excluded.up_version >= ",
    ),
    // A landing of another hot tier commits in an epoch that a restored database gave twice.
    (
        "R14-unstamped",
        "fence",
        "",
        "WHERE partition_id = ?), 0) = ?",
        "WHERE partition_id = ?), 0) >= 0 * ?",
    ),
    // A claim takes a shard however it is by now, or one of another holder, or one of a holder that is alive.
    (
        "V3-compare",
        "claims/claim",
        "",
        "AND token = ? AND beat = ?",
        "AND (token = ? OR beat = ? OR 0 = 0)",
    ),
    (
        "V3-claimed",
        "claims/claim",
        "",
        "AND token = ? AND beat = ?",
        "AND (token = ? OR 0 = 0) AND beat = ?",
    ),
    (
        "V3-alive",
        "claims/claim",
        "",
        "AND token = ? AND beat = ?",
        "AND token = ? AND (beat = ? OR 0 = 0)",
    ),
    // The shards of a plan look like those of a dropped one.
    (
        "V3-dropped",
        "claims/add_plan",
        "",
        "(?, ?, ?, ?, ?)",
        "(?, ?, ?, ?, 0 * ?)",
    ),
    // A renewal keeps the claim of another server alive, and a release ends it.
    (
        "V3-token",
        "claims/renew",
        "",
        "AND token = ?",
        "AND (token = ? OR 0 = 0)",
    ),
    (
        "V3-release",
        "claims/release",
        "",
        "AND token = ?",
        "AND (token = ? OR 0 = 0)",
    ),
    // MySQL assigns from left to right, so the later comparisons find the new version.
    (
        "R3-version-first",
        "upsert",
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
pub(crate) fn spoil(statement: &str, text: String) -> String {
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
                "sabotage: {switch} is stale: {statement} must have {from:?} once"
            );
            text.replace(from, to)
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::classify::Dialect;
    use crate::registry;
    use crate::statement::without_header;

    #[test]
    fn every_break_fits_its_statement() {
        for (switch, statement, dialect, from, to) in BREAKS {
            let statement = registry::statements().find(|known| known.name == *statement);
            let templates = [Dialect::MySql, Dialect::Sqlite]
                .map(|dialect| statement.unwrap().template(dialect));
            let texts: Vec<_> = templates
                .iter()
                .filter(|text| text.contains(dialect))
                .collect();
            assert!(!texts.is_empty() && from != to, "{switch}");
            for text in texts {
                let statement = without_header(text);
                assert_eq!(
                    statement.matches(from).count(),
                    1,
                    "{switch}: {statement} must have {from:?} once"
                );
            }
        }
    }
}
