//! The statements and their texts.
//!
//! Each statement has one text. A statement with a list of rows has one text for each power of two
//! up to [`MANY_MAX`]. So there are few texts, and each connection prepares each of them once.

use std::collections::HashMap;
use std::sync::Arc;

use crate::split::MANY_MAX;

/// A statement for the database. Each has a file in `query/`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Statement {
    /// All rows of many owners.
    Load,
    /// The rows of one owner.
    LoadOne,
    /// Some rows of one owner.
    LoadFields,
    /// The newest row of one owner.
    LoadNewest,
    /// A page of the owners of one world and logic type.
    OwnersOfType,
    /// A page of the owners of all worlds.
    AllOwners,
    /// The records of some partitions.
    Partitions,
    /// Checks one partition's record.
    Fence,
    /// Writes some rows by version.
    Upsert,
    /// Creates and locks some partitions' records.
    AddPartitions,
    /// Raises some partitions' epochs.
    RaisePartitions,
    /// Raises all partitions' epochs.
    RaiseAll,
    /// Stores a fact about the whole database.
    AddMeta,
    /// Replaces such a fact.
    SwapMeta,
    /// Reads all such facts.
    ReadMeta,
    /// Tells whether any migration was ever applied.
    HasMigrations,
    /// The applied migrations.
    Migrations,
    /// Begins a transaction.
    Begin,
    /// Commits the transaction.
    Commit,
    /// Rolls the transaction back.
    Rollback,
}

impl Statement {
    /// Every statement.
    pub const ALL: [Self; 20] = [
        Self::Load,
        Self::LoadOne,
        Self::LoadFields,
        Self::LoadNewest,
        Self::OwnersOfType,
        Self::AllOwners,
        Self::Partitions,
        Self::Fence,
        Self::Upsert,
        Self::AddPartitions,
        Self::RaisePartitions,
        Self::RaiseAll,
        Self::AddMeta,
        Self::SwapMeta,
        Self::ReadMeta,
        Self::HasMigrations,
        Self::Migrations,
        Self::Begin,
        Self::Commit,
        Self::Rollback,
    ];
}

/// The names of the tables.
#[derive(Debug, Clone)]
pub(crate) struct Names {
    table: String,
    stem: String,
}

impl Names {
    /// The names for a table of rows. The caller has checked the table's name.
    pub(crate) fn new(table: &str) -> Self {
        Self {
            table: table.to_owned(),
            stem: table.strip_suffix("_rows").unwrap_or(table).to_owned(),
        }
    }

    /// The table of the applied migrations.
    pub(crate) fn migration(&self) -> String {
        format!("{}_migration", self.stem)
    }

    /// The template with the names filled in.
    pub(crate) fn fill(&self, template: &str) -> String {
        template
            .replace("{table}", &self.table)
            .replace("{stem}", &self.stem)
    }
}

/// The texts of one dialect for one set of names.
#[derive(Debug)]
pub(crate) struct Texts(HashMap<(Statement, usize), Arc<str>>);

impl Texts {
    /// Makes all texts from the dialect's templates.
    pub(crate) fn new(names: &Names, template: fn(Statement) -> &'static str) -> Self {
        let mut texts = HashMap::new();
        for statement in Statement::ALL {
            let text = names.fill(&without_header(template(statement)));
            #[cfg(any(test, feature = "sabotage"))]
            let text = crate::sabotage::spoil(statement, text);
            let Some((before, item, after)) = list(&text) else {
                texts.insert((statement, 1), Arc::from(text));
                continue;
            };
            for size in sizes() {
                let items = vec![item; size].join(", ");
                texts.insert(
                    (statement, size),
                    Arc::from(format!("{before}{items}{after}")),
                );
            }
        }
        Self(texts)
    }

    /// The text of a statement that takes `size` rows, a power of two. `size` is 1 for a statement
    /// without a list.
    pub(crate) fn get(&self, statement: Statement, size: usize) -> Option<Arc<str>> {
        self.0.get(&(statement, size)).cloned()
    }
}

/// The powers of two from [`MANY_MAX`] down to 1.
fn sizes() -> impl Iterator<Item = usize> {
    std::iter::successors(Some(MANY_MAX), |size| {
        Some(size / 2).filter(|&half| half > 0)
    })
}

/// The template without its comments, which the server does not need.
fn without_header(template: &str) -> String {
    template
        .lines()
        .filter(|line| !line.starts_with("--"))
        .collect::<Vec<_>>()
        .join("\n")
}

/// The text before `{each ITEM}`, the item, and the text after it.
fn list(text: &str) -> Option<(&str, &str, &str)> {
    let (before, rest) = text.split_once("{each ")?;
    let (item, after) = rest.split_once('}')?;
    Some((before, item, after))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_template_has_a_header_that_names_purpose_arguments_and_result() {
        for (dialect, template) in [
            ("mysql", crate::mysql::template as fn(_) -> _),
            ("sqlite", crate::sqlite::template),
        ] {
            for statement in Statement::ALL {
                let text: &str = template(statement);
                for word in ["-- Purpose: ", "-- Arguments: ", "-- Result: "] {
                    assert!(
                        text.contains(word),
                        "{dialect} {statement:?} lacks {word:?}"
                    );
                }
                assert!(
                    text.lines()
                        .skip_while(|line| line.starts_with("--"))
                        .all(|line| !line.contains("--"))
                );
            }
        }
    }

    #[test]
    fn both_dialects_take_the_same_arguments_in_lists_of_the_same_shape() {
        for statement in Statement::ALL {
            let shape = |template: &str| {
                let text = without_header(template);
                (
                    text.matches('?').count(),
                    list(&text)
                        .map(|(before, item, _)| (before.matches('?').count(), item.to_owned())),
                )
            };
            assert_eq!(
                shape(crate::mysql::template(statement)),
                shape(crate::sqlite::template(statement)),
                "{statement:?}"
            );
        }
    }

    #[test]
    fn a_list_is_repeated_for_each_power_of_two_and_names_are_filled_in() {
        let texts = Texts::new(&Names::new("game_rows"), crate::mysql::template);
        let text = texts.get(Statement::Partitions, 4).unwrap();
        assert!(
            text.ends_with("FROM `game_partition`\nWHERE partition_id IN (?, ?, ?, ?)"),
            "{text}"
        );
        assert!(
            texts.get(Statement::Upsert, 512).is_some()
                && texts.get(Statement::Upsert, 3).is_none()
        );
        assert!(!texts.0.values().any(|text| text.contains(['{', '}'])));
    }

    #[test]
    fn the_version_is_the_last_assignment_of_the_upsert() {
        let text = without_header(crate::mysql::template(Statement::Upsert));
        let last = text.lines().last().unwrap().trim();
        assert_eq!(
            last,
            "up_version = GREATEST(VALUES(up_version), up_version)"
        );
    }
}
