//! Each note is told in order and once, whatever lands, fails or dies.

use storage_protocol::feed::{Broken, Feed};
use storage_protocol::search;

/// Far above the need of any search.
const STATES_MAX: usize = 10_000_000;

const PLAIN: Feed = Feed {
    owners: 2,
    writes: 3,
    plain: 1,
    batch: 2,
    flushes: 1,
    workers: 1,
    reads: 0,
    deletes: 0,
    wipes: 0,
    failovers: 0,
    forgets: 0,
    broken: None,
};
const READ: Feed = Feed {
    reads: 1,
    flushes: 0,
    plain: 0,
    batch: 1,
    ..PLAIN
};
const WORKERS: Feed = Feed {
    workers: 2,
    writes: 2,
    flushes: 0,
    batch: 1,
    ..PLAIN
};
const WIPE: Feed = Feed {
    wipes: 1,
    writes: 2,
    ..PLAIN
};
const WIPES: Feed = Feed {
    wipes: 2,
    writes: 2,
    plain: 0,
    batch: 1,
    ..PLAIN
};
const FAILOVER: Feed = Feed {
    failovers: 1,
    writes: 2,
    plain: 0,
    ..PLAIN
};
const FAILOVER_OF_ONE: Feed = Feed {
    owners: 1,
    failovers: 1,
    flushes: 0,
    batch: 1,
    ..PLAIN
};
const OLDER: Feed = Feed {
    wipes: 1,
    failovers: 1,
    writes: 2,
    plain: 0,
    flushes: 0,
    batch: 1,
    ..PLAIN
};
const OLDER_WIPE: Feed = Feed { wipes: 2, ..OLDER };
const DELETED: Feed = Feed {
    owners: 1,
    deletes: 1,
    ..PLAIN
};
const DELETED_WORKERS: Feed = Feed {
    deletes: 1,
    ..WORKERS
};
const DELETED_WIPE: Feed = Feed {
    wipes: 1,
    plain: 0,
    flushes: 0,
    ..DELETED
};
const DELETED_FAILOVER: Feed = Feed {
    deletes: 1,
    flushes: 0,
    ..FAILOVER
};
const PROBATION: Feed = Feed {
    forgets: 1,
    writes: 2,
    plain: 0,
    batch: 1,
    ..PLAIN
};
const DELETED_PROBATION: Feed = Feed {
    deletes: 1,
    flushes: 0,
    ..PROBATION
};

#[test]
fn in_every_interleaving_each_note_is_told_in_order_and_once() {
    for (name, bounds) in [
        ("plain", PLAIN),
        ("read", READ),
        ("two workers", WORKERS),
        ("wipe", WIPE),
        ("two wipes", WIPES),
        ("failover", FAILOVER),
        ("failover of one owner", FAILOVER_OF_ONE),
        ("a wipe and an older copy", OLDER),
        ("an older copy between wipes", OLDER_WIPE),
        ("deleted", DELETED),
        ("deleted with two workers", DELETED_WORKERS),
        ("deleted and wipe", DELETED_WIPE),
        ("deleted and failover", DELETED_FAILOVER),
        ("probation", PROBATION),
        ("deleted and probation", DELETED_PROBATION),
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
fn every_rule_of_the_feed_that_is_broken_has_a_counterexample() {
    for (broken, bounds) in [
        (Broken::NoteApart, PLAIN),
        (Broken::TrimFirst, PLAIN),
        (Broken::TrimEarly, PROBATION),
        (Broken::Unguarded, WORKERS),
        (Broken::Unfenced, WIPE),
        (Broken::NoLead, PLAIN),
        (Broken::FlushNoLead, PLAIN),
        (Broken::LeadLowered, FAILOVER_OF_ONE),
        (Broken::LeadOfAnyOwner, WIPES),
        (Broken::LeadDroppedEarly, PLAIN),
        (Broken::LeadOfRedis, WORKERS),
        (Broken::LeadsMerged, WIPE),
        (Broken::GapKeepsLeads, DELETED),
        (Broken::EventsFirst, PLAIN),
        (Broken::RowsFirst, PLAIN),
        (Broken::NoResync, WIPE),
        (Broken::ResyncUnchecked, WIPE),
        (Broken::NumbersRestart, DELETED_FAILOVER),
        (Broken::NumbersOfRedis, DELETED_WIPE),
        (Broken::PositionReused, PLAIN),
        (Broken::GapUnseen, DELETED),
        (Broken::GapFirst, DELETED),
        (Broken::GapOfAnySnapshot, DELETED),
        (Broken::OlderUnseen, OLDER),
        (Broken::OlderLeads, OLDER_WIPE),
        (Broken::LastBeforeFence, WIPE),
        (Broken::WriteUnadopted, FAILOVER),
        (Broken::UntilKept, DELETED_PROBATION),
        (Broken::NotedKept, PROBATION),
        (Broken::ReadApart, READ),
    ] {
        let found = search(
            &Feed {
                broken: Some(broken),
                ..bounds
            },
            STATES_MAX,
        );
        println!("{broken:?}: {found}");
        assert!(found.counterexample.is_some(), "{broken:?}: {found}");
    }
}
