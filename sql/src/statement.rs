//! Statements and their texts.
//!
//! The module that runs a statement declares it with [`statement!`]. The
//! [registry](crate::registry) knows all of them.
//!
//! Each statement has one text for each dialect. A statement with a list of rows has one text for
//! each power of two up to [`MANY_MAX`]. So there are few texts, and each connection prepares each
//! of them once.

use std::collections::HashMap;
use std::sync::Arc;

use crate::classify::Dialect;
use crate::split::{KEYS_MAX, MANY_MAX};

/// A statement for the database.
#[derive(Debug)]
pub(crate) struct Statement {
    /// The name, for intercepts and errors.
    pub(crate) name: &'static str,
    mysql: &'static str,
    sqlite: &'static str,
    /// The most items of its list.
    pub(crate) longest: usize,
    #[cfg_attr(
        not(feature = "conformance"),
        expect(dead_code, reason = "only the suite compares plans")
    )]
    pub(crate) plan: Option<Plan>,
}

/// The plan that MySQL must choose for a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Plan {
    /// The index that finds the rows.
    pub(crate) index: &'static str,
    /// Whether the rows come in the order of the index, without a sort or a temporary table.
    pub(crate) ordered: bool,
}

/// The statement of this name. Its texts are the files `query/mysql/NAME.sql` and
/// `query/sqlite/NAME.sql`.
macro_rules! statement {
    ($name:literal) => {
        $crate::statement::Statement::new(
            $name,
            include_str!(concat!(
                env!("CARGO_MANIFEST_DIR"),
                "/query/mysql/",
                $name,
                ".sql"
            )),
            include_str!(concat!(
                env!("CARGO_MANIFEST_DIR"),
                "/query/sqlite/",
                $name,
                ".sql"
            )),
        )
    };
}
pub(crate) use statement;

impl Statement {
    /// A statement with these templates.
    pub(crate) const fn new(name: &'static str, mysql: &'static str, sqlite: &'static str) -> Self {
        Self {
            name,
            mysql,
            sqlite,
            longest: MANY_MAX,
            plan: None,
        }
    }

    /// The list compares several columns at once. MariaDB makes a table of a list of 1,000 values, and then reads the
    /// rows through no index.
    pub(crate) const fn by_keys(self) -> Self {
        Self {
            longest: KEYS_MAX,
            ..self
        }
    }

    /// MySQL must find the rows through this index.
    pub(crate) const fn through(self, index: &'static str) -> Self {
        let plan = Plan {
            index,
            ordered: false,
        };
        Self {
            plan: Some(plan),
            ..self
        }
    }

    /// MySQL must find the rows through this index, already in their order.
    pub(crate) const fn in_order_of(self, index: &'static str) -> Self {
        let plan = Plan {
            index,
            ordered: true,
        };
        Self {
            plan: Some(plan),
            ..self
        }
    }

    /// The text of this dialect, with its header, its list and the names of its tables unfilled.
    pub(crate) fn template(&self, dialect: Dialect) -> &'static str {
        match dialect {
            Dialect::MySql => self.mysql,
            Dialect::Sqlite => self.sqlite,
        }
    }
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

    /// The table of facts about the whole database.
    pub(crate) fn meta(&self) -> String {
        format!("{}_meta", self.stem)
    }

    /// The end of the name of the lock for migrations. A name has at most 64 characters, and begins
    /// with up to 12 of the database's name.
    pub(crate) fn migration_lock(&self) -> String {
        let table = self.migration();
        let start = table.len().saturating_sub(50);
        table.get(start..).unwrap_or(&table).to_owned()
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
pub(crate) struct Texts(HashMap<(&'static str, usize), Arc<str>>);

impl Texts {
    /// Makes all texts of these statements.
    pub(crate) fn new(
        names: &Names,
        dialect: Dialect,
        statements: impl Iterator<Item = &'static Statement>,
    ) -> Self {
        let mut texts = HashMap::new();
        for statement in statements {
            let name = statement.name;
            let text = names.fill(&without_header(statement.template(dialect)));
            #[cfg(any(test, feature = "sabotage"))]
            let text = crate::sabotage::spoil(name, text);
            let Some((before, item, after)) = list(&text) else {
                texts.insert((name, 1), Arc::from(text));
                continue;
            };
            for size in sizes(statement.longest) {
                let items = vec![item; size].join(", ");
                texts.insert((name, size), Arc::from(format!("{before}{items}{after}")));
            }
        }
        Self(texts)
    }

    /// The text of a statement that takes `size` rows, a power of two. `size` is 1 for a statement
    /// without a list.
    pub(crate) fn get(&self, statement: &Statement, size: usize) -> Option<Arc<str>> {
        self.0.get(&(statement.name, size)).cloned()
    }
}

/// The powers of two from this one down to 1.
fn sizes(longest: usize) -> impl Iterator<Item = usize> {
    std::iter::successors(Some(longest), |size| {
        Some(size / 2).filter(|&half| half > 0)
    })
}

/// The template without its comments, which the server does not need.
pub(crate) fn without_header(template: &str) -> String {
    template
        .lines()
        .filter(|line| !line.starts_with("--"))
        .collect::<Vec<_>>()
        .join("\n")
}

/// The text before `{each ITEM}`, the item, and the text after it.
pub(crate) fn list(text: &str) -> Option<(&str, &str, &str)> {
    let (before, rest) = text.split_once("{each ")?;
    let (item, after) = rest.split_once('}')?;
    Some((before, item, after))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_repeated_for_each_power_of_two_and_names_are_filled_in() {
        static LISTED: Statement = Statement::new(
            "listed",
            "-- Purpose: none.\nSELECT * FROM `{stem}_partition`\nWHERE id IN ({each ?})",
            "",
        );
        let names = Names::new("game_rows");
        let texts = Texts::new(&names, Dialect::MySql, std::iter::once(&LISTED));
        assert_eq!(
            texts.get(&LISTED, 4).as_deref(),
            Some("SELECT * FROM `game_partition`\nWHERE id IN (?, ?, ?, ?)")
        );
        assert!(texts.get(&LISTED, 512).is_some() && texts.get(&LISTED, 3).is_none());
    }
}
