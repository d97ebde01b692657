//! A sweep of purged rows deletes no other row, and no proof that is still needed.

use storage_protocol::search;
use storage_protocol::sweep::{Broken, Sweep};

/// Far above the need of any search.
const STATES_MAX: usize = 5_000_000;

const BOUNDS: Sweep = Sweep {
    writes: 4,
    workers: 2,
    losses: 1,
    broken: None,
};

#[test]
fn in_every_interleaving_a_sweep_deletes_only_rows_that_nobody_needs() {
    let found = search(&BOUNDS, STATES_MAX);
    println!("{found}");
    assert!(found.complete && found.counterexample.is_none(), "{found}");
}

#[test]
fn every_rule_of_the_sweep_that_is_broken_has_a_counterexample() {
    for broken in [
        Broken::Unfenced,
        Broken::Unmarked,
        Broken::MarksFirst,
        Broken::AnyRow,
    ] {
        let broken = Some(broken);
        let found = search(&Sweep { broken, ..BOUNDS }, STATES_MAX);
        println!("{broken:?}: {found}");
        assert!(found.counterexample.is_some(), "{broken:?}: {found}");
    }
}
