//! The searches of the protocol: one test for each group.

use storage_protocol::cases::{
    BROKEN, BROKEN_LARGE, DELETIONS, FLUSHES, Group, LOADS, LOSSES, OWNERS, REMOVALS, WORKERS,
    WRITES,
};

use crate::form::of_this_form;

/// Far above the need of any search, so that a search still ends when its states grow.
const STATES_MAX: usize = 4_000_000;

fn assert_nothing_is_lost(group: &Group) {
    let mut wrong = Vec::new();
    for case in of_this_form(group.cases, group.large, |case| case.name) {
        let found = case.search(STATES_MAX);
        println!("{}: {found}", case.name);
        if !found.complete || found.counterexample.is_some() {
            wrong.push(case.name);
        }
    }
    assert_eq!(wrong, [""; 0]);
}

#[test]
fn in_every_interleaving_of_writes_nothing_acknowledged_is_lost() {
    assert_nothing_is_lost(&WRITES);
}

#[test]
fn in_every_interleaving_of_removals_nothing_acknowledged_is_lost() {
    assert_nothing_is_lost(&REMOVALS);
}

#[test]
fn in_every_interleaving_of_workers_nothing_acknowledged_is_lost() {
    assert_nothing_is_lost(&WORKERS);
}

/// R16: after each commit, the rows of an owner are a state that the owner had.
#[test]
fn in_every_interleaving_an_owner_lands_as_a_whole() {
    assert_nothing_is_lost(&OWNERS);
}

#[test]
fn in_every_interleaving_of_flushes_nothing_acknowledged_is_lost() {
    assert_nothing_is_lost(&FLUSHES);
}

#[test]
fn in_every_interleaving_of_losses_nothing_acknowledged_is_lost() {
    assert_nothing_is_lost(&LOSSES);
}

#[test]
fn in_every_interleaving_of_deletions_nothing_acknowledged_is_lost() {
    assert_nothing_is_lost(&DELETIONS);
}

#[test]
fn in_every_interleaving_of_loads_nothing_acknowledged_is_lost() {
    assert_nothing_is_lost(&LOADS);
}

#[cfg(debug_assertions)]
#[test]
fn every_rule_that_is_broken_has_a_counterexample() {
    let mut uncaught = Vec::new();
    for case in of_this_form(BROKEN, BROKEN_LARGE, |case| case.name) {
        let found = storage_model::sabotage::breaking(case.name, || case.search(STATES_MAX));
        println!("{}: {found}", case.name);
        if found.counterexample.is_none() {
            uncaught.push(case.name);
        }
    }
    assert_eq!(uncaught, [""; 0]);
}
