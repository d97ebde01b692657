//! Loads: rows from the cold tier, and when they are rejected (R7, R15, H16).

use std::time::Duration;

use storage_model::{Cell, Change, Condition, Epoch, Version};

use super::field;
use super::harness::{Harness, above, accepted, all_rows, applied, live, owner, removed, set};
use crate::{Filled, HotRead, Marker, Mutated, Observed, Refusal};

fn at(number: u64) -> Version {
    Version::new(number).unwrap()
}

/// The simple case, with and without a marker.
pub async fn a_fill_of_a_cold_owner_is_kept_as_clean_data(h: &Harness) {
    let unknown = owner("unknown");
    let rows = vec![
        ("a", live("1"), at(5)),
        ("b", removed("2"), at(9)),
        ("c", Cell::Purged, at(7)),
    ];
    let cells = vec![
        (field("a"), live("1")),
        (field("b"), removed("2")),
        (field("c"), Cell::Purged),
    ];
    let read = accepted(
        h.fill(&all_rows(&unknown, h.observe(&unknown).await, rows))
            .await,
    );
    assert_eq!(read.cells, cells);
    assert_eq!(h.read(&unknown).await, read);
    let header = read.header.unwrap();
    assert_eq!((header.version, header.complete), (at(9), true));
    assert!(
        !h.is_marked(&unknown).await && matches!(h.observe(&unknown).await.marker, Marker::At(_))
    );
    h.assert_ends(&unknown).await;
    let (cold, version) = h.cold("cold").await;
    let rows = vec![("gold", live("1"), version)];
    let read = accepted(h.fill(&all_rows(&cold, h.observe(&cold).await, rows)).await);
    assert_eq!(
        read.header.unwrap().version,
        version,
        "the newest row's version, and not the number of the hash"
    );
    assert!(!h.is_marked(&cold).await);
}

/// Fields already there win, tombstones too.
pub async fn a_fill_keeps_what_the_hash_holds(h: &Harness) {
    let (ann, old) = h.cold("ann").await;
    accepted(
        h.fill(&all_rows(
            &ann,
            h.observe(&ann).await,
            vec![("gold", live("1"), old), ("bag", live("x"), old)],
        ))
        .await,
    );
    let observed = h.observe(&ann).await;
    h.apply(&ann, vec![("gold", set("2")), ("bag", Change::Remove)])
        .await;
    let rows = vec![
        ("gold", live("1"), old),
        ("bag", live("x"), old),
        ("late", live("3"), old),
    ];
    let read = accepted(h.fill(&all_rows(&ann, observed, rows)).await);
    assert_eq!(
        read.cells,
        vec![
            (field("bag"), removed("x")),
            (field("gold"), live("2")),
            (field("late"), live("3"))
        ]
    );
    assert_eq!(h.read(&ann).await, read);
    assert!(h.is_marked(&ann).await);
    h.assert_lasting(&ann).await;
}

/// The first write after the observation makes a hash.
pub async fn a_fill_is_refused_after_a_write_of_a_cold_owner(h: &Harness) {
    let (ann, old) = h.cold("ann").await;
    for owner in [&ann, &owner("unknown")] {
        let load = all_rows(
            owner,
            h.observe(owner).await,
            vec![("gold", live("1"), old), ("bag", live("x"), old)],
        );
        h.set(owner, "gold", "2").await;
        assert_eq!(h.fill(&load).await, Filled::Refused);
        assert_eq!(h.read(owner).await.cells, vec![(field("gold"), live("2"))]);
        let fresh = all_rows(
            owner,
            h.observe(owner).await,
            vec![("gold", live("1"), old), ("bag", live("x"), old)],
        );
        assert_eq!(accepted(h.fill(&fresh).await).cells.len(), 2);
    }
}

/// H16.
pub async fn a_fill_is_refused_after_write_landing_and_eviction(h: &Harness) {
    let (ann, old) = h.cold("ann").await;
    let load = all_rows(&ann, h.observe(&ann).await, vec![("gold", live("1"), old)]);
    h.set(&ann, "gold", "2").await;
    h.land(&ann).await;
    h.store()
        .owners
        .evict(std::slice::from_ref(&ann))
        .await
        .remove(0)
        .unwrap();
    assert_eq!(h.fill(&load).await, Filled::Refused);
    assert_eq!(h.read(&ann).await.header, None);
}

