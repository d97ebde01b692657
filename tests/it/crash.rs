//! A process dies at requests that it sends, and the next process must cope with the rest. Each
//! scenario is one test, and each point in it is a run. The program `crash_points` tries every
//! point with every kind of end.

use anyhow::{Context as _, Result};
use storage_servers::{MariaDbOptions, MariaDbServer};
use storage_tests::crash::{Database, Density, Kind, Scenario, scenarios, sessions, try_all};

/// The kinds of death that every scenario is tried with.
const ENDS: &[Kind] = &[Kind::Before, Kind::After, Kind::Instead];

/// Tries a scenario with several kinds at once.
fn dies(scenario: &Scenario, database: Database<'_>, kinds: &[Kind]) -> Result<()> {
    std::thread::scope(|scope| {
        let tries: Vec<_> = kinds
            .iter()
            .map(|kind| scope.spawn(move || try_all(scenario, database, &[*kind], Density::Sample)))
            .collect();
        tries.into_iter().try_for_each(|tried| {
            tried
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
                .map(drop)
        })
    })
}

#[test]
fn a_process_that_dies_in_its_first_writes_or_their_landing_loses_nothing() -> Result<()> {
    dies(&scenarios::FIRST_WRITES, Database::Sqlite, ENDS)
}

#[test]
fn a_process_that_dies_while_it_counts_on_what_was_cold_loses_nothing() -> Result<()> {
    dies(&scenarios::HOT_LOAD, Database::Sqlite, &Kind::ALL)
}

#[test]
fn a_worker_that_dies_beside_a_leftover_snapshot_loses_nothing() -> Result<()> {
    dies(&scenarios::LEFTOVER_SNAPSHOT, Database::Sqlite, &Kind::ALL)
}

#[test]
fn a_process_that_dies_while_it_removes_restores_and_purges_brings_nothing_back() -> Result<()> {
    dies(&scenarios::REMOVAL, Database::Sqlite, ENDS)
}

#[test]
fn a_process_that_dies_in_a_flush_loses_nothing() -> Result<()> {
    dies(&scenarios::FLUSH, Database::Sqlite, ENDS)
}

#[test]
fn a_worker_that_dies_around_a_poison_row_rejects_and_replays_it_alone() -> Result<()> {
    dies(&scenarios::POISON, Database::Sqlite, ENDS)
}

#[test]
fn a_process_that_dies_while_dirty_data_is_to_be_evicted_loses_nothing() -> Result<()> {
    dies(&scenarios::EVICT_WHILE_DIRTY, Database::Sqlite, ENDS)
}

#[test]
fn a_process_that_dies_while_it_adopts_an_empty_redis_loses_nothing() -> Result<()> {
    dies(&scenarios::WIPED, Database::Sqlite, ENDS)
}

#[test]
fn a_process_that_dies_while_it_heals_a_redis_that_came_back_older_loses_nothing() -> Result<()> {
    dies(&scenarios::REWOUND, Database::Sqlite, &Kind::ALL)
}

#[test]
fn a_process_that_dies_at_its_first_contact_with_both_tiers_leaves_them_usable() -> Result<()> {
    dies(&scenarios::FIRST_CONTACT, Database::Sqlite, ENDS)
}

#[test]
fn a_process_that_dies_in_a_bulk_loses_nothing_that_was_acknowledged() -> Result<()> {
    dies(&scenarios::BULK, Database::Sqlite, ENDS)
}

#[test]
fn two_workers_that_die_together_lose_nothing() -> Result<()> {
    dies(&scenarios::TWO_WORKERS, Database::Sqlite, ENDS)
}

#[test]
fn a_process_that_dies_in_a_session_loses_no_acknowledged_save() -> Result<()> {
    dies(&sessions::SESSIONS, Database::Sqlite, &Kind::ALL)
}

#[test]
fn a_process_that_dies_while_a_session_takes_an_owner_from_another_leaves_it_to_one_of_them()
-> Result<()> {
    dies(&sessions::SESSIONS_STOLEN, Database::Sqlite, &Kind::ALL)
}

#[test]
fn a_process_that_dies_while_it_claims_a_session_that_redis_forgot_loses_nothing_that_it_saved_since()
-> Result<()> {
    dies(&sessions::SESSIONS_WIPED, Database::Sqlite, &Kind::ALL)
}

#[test]
fn a_process_that_dies_before_a_mariadb_loses_nothing() -> Result<()> {
    let runtime = tokio::runtime::Runtime::new().context("no runtime")?;
    let mariadb = runtime.block_on(MariaDbServer::start(MariaDbOptions::default()))?;
    for scenario in [scenarios::FIRST_WRITES, scenarios::HOT_LOAD] {
        dies(
            &scenario,
            Database::MariaDb(&mariadb),
            &[Kind::Before, Kind::After],
        )?;
    }
    Ok(())
}
