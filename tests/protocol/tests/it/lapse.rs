//! A holder that is gone is missed as long as it has a session.

use storage_protocol::lapse::{Broken, Lapse};
use storage_protocol::search;

/// Far above the need of any search.
const STATES_MAX: usize = 4_000_000;

const TWO: Lapse = Lapse {
    observers: 2,
    calls: 3,
    openings: 2,
    beats: 2,
    deaths: 1,
    broken: None,
};

#[test]
fn in_every_interleaving_a_holder_with_a_session_has_a_beat() {
    let found = search(&TWO, STATES_MAX);
    println!("{found}");
    assert!(found.complete && found.counterexample.is_none(), "{found}");
}

#[test]
fn each_rule_of_lapses_that_is_broken_has_a_counterexample() {
    for broken in [Broken::Unmarked, Broken::Alike, Broken::Kept, Broken::Early] {
        let broken = Lapse {
            broken: Some(broken),
            ..TWO
        };
        let found = search(&broken, STATES_MAX);
        println!("{broken:?}: {found}");
        assert!(found.counterexample.is_some(), "{broken:?}: {found}");
    }
}
