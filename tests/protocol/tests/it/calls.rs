//! A write is applied at most once even if its call is doubled, delayed or lost. Its caller gets
//! the true result.

use storage_protocol::calls::{Broken, Numbered};
use storage_protocol::search;

/// Far above the need of any search.
const STATES_MAX: usize = 5_000_000;

const PLAIN: Numbered = Numbered {
    writes: 2,
    stores: 1,
    ends: 2,
    losses: 1,
    doubles: 1,
    failovers: 0,
    changes: 2,
    time: false,
    broken: None,
};
const FAILOVER: Numbered = Numbered {
    failovers: 1,
    changes: 0,
    ..PLAIN
};
const STORES: Numbered = Numbered {
    writes: 1,
    stores: 2,
    losses: 1,
    changes: 1,
    time: true,
    ..PLAIN
};
const THREE: Numbered = Numbered {
    writes: 3,
    doubles: 0,
    changes: 1,
    losses: 1,
    ..PLAIN
};

#[test]
fn in_every_interleaving_a_write_is_applied_at_most_once_and_its_caller_is_told_the_truth() {
    for (name, bounds) in [
        ("plain", PLAIN),
        ("failover", FAILOVER),
        ("stores", STORES),
        ("three writes", THREE),
    ] {
        let found = search(&bounds, STATES_MAX);
        println!("{name}: {found}");
        assert!(
            found.complete && found.counterexample.is_none(),
            "{name}: {found}"
        );
    }
}

#[test]
fn every_rule_of_the_calls_that_is_broken_has_a_counterexample() {
    let broken = [
        (Broken::Unnumbered, PLAIN),
        (Broken::RefusalForgotten, PLAIN),
        (Broken::Unended, PLAIN),
        (Broken::OnlyAsked, PLAIN),
        (Broken::SameName, STORES),
        (Broken::Hasty, STORES),
        (Broken::NoDeadline, STORES),
    ];
    for (broken, bounds) in broken {
        let found = search(
            &Numbered {
                broken: Some(broken),
                ..bounds
            },
            STATES_MAX,
        );
        println!("{broken:?}: {found}");
        assert!(found.counterexample.is_some(), "{broken:?}: {found}");
    }
}
