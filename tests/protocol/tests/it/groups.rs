//! The database never holds a part of a transaction, whatever lands, fails or dies.

use storage_protocol::groups::{Broken, Groups};
use storage_protocol::search;

/// Far above the need of any search.
const STATES_MAX: usize = 10_000_000;

const PLAIN: Groups = Groups {
    writes: 3,
    plain: 1,
    flushes: 1,
    workers: 1,
    rejects: false,
    torn: false,
    wipes: 0,
    failovers: 0,
    forgets: 0,
    broken: None,
};
const WIPE: Groups = Groups {
    wipes: 1,
    writes: 2,
    ..PLAIN
};
const FAILOVER: Groups = Groups {
    failovers: 1,
    writes: 2,
    ..PLAIN
};
const REJECTED: Groups = Groups {
    rejects: true,
    flushes: 0,
    ..PLAIN
};
const TORN: Groups = Groups {
    torn: true,
    plain: 0,
    ..REJECTED
};
const PROBATION: Groups = Groups {
    forgets: 1,
    writes: 2,
    plain: 0,
    ..PLAIN
};

const WORKERS: Groups = Groups {
    workers: 2,
    writes: 2,
    flushes: 0,
    rejects: true,
    ..PLAIN
};

#[test]
fn in_every_interleaving_the_database_holds_all_of_a_transaction_or_nothing() {
    for (name, bounds) in [
        ("plain", PLAIN),
        ("wipe", WIPE),
        ("failover", FAILOVER),
        ("rejected", REJECTED),
        ("torn", TORN),
        ("probation", PROBATION),
        ("two workers", WORKERS),
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
fn every_rule_of_groups_that_is_broken_has_a_counterexample() {
    for (broken, bounds) in [
        (Broken::Alone, PLAIN),
        (Broken::SnapshotOnly, PLAIN),
        (Broken::Apart, PLAIN),
        (Broken::LinksFirst, PLAIN),
        (Broken::LinksOfAnyEpoch, WIPE),
        (Broken::FlushAlone, PLAIN),
        (Broken::FlushDirtyOnly, PLAIN),
        (Broken::WriteUnlinks, PLAIN),
        (Broken::RejectedAlone, REJECTED),
        (Broken::RejectedUnlinked, REJECTED),
        (Broken::ErrorsUnfollowed, REJECTED),
        (Broken::ErrorsByName, WORKERS),
        (Broken::LandedUnlinked, PROBATION),
        (Broken::LandedUnfollowed, PROBATION),
        (Broken::Unfenced, FAILOVER),
    ] {
        let found = search(
            &Groups {
                broken: Some(broken),
                ..bounds
            },
            STATES_MAX,
        );
        println!("{broken:?}: {found}");
        assert!(found.counterexample.is_some(), "{broken:?}: {found}");
    }
}
