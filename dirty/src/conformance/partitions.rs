//! Partition records (R14).

use std::time::Duration;

use storage_model::{
    Epoch, LAYOUT, Outcome, Owner, Partition, SeededIds, Stamp, Timestamp, Token, Version,
};

use super::field;
use super::harness::{Harness, above, all_rows, applied, lock_of, owner, set};
use crate::{
    Adopt, Filled, HotKind, HotPaired, HotPairing, Marker, Observed, PartitionState, Reject,
    Settle, Snapshot,
};

/// Every call that needs a present record fails as `Unprepared`.
async fn assert_unprepared(h: &Harness, owner: &Owner, epoch: Epoch) {
    let partition = h.partition(owner);
    let lock = lock_of("worker");
    let load = all_rows(
        owner,
        Observed {
            marker: Marker::Unknown(Version::ZERO),
            present: false,
            epoch,
        },
        vec![],
    );
    let settle = Settle {
        partition,
        lock: None,
        epoch,
        snapshot: h.number(partition),
        landed: Version::MAX,
        marks: vec![],
        rows: vec![],
        probation: false,
    };
    let (retry_min, retry_max) = Default::default();
    let reject = Reject {
        partition,
        lock,
        epoch,
        snapshot: h.number(partition),
        retry_min,
        retry_max,
        probation: false,
        rejected: vec![],
    };
    let errors = [
        h.store().owners.fill(&[load]).await.remove(0).unwrap_err(),
        h.store()
            .marks
            .collect(partition, &[(owner.clone(), vec![field("gold")])], None)
            .await
            .unwrap_err(),
        h.store().marks.settle(&settle).await.unwrap_err(),
        h.store().marks.reject(&reject).await.unwrap_err(),
        h.store()
            .partitions
            .raise_landed(partition, epoch, Version::MAX)
            .await
            .unwrap_err(),
    ];
    for error in errors {
        assert_eq!(
            (error.kind, error.outcome),
            (HotKind::Unprepared(partition), Outcome::NotApplied),
            "{}",
            error.operation
        );
    }
}

/// First contact.
pub async fn nothing_works_on_a_partition_without_a_record(h: &Harness) {
    let ann = owner("ann");
    h.rig().wipe().await;
    let state = h
        .store()
        .partitions
        .partition_states(&[h.partition(&ann)])
        .await
        .remove(0)
        .unwrap();
    assert_eq!((state.is_current(), &state.record), (false, &None));
    let observed = h
        .store()
        .owners
        .observe(std::slice::from_ref(&ann))
        .await
        .remove(0)
        .unwrap_err();
    assert_eq!(observed.kind, HotKind::Unprepared(h.partition(&ann)));
    assert_unprepared(h, &ann, Epoch(1)).await;
    let mutation = h.mutation(&ann, vec![("gold", set("1"))]).await;
    let error = h.try_send(&mutation, None).await.unwrap_err();
    assert_eq!(
        (error.kind, error.outcome),
        (HotKind::Unprepared(h.partition(&ann)), Outcome::NotApplied)
    );
    assert_eq!(h.read(&ann).await.header, None);
    assert!(h.adopt(h.partition(&ann), 7, Version::ZERO).await);
    applied(h.send(&mutation, None).await);
}

/// No adoption replaces another one that it has not seen.
pub async fn adopt_is_a_compare_and_set(h: &Harness) {
    let partition = Partition(0);
    let now = h
        .store()
        .partitions
        .partition_states(&[partition])
        .await
        .remove(0)
        .unwrap();
    assert!(now.is_current());
    let other_server = PartitionState {
        incarnation: "another".into(),
        ..now.clone()
    };
    let no_record = PartitionState {
        record: None,
        ..now.clone()
    };
    let mut other_record = now.clone();
    other_record.record.as_mut().unwrap().incarnation = "another".into();
    let adopts = [other_server, no_record, other_record].map(|seen| Adopt {
        partition,
        seen,
        epoch: Epoch(5),
        stamp: storage_model::Stamp::NONE,
        until: storage_model::Timestamp(u64::MAX),
        last_version: Version::MAX,
        landed_here: false,
        compare_all: false,
        feed: storage_model::Position::ZERO,
        database: None,
    });
    assert_eq!(
        h.store().partitions.adopt(&adopts).await,
        vec![Ok(false), Ok(false), Ok(false)]
    );
    assert_eq!(
        h.store()
            .partitions
            .partition_states(&[partition])
            .await
            .remove(0)
            .unwrap(),
        now
    );
}