/// R7: rows that were read beside unlanded data miss that data. They can join the same hash. They
/// can neither replace it nor join another.
pub async fn a_fill_observed_beside_unlanded_data_is_refused_once_that_is_gone(h: &Harness) {
    let (ann, old) = h.cold("ann").await;
    let last = h.set(&ann, "gold", "2").await;
    let stale = all_rows(
        &ann,
        h.observe(&ann).await,
        vec![("bag", live("x"), old), ("gold", live("1"), old)],
    );
    let Mutated::Load(observed) = h.change(&ann, vec![("bag", Change::Incr(1))]).await else {
        panic!("a load is needed")
    };
    assert_eq!(observed, stale.observed);
    h.land(&ann).await;
    h.store()
        .owners
        .evict(std::slice::from_ref(&ann))
        .await
        .remove(0)
        .unwrap();
    assert_eq!(
        h.fill(&stale).await,
        Filled::Refused,
        "the row of gold is from before it landed"
    );
    let mutation = h.mutation(&ann, vec![("gold", Change::Incr(1))]).await;
    assert!(matches!(
        h.send(&mutation, Some(stale.clone())).await,
        Mutated::Load(_)
    ));
    let mut partial = all_rows(&ann, h.observe(&ann).await, vec![("bag", live("x"), old)]);
    partial.complete = false;
    accepted(h.fill(&partial).await);
    assert_eq!(
        h.fill(&stale).await,
        Filled::Refused,
        "another hash, made by a fill"
    );
    let fresh = all_rows(
        &ann,
        h.observe(&ann).await,
        vec![("bag", live("x"), old), ("gold", live("2"), last)],
    );
    assert_eq!(
        accepted(h.fill(&fresh).await).cells,
        vec![(field("bag"), live("x")), (field("gold"), live("2"))]
    );
}

/// R15.
pub async fn a_fill_is_refused_under_another_epoch(h: &Harness) {
    let (ann, old) = h.cold("ann").await;
    let seen = h.observe(&ann).await;
    for epoch in [0, 2] {
        let observed = Observed {
            epoch: Epoch(epoch),
            ..seen
        };
        assert_eq!(
            h.fill(&all_rows(&ann, observed, vec![("gold", live("1"), old)]))
                .await,
            Filled::Refused
        );
    }
    assert!(h.adopt(h.partition(&ann), 2, Version::ZERO).await);
    assert_eq!(
        h.fill(&all_rows(&ann, seen, vec![("gold", live("1"), old)]))
            .await,
        Filled::Refused
    );
    let absent = owner("absent");
    let observed = Observed {
        epoch: Epoch(9),
        ..h.observe(&absent).await
    };
    assert_eq!(
        h.fill(&all_rows(&absent, observed, vec![])).await,
        Filled::Refused
    );
    assert_eq!(h.observe(&absent).await.marker, observed.marker);
}

/// R7: the hash came, or went, or was replaced since.
pub async fn a_load_is_refused_if_the_hash_came_or_went_since(h: &Harness) {
    let (ann, old) = h.cold("ann").await;
    let rows = || vec![("gold", live("1"), old), ("bag", live("x"), old)];
    let absent = h.observe(&ann).await;
    assert!(!absent.present);
    accepted(h.fill(&all_rows(&ann, absent, rows())).await);
    let present = h.observe(&ann).await;
    assert!(present.present && present.marker != absent.marker);
    assert_eq!(
        h.fill(&all_rows(&ann, absent, rows())).await,
        Filled::Refused,
        "it came"
    );
    accepted(h.fill(&all_rows(&ann, present, rows())).await);
    h.store()
        .owners
        .evict(std::slice::from_ref(&ann))
        .await
        .remove(0)
        .unwrap();
    assert_eq!(
        h.fill(&all_rows(&ann, present, rows())).await,
        Filled::Refused,
        "it went"
    );
    let epoch = present.epoch;
    h.set(&ann, "gold", "2").await;
    for marker in [
        Marker::Unknown(old),
        Marker::Absent(old),
        Marker::Missing(old),
        Marker::At(old),
        present.marker,
    ] {
        let load = all_rows(
            &ann,
            Observed {
                marker,
                present: true,
                epoch,
            },
            rows(),
        );
        assert_eq!(
            h.fill(&load).await,
            Filled::Refused,
            "{marker:?}: another hash"
        );
    }
    assert_eq!(h.cell(&ann, "bag").await, None);
}

