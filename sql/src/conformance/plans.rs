//! The statements with a declared plan, as queries that a server can explain.

use crate::classify::Dialect;
use crate::registry;
use crate::statement::{Names, Texts, list};

/// A query, and the plan that MySQL must choose for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Planned {
    /// The name of the statement.
    pub name: &'static str,
    /// Its text for MySQL, with a sample for each argument.
    pub query: String,
    /// The number of items in its list. 1 for a statement without a list.
    pub items: usize,
    /// The index that finds the rows.
    pub index: &'static str,
    /// Whether the rows come in the order of the index.
    pub ordered: bool,
}

/// The samples of columns. They name the owner 00001 and its field f, partition 1 with the
/// note 1-1, the sink audit, and a shard of the service goals. In a list the owners, fields and partitions ascend. Texts are binary, as the driver
/// sends them. For other texts the server chooses other plans.
const SAMPLES: [(&str, &str); 22] = [
    ("app_id", "_binary'game'"),
    ("region_id", "_binary'eu'"),
    ("logic_type", "_binary'player'"),
    ("owner_id", "_binary'00001'"),
    ("field", "_binary'f'"),
    ("partition_id", "1"),
    ("epoch", "1"),
    ("number", "1"),
    ("last_version", "1"),
    ("name", "_binary'audit'"),
    ("value", "_binary'value'"),
    ("stamp", "1"),
    ("hot", "1"),
    ("id", "1"),
    ("is_del", "0"),
    ("service", "_binary'goals'"),
    ("dc", "_binary'a'"),
    ("plan", "1"),
    ("range_begin", "x'0000000000000001'"),
    ("token", "_binary''"),
    ("beat", "0"),
    ("holder", "_binary'goals-7:7000'"),
];

/// All statements with a declared plan, for this table of rows. A statement with a list comes with
/// a list of one, of a few and of the most items.
///
/// # Panics
/// A statement compares an argument with a column that has no sample.
#[must_use]
pub fn planned(table: &str) -> Vec<Planned> {
    let texts = Texts::new(&Names::new(table), Dialect::MySql, registry::statements());
    let declared =
        registry::statements().filter_map(|statement| Some((statement, statement.plan?)));
    declared
        .flat_map(|(statement, plan)| {
            let listed = list(statement.template(Dialect::MySql)).is_some();
            let sizes = if listed {
                vec![1, 16, statement.longest]
            } else {
                vec![1]
            };
            let texts = &texts;
            sizes.into_iter().map(move |items| Planned {
                name: statement.name,
                query: with_samples(&texts.get(statement, items).expect("a text of each size")),
                items,
                index: plan.index,
                ordered: plan.ordered,
            })
        })
        .collect()
}

fn with_samples(text: &str) -> String {
    let query = text.replace("LIMIT ?", "LIMIT 10");
    let query = query.replace("INTERVAL ? SECOND", "INTERVAL 60 SECOND");
    let query = query.replace("last_version, ?", "last_version, 1");
    let query = query.replace("`landing_hook`) = ?", "`landing_hook`) = 0");
    let query = query.replace("), 0) = ?", "), 0) = 1");
    // The end of a range lies behind its beginning. An empty range has no plan.
    let mut query = query.replace("owner_id < ?", "owner_id < _binary'00051'");
    for (column, sample) in SAMPLES {
        for comparison in ["=", ">=", ">", "<=", "<"] {
            query = query.replace(
                &format!("{column} {comparison} ?"),
                &format!("{column} {comparison} {sample}"),
            );
        }
    }
    let query = with_list(&query);
    assert!(!query.contains('?'), "an argument has no sample: {query}");
    query
}

/// Fills the list in `(COLUMN, ...) IN ((?, ...), ...)` or `COLUMN IN (?, ...)`.
fn with_list(query: &str) -> String {
    let Some((before, items)) = query.split_once(" IN (") else {
        return query.to_owned();
    };
    let compared = before.rsplit(['\n', ' ']).next().unwrap_or_default();
    let columns: Vec<&str> = if compared.ends_with(')') {
        let (_, columns) = before.rsplit_once('(').unwrap_or_default();
        columns.trim_end_matches(')').split(", ").collect()
    } else {
        vec![compared]
    };
    let mut filled = format!("{before} IN (");
    for (at, piece) in items.split('?').enumerate() {
        if at > 0 {
            let column = columns[(at - 1) % columns.len()];
            filled.push_str(&numbered(column, 1 + (at - 1) / columns.len()));
        }
        filled.push_str(piece);
    }
    filled
}

/// The sample of a column in the item of this number.
fn numbered(column: &str, number: usize) -> String {
    let column = column.rsplit('.').next().unwrap_or(column);
    match column {
        "owner_id" => format!("_binary'{number:05}'"),
        "partition_id" => number.to_string(),
        "field" if number > 1 => format!("_binary'f{number}'"),
        _ => {
            let mut samples = SAMPLES.iter();
            let sample = samples.find(|(sampled, _)| *sampled == column);
            sample.map_or_else(|| "?".to_owned(), |(_, sample)| (*sample).to_owned())
        }
    }
}