/// R14: another hot tier may have the partition after the deadline. The stamp stays with the epoch.
pub async fn adopt_has_a_deadline_and_keeps_its_stamp(h: &Harness) {
    let at = Partition(0);
    let state = async || {
        h.store()
            .partitions
            .partition_states(&[at])
            .await
            .remove(0)
            .unwrap()
    };
    let (seen, now) = (state().await, h.store().tier.time().await.unwrap());
    let adopt = |until| Adopt {
        partition: at,
        seen: seen.clone(),
        epoch: Epoch(5),
        stamp: Stamp((1 << 63) - 1),
        until,
        last_version: Version::ZERO,
        landed_here: false,
        compare_all: false,
        feed: storage_model::Position::ZERO,
        database: None,
    };
    let late = adopt(Timestamp(now.0.saturating_sub(1)));
    assert_eq!(h.store().partitions.adopt(&[late]).await, [Ok(false)]);
    assert_eq!(state().await, seen);
    let in_time = adopt(now.plus(Duration::from_secs(600)));
    assert_eq!(h.store().partitions.adopt(&[in_time]).await, [Ok(true)]);
    let record = state().await.record.unwrap();
    assert_eq!((record.epoch, record.stamp.0), (Epoch(5), (1 << 63) - 1));
    let collected = h.store().marks.collect(at, &[], None).await.unwrap();
    assert_eq!(collected.stamp, record.stamp);
}

/// Epochs only grow.
pub async fn adopt_needs_a_greater_epoch(h: &Harness) {
    assert!(h.adopt(Partition(0), 3, Version::ZERO).await);
    for epoch in [0, 1, 2, 3] {
        assert!(
            !h.adopt(Partition(0), epoch, Version::MAX).await,
            "{epoch} is not above 3"
        );
    }
    assert_eq!(h.record(Partition(0)).await.epoch, Epoch(3));
    assert!(h.adopt(Partition(0), 4, Version::ZERO).await);
    assert_eq!(
        h.record(Partition(1)).await.epoch,
        Epoch(1),
        "each partition for itself"
    );
}

/// H9.
pub async fn a_first_adoption_starts_at_the_time(h: &Harness) {
    let now = h.store().tier.time().await.unwrap();
    let record = h.record(Partition(0)).await;
    assert_eq!(
        (record.epoch, record.generation, record.landed),
        (Epoch(1), Epoch(1), Version::ZERO)
    );
    assert!(
        record.source.get() > 0 && record.source.get() <= now.0 + 60_000_000,
        "{record:?}"
    );
}

/// Versions that were forgotten may have been above the landed ones.
pub async fn a_first_adoption_starts_above_what_has_landed(h: &Harness) {
    let before = h.record(Partition(0)).await;
    h.rig().wipe().await;
    let landed = above(before.source, 1 << 40);
    assert!(h.adopt(Partition(0), 9, landed).await);
    let record = h.record(Partition(0)).await;
    assert_eq!(
        (record.epoch, record.generation, record.landed),
        (Epoch(9), Epoch(9), landed)
    );
    assert_eq!(record.source, landed.plus(Version::rewind_leap(Epoch(9))));
}

/// Independent of all clocks.
pub async fn no_version_is_ever_below_a_landed_one(h: &Harness) {
    let ann = owner("ann");
    let partition = h.partition(&ann);
    let ahead = above(h.set(&ann, "gold", "1").await, 1 << 40);
    assert!(h.adopt(partition, 2, ahead).await);
    let mutation = h.mutation(&ann, vec![("gold", set("2"))]).await;
    let observed = h.observe(&ann).await;
    let reply = applied(
        h.send(&mutation, Some(all_rows(&ann, observed, vec![])))
            .await,
    );
    assert!(reply.version > ahead);
    h.store()
        .partitions
        .raise_landed(partition, Epoch(2), above(ahead, 100))
        .await
        .unwrap();
    assert!(h.set(&ann, "gold", "3").await > above(ahead, 100));
}

