//! All statements of all modules, and the hooks and parts of layers.

use std::sync::Arc;

use crate::claims::ClaimStore;
use crate::engine::{Database, Engine, Session};
use crate::hooks::Derive;
use crate::statement::Statement;
use crate::{
    claims, exec, feed, fence, hooks, hot, owners, pairing, partition, range, read, schema, sink,
    sweep, upsert,
};

/// The statements of each module that declares some.
const MODULES: &[&[&Statement]] = &[
    exec::STATEMENTS,
    schema::STATEMENTS,
    read::STATEMENTS,
    owners::STATEMENTS,
    range::STATEMENTS,
    partition::STATEMENTS,
    fence::STATEMENTS,
    upsert::STATEMENTS,
    pairing::STATEMENTS,
    hot::STATEMENTS,
    feed::STATEMENTS,
    sink::STATEMENTS,
    hooks::STATEMENTS,
    sweep::STATEMENTS,
    claims::STATEMENTS,
    #[cfg(feature = "toy")]
    crate::toy::STATEMENTS,
];

/// Every statement.
pub(crate) fn statements() -> impl Iterator<Item = &'static Statement> {
    MODULES.iter().copied().flatten().copied()
}

/// Every hook. The core has none of its own.
pub(crate) fn hooks<S: Session>() -> Vec<Arc<dyn Derive<S>>> {
    vec![
        #[cfg(feature = "toy")]
        Arc::new(crate::toy::Scores),
    ]
}

/// The parts of layers. A database of another kind, such as a model for tests, may lack them. They are lent
/// alone, since they work as long as the storage that they are of.
#[derive(Debug, Default)]
pub struct Layers {
    claims: Option<Arc<dyn ClaimStore>>,
    #[cfg(feature = "toy")]
    toy: Option<Arc<dyn crate::toy::ToyStore>>,
}

impl Layers {
    /// The plans of services that answer from shards, and the claims of their shards.
    #[must_use]
    pub fn claims(&self) -> Option<&dyn ClaimStore> {
        self.claims.as_deref()
    }

    /// The same parts, with these claims. For a database that does not run the statements.
    #[must_use]
    pub fn with_claims(mut self, claims: Arc<dyn ClaimStore>) -> Self {
        self.claims = Some(claims);
        self
    }

    /// The part of the toy layer.
    #[cfg(feature = "toy")]
    #[must_use]
    pub fn toy(&self) -> Option<&dyn crate::toy::ToyStore> {
        self.toy.as_deref()
    }

    /// The parts of all layers.
    pub(crate) fn of<E: Engine>(database: &Arc<Database<E>>) -> Self {
        Self {
            claims: Some(Arc::clone(database) as _),
            #[cfg(feature = "toy")]
            toy: Some(Arc::clone(database) as _),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;
    use crate::classify::Dialect;
    use crate::split::KEYS_MAX;
    use crate::statement::{Names, Texts, list, without_header};

    const DIALECTS: [(&str, Dialect); 2] = [("mysql", Dialect::MySql), ("sqlite", Dialect::Sqlite)];

    #[test]
    fn every_file_is_the_text_of_one_statement() {
        let names: Vec<&str> = statements().map(|statement| statement.name).collect();
        let declared: BTreeSet<&str> = names.iter().copied().collect();
        assert_eq!(declared.len(), names.len(), "a name is declared twice");
        for (dialect, _) in DIALECTS {
            let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
                .join("query")
                .join(dialect);
            let mut files = BTreeSet::new();
            collect(&folder, "", &mut files);
            let files: BTreeSet<&str> = files.iter().map(String::as_str).collect();
            assert_eq!(files, declared, "{dialect}");
        }
    }

    /// The names of the statements in this folder and the folders in it.
    fn collect(folder: &Path, prefix: &str, names: &mut BTreeSet<String>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = format!("{prefix}{}", path.file_stem().unwrap().display());
            if path.is_dir() {
                collect(&path, &format!("{name}/"), names);
            } else {
                names.insert(name);
            }
        }
    }

    #[test]
    fn every_template_has_a_header_that_names_purpose_arguments_and_result() {
        for (name, dialect) in DIALECTS {
            for statement in statements() {
                let text = statement.template(dialect);
                for word in ["-- Purpose: ", "-- Arguments: ", "-- Result: "] {
                    assert!(
                        text.contains(word),
                        "{name} {} lacks {word:?}",
                        statement.name
                    );
                }
                assert!(!without_header(text).contains("--"));
            }
        }
    }

    #[test]
    fn both_dialects_take_the_same_arguments_in_lists_of_the_same_shape() {
        for statement in statements() {
            let shape = |dialect| {
                let text = without_header(statement.template(dialect));
                let listed = list(&text)
                    .map(|(before, item, _)| (before.matches('?').count(), item.to_owned()));
                (text.matches('?').count(), listed)
            };
            assert_eq!(
                shape(Dialect::MySql),
                shape(Dialect::Sqlite),
                "{}",
                statement.name
            );
        }
    }

    /// The statements that change every row on purpose.
    const OF_ALL_ROWS: [&str; 3] = ["raise_all", "hot/stamp_all", "hooks/move_reaches"];

    #[test]
    fn every_update_and_every_delete_declares_the_index_that_finds_its_rows() {
        let is_change = |text: &str| text.starts_with("UPDATE") || text.starts_with("DELETE");
        for statement in statements() {
            let text = without_header(statement.template(Dialect::MySql));
            let is_planned = statement.plan.is_some() || OF_ALL_ROWS.contains(&statement.name);
            assert!(!is_change(&text) || is_planned, "{}", statement.name);
        }
    }

    #[test]
    fn a_list_of_keys_of_several_columns_is_short() {
        for statement in statements() {
            let text = without_header(statement.template(Dialect::MySql));
            let of_keys = text.contains(") IN ({each");
            assert_eq!(of_keys, statement.longest == KEYS_MAX, "{}", statement.name);
        }
    }

    #[test]
    fn no_text_has_a_gap_left() {
        for (name, dialect) in DIALECTS {
            let texts = Texts::new(&Names::new("game_rows"), dialect, statements());
            for statement in statements() {
                let text = texts.get(statement, 1).unwrap();
                assert!(!text.contains(['{', '}']), "{name} {text}");
            }
        }
    }
}