/// R7: a load that was observed beside one hash does not join the next, even without a write.
pub async fn a_fill_numbers_the_hash_that_it_makes(h: &Harness) {
    let (ann, old) = h.cold("ann").await;
    let partial = |observed| {
        let mut load = all_rows(&ann, observed, vec![("bag", live("x"), old)]);
        load.complete = false;
        load
    };
    accepted(h.fill(&partial(h.observe(&ann).await)).await);
    let stale = all_rows(&ann, h.observe(&ann).await, vec![("gold", live("1"), old)]);
    h.set(&ann, "gold", "2").await;
    h.land(&ann).await;
    h.store()
        .owners
        .evict(std::slice::from_ref(&ann))
        .await
        .remove(0)
        .unwrap();
    accepted(h.fill(&partial(h.observe(&ann).await)).await);
    assert_eq!(
        h.fill(&stale).await,
        Filled::Refused,
        "the row of gold is from before it was written"
    );
    assert_eq!(h.cell(&ann, "gold").await, None);
}

/// The same hash, after any later write.
pub async fn a_fill_into_the_same_hash_is_accepted(h: &Harness) {
    let (ann, old) = h.cold("ann").await;
    h.set(&ann, "gold", "2").await;
    let observed = h.observe(&ann).await;
    let last = h.set(&ann, "gold", "3").await;
    let read = accepted(
        h.fill(&all_rows(
            &ann,
            observed,
            vec![("gold", live("1"), old), ("bag", live("x"), old)],
        ))
        .await,
    );
    assert_eq!(
        read.cells,
        vec![(field("bag"), live("x")), (field("gold"), live("3"))]
    );
    let header = read.header.unwrap();
    assert_eq!((header.version, header.complete), (last, true));
    assert!(h.is_marked(&ann).await);
}

/// An owner with more rows than are loaded at once.
pub async fn a_partial_fill_does_not_make_a_hash_complete(h: &Harness) {
    let (ann, old) = h.cold("ann").await;
    let mut load = all_rows(&ann, h.observe(&ann).await, vec![("gold", live("1"), old)]);
    load.complete = false;
    let read = accepted(h.fill(&load).await);
    assert!(!read.header.unwrap().complete);
    assert!(matches!(
        h.change(&ann, vec![("other", Change::Incr(1))]).await,
        Mutated::Load(_)
    ));
    assert_eq!(
        h.apply(&ann, vec![("gold", Change::Incr(1))])
            .await
            .counters,
        vec![2]
    );
}

/// R8.
pub async fn an_empty_answer_is_remembered_until_the_first_write(h: &Harness) {
    let ann = owner("ann");
    let read = accepted(h.fill(&all_rows(&ann, h.observe(&ann).await, vec![])).await);
    assert_eq!(read, HotRead::default());
    assert_eq!(h.read(&ann).await.header, None);
    assert!(h.observe(&ann).await.marker.is_absent());
    accepted(h.fill(&all_rows(&ann, h.observe(&ann).await, vec![])).await);
    let applied = h.apply(&ann, vec![("gold", Change::Incr(1))]).await;
    assert!(matches!(h.observe(&ann).await.marker, Marker::At(_)));
    h.land(&ann).await;
    assert_eq!(h.observe(&ann).await.marker, Marker::At(applied.version));
    assert!(h.read(&ann).await.header.unwrap().complete);
}

/// A negative answer has a short time to live.
pub async fn an_empty_answer_runs_out(h: &Harness) {
    let ann = owner("ann");
    h.make_absent(&ann).await;
    h.rig().advance(Duration::from_secs(24 * 3_600)).await;
    assert!(h.observe(&ann).await.marker.is_unknown());
    assert!(matches!(
        h.change(&ann, vec![("gold", Change::Incr(1))]).await,
        Mutated::Load(_)
    ));
}