/// A condition on a version from before a rewind does not hold after it, even if the clock lags
/// behind all versions.
pub async fn no_version_is_given_again_after_a_rewind(h: &Harness) {
    let [ann, bob] = <[Owner; 2]>::try_from(h.owners_of_one_partition(2)).unwrap();
    let partition = h.partition(&ann);
    let ahead = above(h.set(&ann, "gold", "1").await, 1 << 40);
    h.store()
        .partitions
        .raise_landed(partition, Epoch(1), ahead)
        .await
        .unwrap();
    h.rig().save().await;
    let landed = h.set(&ann, "gold", "2").await;
    let forgotten = h.set(&ann, "gold", "3").await;
    assert!(forgotten > landed && landed > ahead);
    h.rig().rewind().await;
    h.rig().save().await;
    assert!(h.adopt(partition, 2, landed).await);
    let again = h.set(&bob, "gold", "4").await;
    assert!(again > forgotten);
    // Nothing landed in between, so the same is known of the versions that were given.
    h.rig().rewind().await;
    assert!(h.adopt(partition, 3, landed).await);
    assert_ne!(h.set(&bob, "gold", "5").await, again);
}

/// A failover that lost nothing.
pub async fn an_adoption_that_lost_nothing_keeps_the_generation(h: &Harness) {
    let ann = owner("ann");
    let partition = h.partition(&ann);
    let version = h.set(&ann, "gold", "1").await;
    h.store()
        .partitions
        .raise_landed(partition, Epoch(1), version)
        .await
        .unwrap();
    let source = h.record(partition).await.source;
    assert!(h.adopt(partition, 2, version).await);
    let record = h.record(partition).await;
    assert_eq!(
        (
            record.epoch,
            record.generation,
            record.landed,
            record.source
        ),
        (Epoch(2), Epoch(1), version, source)
    );
    assert_eq!(
        h.apply(&ann, vec![("gold", storage_model::Change::Incr(1))])
            .await
            .counters,
        vec![2]
    );
}

/// A restart between a commit and its settle forgot nothing, and another one forgot the commit.
pub async fn a_commit_that_was_not_settled_is_told_from_a_forgotten_one(h: &Harness) {
    let [ann, bob, eve, joe] = <[Owner; 4]>::try_from(h.owners_of_one_partition(4)).unwrap();
    let partition = h.partition(&ann);
    let collect = async |owner: &Owner| {
        let collected = h
            .store()
            .marks
            .collect(partition, &[(owner.clone(), vec![field("gold")])], None)
            .await
            .unwrap();
        assert!(collected.reaches >= collected.reads[0].header.unwrap().version);
        collected.reaches
    };
    h.set(&ann, "gold", "1").await;
    let reaches = collect(&ann).await;
    assert!(h.adopt_landed(partition, 2, reaches, true).await);
    let record = h.record(partition).await;
    assert_eq!(
        (
            record.generation,
            record.landed,
            record.source,
            record.collected
        ),
        (Epoch(1), reaches, reaches, reaches)
    );

    h.set(&bob, "gold", "2").await;
    let reaches = collect(&bob).await;
    assert!(h.adopt_landed(partition, 3, reaches, false).await);
    assert_eq!(
        h.record(partition).await.generation,
        Epoch(3),
        "somebody else may have landed it"
    );

    let version = h.set(&eve, "gold", "3").await;
    assert!(h.adopt_landed(partition, 4, version, true).await);
    assert_eq!(
        h.record(partition).await.generation,
        Epoch(4),
        "written, perhaps before somebody noticed a rewind, and never collected"
    );

    h.set(&joe, "gold", "4").await;
    let reaches = collect(&joe).await;
    assert!(h.adopt_landed(partition, 5, above(reaches, 1), true).await);
    assert_eq!(
        h.record(partition).await.generation,
        Epoch(5),
        "the landed version was never given here"
    );
}

