//! The comparison of the players' own log, the rows by plain SQL, and the hot-loads of all players.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::Context as _;
use indicatif::ProgressBar;
use storage_model::{Cell, Owner};
use storage_sdk::{ByteOwner, Evicted, Stats, Storage};
use tokio::time::Instant;

use crate::difference::Difference;
use crate::game::Played;
use crate::log::Key;

/// The longest time that the last writes can take to land.
const LANDING: Duration = Duration::from_secs(20);
/// The longest time that a storage can take to close after all data has landed.
pub const CLOSE: Duration = Duration::from_secs(10);
/// The number of players that are loaded at once.
const AT_ONCE: usize = 64;

/// The result of the comparison.
#[derive(Debug)]
pub struct Comparison {
    /// Compared fields, including removed ones.
    pub fields: usize,
    /// Players loaded from the database after the eviction.
    pub hot_loads: u64,
    /// Each field with a difference, once.
    pub differences: Vec<Difference>,
}

/// Waits until all data has landed. Lands nothing itself. Returns the storage's figures of the play.
///
/// # Errors
/// Some data has not landed in time, or was rejected. The message gives the amount.
pub async fn landed(storage: &Storage, bar: &ProgressBar) -> anyhow::Result<Stats> {
    bar.set_message("landing the rest");
    let hot = storage.tiers().hot();
    let left = storage_landing::drained(hot, Instant::now() + LANDING, |_| {}).await?;
    let marks: u64 = left.iter().map(|(_, peek)| peek.live + peek.snapshot).sum();
    let errors: u64 = left.iter().map(|(_, peek)| peek.errors).sum();
    anyhow::ensure!(
        left.is_empty(),
        "after {LANDING:?} {marks} marks have not landed, and {errors} owners have rejected rows"
    );
    bar.set_message("evicting, loading and comparing every player");
    Ok(storage.stats().await?)
}

/// Evicts all players, hot-loads them, and compares them with the rows and the players' logs. The rows must be
/// those of all landed data.
///
/// # Errors
/// A player can't be evicted or loaded.
pub async fn compare(
    storage: &Storage,
    played: &Played,
    rows: &BTreeMap<Key, Cell>,
) -> anyhow::Result<Comparison> {
    evict(storage, &played.owners).await?;
    let before = storage.stats().await?.hot_loads;
    let loaded = load(storage, &played.owners).await?;
    let hot_loads = storage.stats().await?.hot_loads - before;

    let mut differences: BTreeMap<Key, Difference> = BTreeMap::new();
    let compared = differing(&played.log, rows, &loaded);
    for difference in played.differences.iter().cloned().chain(compared) {
        differences
            .entry(difference.key.clone())
            .or_insert(difference);
    }
    Ok(Comparison {
        fields: played.log.len(),
        hot_loads,
        differences: differences.into_values().collect(),
    })
}

async fn evict(storage: &Storage, owners: &[ByteOwner]) -> anyhow::Result<()> {
    let owners: Vec<Owner> = owners.iter().map(|owner| owner.owner().clone()).collect();
    for (owner, evicted) in owners
        .iter()
        .zip(storage.tiers().hot().owners.evict(&owners).await)
    {
        anyhow::ensure!(
            evicted? == Evicted::Gone,
            "{owner} could not be evicted: it has not landed"
        );
    }
    Ok(())
}

async fn load(storage: &Storage, owners: &[ByteOwner]) -> anyhow::Result<BTreeMap<Key, Cell>> {
    let mut loaded = BTreeMap::new();
    for some in owners.chunks(AT_ONCE) {
        let Some(first) = some.first() else { continue };
        let scope = first.owner().scope();
        let records = storage
            .world(scope.app(), scope.region())?
            .bytes()
            .get_all_many(some)
            .await;
        for (owner, record) in some.iter().zip(records) {
            let record = record.context("the hot-load")?;
            let fields = record.iter().map(|(field, value)| {
                (
                    (owner.owner().clone(), field.clone()),
                    Cell::Live(value.clone()),
                )
            });
            loaded.extend(fields);
        }
    }
    Ok(loaded)
}

/// The fields on which log, rows and hot-loads disagree. A removed field has a row but is not
/// loaded.
fn differing(
    log: &BTreeMap<Key, Cell>,
    rows: &BTreeMap<Key, Cell>,
    loaded: &BTreeMap<Key, Cell>,
) -> Vec<Difference> {
    let keys: BTreeSet<&Key> = log.keys().chain(rows.keys()).chain(loaded.keys()).collect();
    let one = |key: &Key| {
        let (told, row, loaded) = (log.get(key), rows.get(key), loaded.get(key));
        let mut found = Vec::new();
        if row != told {
            found.push(("rows by SQL", row.cloned()));
        }
        if loaded.and_then(Cell::live) != told.and_then(Cell::live) {
            found.push(("hot-load", loaded.cloned()));
        }
        (!found.is_empty()).then(|| Difference {
            key: key.clone(),
            log: told.cloned(),
            found,
        })
    };
    keys.into_iter().filter_map(one).collect()
}

#[cfg(test)]
mod tests {
    use storage_model::Field;

    use super::*;

    fn cells<const N: usize>(cells: [(&str, Cell); N]) -> BTreeMap<Key, Cell> {
        let owner = Owner::new("demo", "eu", "player", "1").unwrap();
        cells
            .into_iter()
            .map(|(field, cell)| ((owner.clone(), Field::new(field).unwrap()), cell))
            .collect()
    }

    fn live(value: &'static str) -> Cell {
        Cell::Live(value.into())
    }

    #[test]
    fn what_agrees_three_ways_is_no_difference() {
        let gone = || ("gone", Cell::Removed("x".into()));
        let log = cells([("gold", live("1")), gone()]);
        assert_eq!(differing(&log, &log, &cells([("gold", live("1"))])), []);
    }

    #[test]
    fn every_field_that_differs_counts_once_and_names_who_disagrees() {
        let log = cells([
            ("a", live("1")),
            ("b", live("1")),
            ("c", Cell::Removed("1".into())),
            ("lost", live("1")),
        ]);
        let rows = cells([
            ("a", live("2")),
            ("b", live("1")),
            ("c", live("1")),
            ("strange", live("1")),
        ]);
        let loaded = cells([("a", live("2")), ("b", live("2"))]);
        let found: Vec<_> = differing(&log, &rows, &loaded)
            .into_iter()
            .map(|difference| {
                (
                    difference.key.1.as_str().to_owned(),
                    difference
                        .found
                        .iter()
                        .map(|(way, _)| *way)
                        .collect::<Vec<_>>(),
                )
            })
            .collect();
        let expected = [
            ("a", vec!["rows by SQL", "hot-load"]),
            ("b", vec!["hot-load"]),
            ("c", vec!["rows by SQL"]),
            ("lost", vec!["rows by SQL", "hot-load"]),
            ("strange", vec!["rows by SQL"]),
        ];
        assert_eq!(
            found,
            expected.map(|(field, ways)| (field.to_owned(), ways))
        );
    }
}