/// Its rows were swept.
pub async fn an_owner_with_a_marker_and_no_row_becomes_an_empty_complete_hash(h: &Harness) {
    let (ann, version) = h.cold("ann").await;
    let read = accepted(h.fill(&all_rows(&ann, h.observe(&ann).await, vec![])).await);
    let header = read.header.unwrap();
    assert_eq!(
        (header.version, header.complete, read.cells),
        (version, true, vec![])
    );
    assert_eq!(
        h.apply(&ann, vec![("gold", Change::Incr(1))])
            .await
            .counters,
        vec![1]
    );
}

/// R7: without a marker nothing would tell a load from before a hash that came and went.
pub async fn an_observation_without_a_marker_sets_one(h: &Harness) {
    let ann = owner("ann");
    let first = h.observe(&ann).await;
    assert!(matches!(first.marker, Marker::Unknown(_)), "{first:?}");
    assert_eq!(h.observe(&ann).await, first, "it is there for all others");
    h.lose_marker(&ann).await;
    let Mutated::Load(second) = h.change(&ann, vec![("gold", Change::Incr(1))]).await else {
        panic!("a load is needed")
    };
    assert_eq!(h.observe(&ann).await, second);
    let number = |observed: Observed| match observed.marker {
        Marker::Unknown(number) => number,
        other => panic!("{other:?}"),
    };
    assert!(
        number(first) < number(second),
        "no number is given twice: {first:?}, {second:?}"
    );
}

/// R7: a hash was made, has landed and left since, and so has its marker.
pub async fn a_load_is_refused_once_its_marker_has_gone(h: &Harness) {
    let ann = owner("ann");
    let stale = all_rows(&ann, h.observe(&ann).await, vec![]);
    h.set(&ann, "gold", "1").await;
    h.land(&ann).await;
    h.evict(&ann).await;
    h.lose_marker(&ann).await;
    assert_eq!(h.fill(&stale).await, Filled::Refused);
    let (bob, old) = h.cold("bob").await;
    for is_observed in [false, true] {
        let stale = all_rows(&bob, h.observe(&bob).await, vec![("gold", live("1"), old)]);
        h.set(&bob, "gold", "2").await;
        h.land(&bob).await;
        h.evict(&bob).await;
        h.lose_marker(&bob).await;
        if is_observed {
            h.observe(&bob).await;
        }
        assert_eq!(h.fill(&stale).await, Filled::Refused);
    }
    assert_eq!(h.read(&bob).await.header, None);
}

/// R7: another hash took the place of the one that was observed.
pub async fn a_load_beside_a_hash_is_refused_once_its_marker_has_gone(h: &Harness) {
    let (ann, old) = h.cold("ann").await;
    h.set(&ann, "bag", "x").await;
    let stale = all_rows(&ann, h.observe(&ann).await, vec![("gold", live("1"), old)]);
    h.set(&ann, "gold", "2").await;
    h.land(&ann).await;
    h.evict(&ann).await;
    h.set(&ann, "bag", "y").await;
    h.lose_marker(&ann).await;
    assert_eq!(h.fill(&stale).await, Filled::Refused);
    assert_eq!(h.cell(&ann, "gold").await, None);
    let (_, landed) = (h.observe(&ann).await, above(old, 1));
    assert_eq!(h.fill(&stale).await, Filled::Refused);
    let fresh = all_rows(
        &ann,
        h.observe(&ann).await,
        vec![("gold", live("2"), landed)],
    );
    accepted(h.fill(&fresh).await);
    assert_eq!(h.cell(&ann, "gold").await, Some(live("2")));
}

/// R15.
pub async fn a_mutation_with_a_load_is_refused_once_the_marker_has_gone(h: &Harness) {
    let (ann, old) = h.cold("ann").await;
    let load = all_rows(&ann, h.observe(&ann).await, vec![("gold", live("1"), old)]);
    h.lose_marker(&ann).await;
    let mutation = h.mutation(&ann, vec![("gold", Change::Incr(4))]).await;
    let Mutated::Load(observed) = h.send(&mutation, Some(load)).await else {
        panic!("the load proves nothing any more")
    };
    let load = all_rows(&ann, observed, vec![("gold", live("1"), old)]);
    assert_eq!(applied(h.send(&mutation, Some(load)).await).counters, [5]);
}

