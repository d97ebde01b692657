//! Rows that follow from landed rows are never missing, whenever the definitions change.

use storage_protocol::hooks::{Broken, Hooks};
use storage_protocol::search;

/// Far above the need of any search.
const STATES_MAX: usize = 1_000_000;

const TWO_WORKERS: Hooks = Hooks {
    writes: 3,
    workers: 2,
    broken: None,
};

#[test]
fn in_every_interleaving_a_landed_row_has_its_entry_once_the_builder_has_ended() {
    let found = search(&TWO_WORKERS, STATES_MAX);
    println!("{found}");
    assert!(found.complete && found.counterexample.is_none(), "{found}");
}

#[test]
fn every_rule_of_hooks_that_is_broken_has_a_counterexample() {
    for broken in [
        Broken::Uncompared,
        Broken::Unmoved,
        Broken::Uncreated,
        Broken::NumberLast,
        Broken::BuiltEarly,
        Broken::BuiltUnguarded,
    ] {
        let broken = Some(broken);
        let hooks = Hooks {
            broken,
            ..TWO_WORKERS
        };
        let found = search(&hooks, STATES_MAX);
        println!("{broken:?}: {found}");
        assert!(found.counterexample.is_some(), "{broken:?}: {found}");
    }
}
