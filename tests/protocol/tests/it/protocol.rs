//! The searches that fit a test.

use storage_protocol::cases::{BROKEN, CASES};

/// Far above the need of any search, so that a search still ends when its states grow.
const STATES_MAX: usize = 2_000_000;

#[test]
fn in_every_interleaving_nothing_acknowledged_is_lost() {
    let mut wrong = Vec::new();
    for case in CASES {
        let found = case.search(STATES_MAX);
        println!("{}: {found}", case.name);
        if !found.complete || found.counterexample.is_some() {
            wrong.push(case.name);
        }
    }
    assert_eq!(wrong, [""; 0]);
}

#[cfg(debug_assertions)]
#[test]
fn every_rule_that_is_broken_has_a_counterexample() {
    let mut uncaught = Vec::new();
    for case in BROKEN {
        let found = storage_model::sabotage::breaking(case.name, || case.search(STATES_MAX));
        println!("{}: {found}", case.name);
        if found.counterexample.is_none() {
            uncaught.push(case.name);
        }
    }
    assert_eq!(uncaught, [""; 0]);
}