/// R7: the database has rows by now, and they were purged and swept.
pub async fn a_remembered_absence_proves_a_load_only_while_it_is_remembered(h: &Harness) {
    let ann = owner("ann");
    h.make_absent(&ann).await;
    let stale = all_rows(&ann, h.observe(&ann).await, vec![]);
    h.set(&ann, "gold", "1").await;
    h.land(&ann).await;
    h.evict(&ann).await;
    h.lose_marker(&ann).await;
    h.make_absent(&ann).await;
    assert_eq!(h.fill(&stale).await, Filled::Refused);
}

/// Otherwise each owner that was ever hot would cost memory for ever.
pub async fn the_marker_of_a_hash_runs_out(h: &Harness) {
    let (ann, old) = h.cold("ann").await;
    let rows = vec![("gold", live("1"), old)];
    accepted(h.fill(&all_rows(&ann, h.observe(&ann).await, rows)).await);
    let (bob, _) = h.cold("bob").await;
    let (eve, mutation) = (owner("eve"), vec![("gold", Change::Remove)]);
    h.make_absent(&eve).await;
    let changed = h.change(&eve, mutation).await;
    assert!(matches!(changed, Mutated::Applied(_)), "{changed:?}");
    h.rig().advance(Duration::from_secs(24 * 3_600)).await;
    for owner in [ann, bob, eve] {
        let seen = h.observe(&owner).await;
        assert!(seen.marker.is_unknown(), "{owner}: {seen:?}");
    }
}

/// R15: the reply holds the observation that proves the load.
pub async fn a_mutation_that_needs_a_load_says_what_it_observed(h: &Harness) {
    let (ann, version) = h.cold("ann").await;
    let expected = Observed {
        marker: Marker::At(version),
        present: false,
        epoch: Epoch(1),
    };
    assert_eq!(
        h.change(&ann, vec![("gold", Change::Incr(1)), ("new", set("x"))])
            .await,
        Mutated::Load(expected)
    );
    assert_eq!(h.read(&ann).await.header, None, "nothing changed");
}

/// R15: fill and apply.
pub async fn a_mutation_and_its_load_are_one_step(h: &Harness) {
    let (ann, old) = h.cold("ann").await;
    let mutation = h
        .mutation(
            &ann,
            vec![("gold", Change::Incr(4)), ("bag", Change::Remove)],
        )
        .await;
    let Mutated::Load(observed) = h.send(&mutation, None).await else {
        panic!("a load is needed")
    };
    let load = all_rows(
        &ann,
        observed,
        vec![
            ("gold", live("1"), old),
            ("bag", live("x"), old),
            ("rest", live("r"), old),
        ],
    );
    let reply = applied(h.send(&mutation, Some(load)).await);
    assert_eq!((reply.counters, reply.changed), (vec![5], 2));
    let read = h.read(&ann).await;
    assert_eq!(
        read.cells,
        vec![
            (field("bag"), removed("x")),
            (field("gold"), live("5")),
            (field("rest"), live("r"))
        ]
    );
    let header = read.header.unwrap();
    assert_eq!((header.version, header.complete), (reply.version, true));
    assert!(h.is_marked(&ann).await);
    h.assert_lasting(&ann).await;
    let entries = h.land(&ann).await;
    assert_eq!(
        entries[0].mark.as_ref().unwrap().fields,
        vec![field("bag"), field("gold")],
        "loaded fields are not marked"
    );
}

/// R15: an outdated load counts as none.
pub async fn a_mutation_with_a_load_that_is_not_proved_changes_nothing(h: &Harness) {
    let (ann, old) = h.cold("ann").await;
    let load = all_rows(&ann, h.observe(&ann).await, vec![("gold", live("1"), old)]);
    h.set(&ann, "other", "x").await;
    let before = h.read(&ann).await;
    let mutation = h.mutation(&ann, vec![("gold", Change::Incr(4))]).await;
    let observed = h.observe(&ann).await;
    assert_eq!(
        h.send(&mutation, Some(load.clone())).await,
        Mutated::Load(observed)
    );
    assert_eq!(h.read(&ann).await, before);
    let other_epoch = Observed {
        epoch: Epoch(7),
        ..observed
    };
    let foreign = all_rows(&ann, other_epoch, vec![("gold", live("1"), old)]);
    assert_eq!(
        h.send(&mutation, Some(foreign)).await,
        Mutated::Load(observed)
    );
    assert_eq!(
        applied(
            h.send(
                &mutation,
                Some(all_rows(&ann, observed, vec![("gold", live("1"), old)]))
            )
            .await
        )
        .counters,
        vec![5]
    );
}

