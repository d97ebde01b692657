//! The statements with a declared plan, as queries that a server can explain.

use crate::classify::Dialect;
use crate::registry;
use crate::statement::{Names, Texts};

/// A query, and the plan that MySQL must choose for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Planned {
    /// The name of the statement.
    pub name: &'static str,
    /// Its text for MySQL, with a sample for each argument.
    pub query: String,
    /// The index that finds the rows.
    pub index: &'static str,
    /// Whether the rows come in the order of the index.
    pub ordered: bool,
}

/// The samples of columns. They name the owner 01900 and its field f, partition 0 the
/// note 1-1, and the sink audit. Texts are binary, as the driver sends them. For other texts the server chooses other plans.
const SAMPLES: [(&str, &str); 9] = [
    ("app_id", "_binary'game'"),
    ("region_id", "_binary'eu'"),
    ("logic_type", "_binary'player'"),
    ("owner_id", "_binary'01900'"),
    ("field", "_binary'f'"),
    ("partition_id", "0"),
    ("epoch", "1"),
    ("number", "1"),
    ("name", "_binary'audit'"),
];

/// All statements with a declared plan, for this table of rows.
///
/// # Panics
/// A statement compares an argument with a column that has no sample.
#[must_use]
pub fn planned(table: &str) -> Vec<Planned> {
    let texts = Texts::new(&Names::new(table), Dialect::MySql, registry::statements());
    registry::statements()
        .filter_map(|statement| {
            let plan = statement.plan?;
            Some(Planned {
                name: statement.name,
                query: with_samples(&texts.get(statement, 1)?),
                index: plan.index,
                ordered: plan.ordered,
            })
        })
        .collect()
}

fn with_samples(text: &str) -> String {
    let query = text.replace("LIMIT ?", "LIMIT 10");
    let mut query = query.replace("INTERVAL ? SECOND", "INTERVAL 60 SECOND");
    // The end of a range lies behind its beginning. An empty range has no plan.
    query = query.replace("owner_id < ?", "owner_id < _binary'01950'");
    for (column, sample) in SAMPLES {
        for (before, after) in [
            (" = ", ""),
            (" >= ", ""),
            (" > ", ""),
            (" < ", ""),
            (" IN (", ")"),
        ] {
            query = query.replace(
                &format!("{column}{before}?{after}"),
                &format!("{column}{before}{sample}{after}"),
            );
        }
    }
    assert!(!query.contains('?'), "an argument has no sample: {query}");
    query
}