/// A failover lost data that the database has.
pub async fn an_adoption_that_finds_a_rewind_raises_the_generation(h: &Harness) {
    let ann = owner("ann");
    let partition = h.partition(&ann);
    let version = h.set(&ann, "gold", "1").await;
    let landed = above(version, 7);
    assert!(h.adopt(partition, 2, landed).await);
    let record = h.record(partition).await;
    assert_eq!(
        (record.epoch, record.generation, record.landed),
        (Epoch(2), Epoch(2), landed)
    );
    assert!(record.source >= landed);
    assert_eq!(
        h.read(&ann).await.header.unwrap().generation,
        Epoch(1),
        "the hash is suspect"
    );
}

/// R5: a worker can hold marks of a snapshot that the hot tier has forgotten. A copy of the hot tier
/// has another snapshot, with other marks of the same owners.
pub async fn an_adoption_gives_a_leftover_snapshot_another_number(h: &Harness) {
    let ann = owner("ann");
    let (partition, lock) = (h.partition(&ann), h.lock(h.partition(&ann)).await);
    h.set(&ann, "gold", "1").await;
    h.snapshot(partition, &lock).await;
    let (before, marks) = (h.number(partition), h.scan(partition).await);
    let landed = h.record(partition).await.landed;
    assert!(h.adopt(partition, 2, landed).await);
    let settle = Settle {
        epoch: Epoch(2),
        marks: marks.clone(),
        ..h.settling(partition, Some(&lock))
    };
    assert_eq!(settle.snapshot, before);
    assert_eq!(h.store().marks.settle(&settle).await.unwrap().cleared, 0);
    assert_eq!(h.scan(partition).await, marks);

    let again = h.store().marks.snapshot(partition, &lock).await.unwrap();
    let Snapshot::Leftover(snapshot) = again else {
        panic!("{again:?}")
    };
    assert!(snapshot > before);
    let settle = Settle { snapshot, ..settle };
    assert_eq!(h.store().marks.settle(&settle).await.unwrap().cleared, 1);
}

/// R14: the database may have rows by now that it lacked when the hot tier's copy was made.
pub async fn a_negative_answer_from_before_a_rewind_is_not_believed(h: &Harness) {
    let [ann, bob] = <[Owner; 2]>::try_from(h.owners_of_one_partition(2)).unwrap();
    let partition = h.partition(&ann);
    h.make_absent(&ann).await;
    assert!(h.observe(&ann).await.marker.is_absent());
    let landed = above(h.record(partition).await.landed, 7);
    assert!(h.adopt(partition, 2, landed).await);
    assert!(h.observe(&ann).await.marker.is_unknown());
    h.set(&ann, "gold", "1").await;
    assert!(
        !h.read(&ann).await.header.unwrap().complete,
        "other fields may have landed"
    );
    h.make_absent(&bob).await;
    assert!(
        h.observe(&bob).await.marker.is_absent(),
        "a later answer is believed"
    );
}

/// R14: even if no landed data is missing, since the rows may belong to another database.
pub async fn an_adoption_that_compares_all_raises_the_generation(h: &Harness) {
    let ann = owner("ann");
    let partition = h.partition(&ann);
    h.make_absent(&ann).await;
    h.set(&ann, "gold", "1").await;
    let seen = h
        .store()
        .partitions
        .partition_states(&[partition])
        .await
        .remove(0)
        .unwrap();
    let (epoch, last_version) = (Epoch(2), Version::ZERO);
    let adopt = Adopt {
        partition,
        seen,
        epoch,
        stamp: storage_model::Stamp::NONE,
        until: storage_model::Timestamp(u64::MAX),
        last_version,
        landed_here: true,
        compare_all: true,
        feed: storage_model::Position::ZERO,
        database: None,
    };
    assert_eq!(h.store().partitions.adopt(&[adopt]).await, [Ok(true)]);
    assert_eq!(h.record(partition).await.generation, epoch);
    assert!(h.read(&ann).await.header.unwrap().suspect);
}

