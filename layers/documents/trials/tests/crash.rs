//! A process dies at requests that it sends, and its client goes on at another one. The program
//! `documents_crash` tries every point.

use anyhow::Result;
use document_trials::crash::scenarios::{DOCUMENTS, ENDS, ITEMS};
use storage_tests::crash::{Database, Density, Kind, Scenario, try_all};

/// Tries a scenario with every kind of death at once.
fn dies(scenario: &Scenario) -> Result<()> {
    std::thread::scope(|scope| {
        let tries: Vec<_> = Kind::ALL
            .iter()
            .map(|kind| {
                scope.spawn(|| try_all(scenario, Database::Sqlite, &[*kind], Density::Sample))
            })
            .collect();
        tries.into_iter().try_for_each(|tried| {
            let tried = tried.join();
            tried.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            Ok(())
        })
    })
}

#[test]
fn a_gateway_that_dies_while_it_changes_documents_loses_and_doubles_nothing() -> Result<()> {
    dies(&DOCUMENTS)
}

#[test]
fn a_gateway_that_dies_while_it_changes_items_loses_and_doubles_nothing() -> Result<()> {
    dies(&ITEMS)
}

#[test]
fn a_gateway_that_dies_around_the_end_of_a_collection_brings_nothing_back() -> Result<()> {
    dies(&ENDS)
}