/// An owner with more rows than are loaded at once. The load brings the rows of the fields that the
/// mutation names.
pub async fn a_partial_load_tells_of_every_field_of_its_mutation(h: &Harness) {
    let (ann, old) = h.cold("ann").await;
    let mutation = h
        .mutation(
            &ann,
            vec![("gems", Change::Incr(3)), ("gold", Change::Incr(4))],
        )
        .await;
    let Mutated::Load(observed) = h.send(&mutation, None).await else {
        panic!("a load is needed")
    };
    let mut load = all_rows(&ann, observed, vec![("gold", live("1"), old)]);
    load.complete = false;
    assert_eq!(
        applied(h.send(&mutation, Some(load.clone())).await).counters,
        vec![3, 5]
    );
    assert!(!h.read(&ann).await.header.unwrap().complete);
    assert!(matches!(
        h.change(&ann, vec![("rest", Change::Incr(1))]).await,
        Mutated::Load(_)
    ));
    assert_eq!(
        h.fill(&load).await,
        Filled::Refused,
        "the mutation made the hash"
    );
}

/// All or nothing, the load included.
pub async fn a_refused_mutation_does_not_keep_its_load(h: &Harness) {
    let (ann, old) = h.cold("ann").await;
    let observed = h.observe(&ann).await;
    let load = || Some(all_rows(&ann, observed, vec![("gold", live("text"), old)]));
    let incr = h.mutation(&ann, vec![("gold", Change::Incr(1))]).await;
    assert_eq!(
        h.send(&incr, load()).await,
        Mutated::Refused(Refusal::NotInteger(field("gold")))
    );
    let create = h
        .mutation(&ann, vec![("gold", set("2"))])
        .await
        .when(Condition::Absent);
    assert_eq!(
        h.send(&create, load()).await,
        Mutated::Refused(Refusal::Exists(field("gold")))
    );
    assert_eq!(h.read(&ann).await.header, None);
}

/// A blind update never waits for the cold tier.
pub async fn a_blind_write_goes_through_with_a_load_that_is_not_proved(h: &Harness) {
    let (ann, old) = h.cold("ann").await;
    let load = all_rows(
        &ann,
        h.observe(&ann).await,
        vec![("bag", live("stale"), old)],
    );
    h.set(&ann, "other", "x").await;
    let mutation = h.mutation(&ann, vec![("gold", set("2"))]).await;
    applied(h.send(&mutation, Some(load)).await);
    assert_eq!(
        h.cell(&ann, "bag").await,
        None,
        "the stale row was not used"
    );
}

/// R14: newer rows win over a hash from before a rewind. Nothing is built on the hash before that.
pub async fn a_hash_that_was_rewound_is_compared_with_its_rows(h: &Harness) {
    let ann = owner("ann");
    h.make_absent(&ann).await;
    let old = h
        .apply(&ann, vec![("gold", set("1")), ("bag", set("lost"))])
        .await
        .version;
    h.rig().save().await;
    let lost = h.set(&ann, "gold", "50").await;
    h.rig().rewind().await;
    let partition = h.partition(&ann);
    assert!(h.adopt(partition, 2, lost).await);
    let header = h.read(&ann).await.header.unwrap();
    assert!(
        header.generation < h.record(partition).await.generation,
        "the hash is suspect"
    );
    let incr = h.mutation(&ann, vec![("gold", Change::Incr(1))]).await;
    let Mutated::Load(observed) = h.send(&incr, None).await else {
        panic!("a suspect hash is compared first")
    };
    let load = all_rows(
        &ann,
        observed,
        vec![
            ("gold", live("50"), lost),
            ("bag", live("older"), Version::new(old.get() - 1).unwrap()),
        ],
    );
    let reply = applied(h.send(&incr, Some(load)).await);
    assert_eq!(reply.counters, vec![51]);
    assert!(reply.version >= above(lost, 1));
    let read = h.read(&ann).await;
    assert_eq!(read.header.unwrap().generation, Epoch(2));
    assert_eq!(
        read.cells,
        vec![(field("bag"), live("older")), (field("gold"), live("51"))]
    );
}