/// R14: nothing is written or believed before the server is compared with the database.
pub async fn another_incarnation_stops_all_that_needs_proof(h: &Harness) {
    let ann = owner("ann");
    let partition = h.partition(&ann);
    h.make_absent(&ann).await;
    h.set(&ann, "gold", "1").await;
    let lock = h.lock(partition).await;
    h.rig().reincarnate().await;
    let observed = h
        .store()
        .owners
        .observe(std::slice::from_ref(&ann))
        .await
        .remove(0);
    assert_unprepared(h, &ann, Epoch(1)).await;
    let snapshot = h
        .store()
        .marks
        .snapshot(partition, &lock)
        .await
        .unwrap_err();
    assert_eq!(snapshot.kind, HotKind::Unprepared(partition));
    for change in [set("2"), storage_model::Change::Incr(1)] {
        let write = h.mutation(&ann, vec![("gold", change)]).await;
        let error = h.try_send(&write, None).await.unwrap_err();
        assert_eq!(
            (error.kind, error.outcome),
            (HotKind::Unprepared(partition), Outcome::NotApplied)
        );
    }
    let state = h
        .store()
        .partitions
        .partition_states(&[partition])
        .await
        .remove(0)
        .unwrap();
    assert!(!state.is_current() && state.record.is_some());
    assert!(h.adopt(partition, 2, Version::ZERO).await);
    assert!(
        h.store()
            .partitions
            .partition_states(&[partition])
            .await
            .remove(0)
            .unwrap()
            .is_current()
    );
    assert_eq!(h.observe(&ann).await.epoch, Epoch(2));
    match observed {
        Ok(unnoticed) => assert_eq!(
            h.fill(&all_rows(&ann, unnoticed, vec![])).await,
            Filled::Refused
        ),
        Err(error) => assert_eq!(error.kind, HotKind::Unprepared(partition)),
    }
    let incr = h
        .mutation(&ann, vec![("gold", storage_model::Change::Incr(1))])
        .await;
    assert_eq!(applied(h.send(&incr, None).await).counters, vec![2]);
}

/// Monotonic.
pub async fn raise_landed_never_lowers(h: &Harness) {
    let (low, high) = (Version::new(5).unwrap(), Version::new(9).unwrap());
    for (raise, landed) in [(low, low), (high, high), (low, high), (Version::ZERO, high)] {
        h.store()
            .partitions
            .raise_landed(Partition(2), Epoch(1), raise)
            .await
            .unwrap();
        assert_eq!(h.record(Partition(2)).await.landed, landed);
    }
    assert_eq!(h.record(Partition(3)).await.landed, Version::ZERO);
}

/// Under one epoch.
pub async fn raise_landed_needs_the_epoch(h: &Harness) {
    for epoch in [Epoch(0), Epoch(2)] {
        let error = h
            .store()
            .partitions
            .raise_landed(Partition(2), epoch, Version::MAX)
            .await
            .unwrap_err();
        assert_eq!(
            (error.kind, error.outcome),
            (HotKind::EpochMoved, Outcome::NotApplied)
        );
    }
    assert_eq!(h.record(Partition(2)).await.landed, Version::ZERO);
}

/// Only a caller that saw the present pairing can record a database.
pub async fn a_database_is_noted_only_by_who_saw_the_pairing_that_is_there(h: &Harness) {
    let (store, ids) = (h.store(), SeededIds::new(3));
    assert_eq!(store.partitions.partition_count(), 4);
    store.tier.check().await.unwrap();
    let blank = store.tier.pairing().await.unwrap();
    assert_eq!(blank.paired, None);
    let paired = |since| HotPaired {
        token: Token::draw(&ids),
        database: Token::draw(&ids),
        partitions: 4,
        layout: LAYOUT,
        since: Timestamp(since),
    };
    let (first, second) = (paired(1), paired(2));
    let elsewhere = HotPairing {
        incarnation: "another".into(),
        ..blank.clone()
    };
    assert!(
        !store.tier.pair(&elsewhere, &first).await.unwrap(),
        "it was meant for another server"
    );
    assert!(store.tier.pair(&blank, &first).await.unwrap());
    assert!(
        !store.tier.pair(&blank, &second).await.unwrap(),
        "it is not blank any more"
    );
    let seen = store.tier.pairing().await.unwrap();
    assert_eq!(
        (seen.paired, &seen.incarnation),
        (Some(first), &blank.incarnation)
    );
    assert!(seen.now >= blank.now && seen.prefix == blank.prefix);
    assert!(store.tier.pair(&seen, &second).await.unwrap());
    assert_eq!(store.tier.pairing().await.unwrap().paired, Some(second));
}
