//! Landed marks on probation (H33).

use storage_model::{Change, DatabaseId, Epoch, Evicted, Owner, Partition, Version};

use super::field;
use super::harness::{
    Harness, above, accepted, all_rows, fault, landed_rows, live, lock_of, owner, set,
};
use crate::{
    Adopt, Entry, Expire, HotKind, Lock, Map, Mutated, Probation, Refusal, Rejected, Settle,
    Snapshot, Window,
};

async fn entries(h: &Harness, partition: Partition, map: Map) -> Vec<Entry> {
    h.store()
        .marks
        .scan(partition, map, 0, 100)
        .await
        .unwrap()
        .entries
}

async fn versions(h: &Harness, partition: Partition, map: Map) -> Vec<Version> {
    entries(h, partition, map)
        .await
        .into_iter()
        .map(|entry| entry.version)
        .collect()
}

/// Lands all marks, and puts them on probation.
pub(super) async fn land(h: &Harness, partition: Partition, lock: &Lock) {
    while h.snapshot(partition, lock).await != Snapshot::Empty {
        let record = h.record(partition).await;
        let marks = h.scan(partition).await.into_iter().collect();
        let (epoch, landed, lock) = (record.epoch, record.landed, Some(lock.clone()));
        let settle = Settle {
            partition,
            lock,
            epoch,
            snapshot: h.number(partition),
            landed,
            marks,
            rows: vec![],
            probation: true,
        };
        h.store().marks.settle(&settle).await.unwrap();
    }
}

/// The window that leaves next.
pub(super) async fn leave(h: &Harness, partition: Partition, lock: &Lock) -> Window {
    match h
        .store()
        .probations
        .probation(partition, lock)
        .await
        .unwrap()
    {
        Probation::Leaves(window) => window,
        other => panic!("{other:?}"),
    }
}

pub(super) async fn expire(
    h: &Harness,
    partition: Partition,
    lock: &Lock,
    window: Window,
    entries: Vec<Entry>,
) -> u32 {
    h.store()
        .probations
        .expire(&Expire {
            partition,
            lock: lock.clone(),
            window,
            entries,
        })
        .await
        .unwrap()
}

pub(super) async fn requeue(h: &Harness, partition: Partition, lock: &Lock) -> u32 {
    let mut lived = 0;
    for map in [Map::Expiring, Map::Landed] {
        lived += h
            .store()
            .probations
            .requeue(partition, lock, &entries(h, partition, map).await)
            .await
            .unwrap();
    }
    lived
}

async fn on_probation(h: &Harness, id: &str) -> (Owner, Partition, Lock, Version) {
    let owner = owner(id);
    let partition = h.partition(&owner);
    let version = h.set(&owner, "gold", "1").await;
    let lock = h.lock(partition).await;
    land(h, partition, &lock).await;
    (owner, partition, lock, version)
}

/// R2: its data may have to land again.
pub async fn a_landed_mark_on_probation_keeps_its_hash(h: &Harness) {
    let (ann, partition, _, version) = on_probation(h, "ann").await;
    let peek = h
        .store()
        .partitions
        .peek(&[partition])
        .await
        .remove(0)
        .unwrap();
    assert_eq!(
        (peek.live, peek.snapshot, peek.probation, peek.requeue),
        (0, 0, 1, false)
    );
    assert_eq!(versions(h, partition, Map::Landed).await, [version]);
    assert!(h.is_marked(&ann).await);
    h.assert_lasting(&ann).await;
}

/// One entry of a name in each map.
pub async fn a_mark_that_lands_again_on_probation_keeps_the_greater_version(h: &Harness) {
    let (ann, partition, lock, _) = on_probation(h, "ann").await;
    let second = h.set(&ann, "gold", "2").await;
    assert!(
        h.is_marked(&ann).await,
        "one mark is on probation, one is unlanded"
    );
    land(h, partition, &lock).await;
    assert!(h.is_marked(&ann).await);
    assert_eq!(versions(h, partition, Map::Landed).await, [second]);
    h.assert_lasting(&ann).await;
}

/// Marks that landed before the window left.
pub async fn the_marks_of_a_window_that_left_go_and_the_hash_may_expire(h: &Harness) {
    let (ann, partition, lock, version) = on_probation(h, "ann").await;
    let window = leave(h, partition, &lock).await;
    assert_eq!(
        (
            entries(h, partition, Map::Landed).await,
            versions(h, partition, Map::Expiring).await
        ),
        (vec![], vec![version])
    );
    assert_eq!(leave(h, partition, &lock).await, window);
    let expiring = entries(h, partition, Map::Expiring).await;
    assert_eq!(expire(h, partition, &lock, window, expiring).await, 1);
    assert!(!h.is_marked(&ann).await);
    h.assert_ends(&ann).await;
    assert_eq!(
        h.store()
            .probations
            .probation(partition, &lock)
            .await
            .unwrap(),
        Probation::Empty
    );
}

/// As R4.
pub async fn a_window_is_never_overwritten_by_the_next(h: &Harness) {
    let (ann, partition, lock, first) = on_probation(h, "ann").await;
    let window = leave(h, partition, &lock).await;
    let second = h.set(&ann, "gold", "2").await;
    land(h, partition, &lock).await;
    assert_eq!(leave(h, partition, &lock).await, window);
    assert_eq!(versions(h, partition, Map::Expiring).await, [first]);
    assert_eq!(versions(h, partition, Map::Landed).await, [second]);
    assert!(h.is_marked(&ann).await);
    let expiring = entries(h, partition, Map::Expiring).await;
    assert_eq!(expire(h, partition, &lock, window, expiring).await, 1);
    assert!(h.is_marked(&ann).await);
    h.assert_lasting(&ann).await;
    let next = leave(h, partition, &lock).await;
    assert!(next != window && next.epoch == window.epoch);
    assert_eq!(versions(h, partition, Map::Expiring).await, [second]);
}

/// A worker can't end a probation that it has not looked at.
pub async fn expire_needs_the_lock_the_epoch_and_the_window(h: &Harness) {
    let (ann, partition, lock, _) = on_probation(h, "ann").await;
    let window = leave(h, partition, &lock).await;
    let expiring = entries(h, partition, Map::Expiring).await;
    let good = Expire {
        partition,
        lock,
        window,
        entries: expiring,
    };
    let stranger = Expire {
        lock: lock_of("worker"),
        ..good.clone()
    };
    assert_eq!(
        h.store()
            .probations
            .expire(&stranger)
            .await
            .unwrap_err()
            .kind,
        HotKind::LockLost
    );
    let late = Expire {
        window: Window {
            epoch: Epoch(0),
            ..window
        },
        ..good.clone()
    };
    assert_eq!(
        h.store().probations.expire(&late).await.unwrap_err().kind,
        HotKind::EpochMoved
    );
    let other = Expire {
        window: Window {
            number: window.number + 1,
            ..window
        },
        ..good.clone()
    };
    assert_eq!(h.store().probations.expire(&other).await.unwrap(), 0);
    assert!(h.is_marked(&ann).await);
    assert_eq!(h.store().probations.expire(&good).await.unwrap(), 1);
    assert_eq!(
        h.store().probations.expire(&good).await.unwrap(),
        0,
        "a repeat is harmless"
    );
}

/// H33: marks of commits that the database may have lost land again, and none of them goes before.
pub async fn a_change_of_the_epoch_makes_marks_on_probation_live_again(h: &Harness) {
    let (ann, partition, lock, first) = on_probation(h, "ann").await;
    let window = leave(h, partition, &lock).await;
    let second = h.set(&ann, "bag", "x").await;
    land(h, partition, &lock).await;
    assert!(h.adopt(partition, 2, Version::ZERO).await);
    let peek = h
        .store()
        .partitions
        .peek(&[partition])
        .await
        .remove(0)
        .unwrap();
    assert_eq!((peek.live, peek.probation, peek.requeue), (0, 2, true));
    assert_eq!(
        h.store()
            .probations
            .probation(partition, &lock)
            .await
            .unwrap(),
        Probation::Lost
    );
    let early = Window {
        epoch: Epoch(2),
        ..window
    };
    let expiring = entries(h, partition, Map::Expiring).await;
    assert_eq!(
        expire(h, partition, &lock, early, expiring).await,
        0,
        "of the epoch before"
    );
    assert_eq!(
        h.store()
            .probations
            .requeue(partition, &lock_of("worker"), &[])
            .await
            .unwrap_err()
            .kind,
        HotKind::LockLost
    );
    assert_eq!(requeue(h, partition, &lock).await, 1);
    let peek = h
        .store()
        .partitions
        .peek(&[partition])
        .await
        .remove(0)
        .unwrap();
    assert_eq!(
        (
            peek.live,
            peek.probation,
            peek.requeue,
            peek.oldest().is_some()
        ),
        (1, 0, false, true)
    );
    let live = entries(h, partition, Map::Dirty).await;
    assert!(
        second > first && live[0].version == second,
        "one mark, with the greater version"
    );
    assert_eq!(
        live[0].mark.as_ref().unwrap().fields,
        [field("bag"), field("gold")],
        "and the fields of both"
    );
    assert!(h.is_marked(&ann).await);
    h.assert_lasting(&ann).await;
    land(h, partition, &lock).await;
    assert_eq!(
        requeue(h, partition, &lock).await,
        0,
        "a mark that landed in this epoch stays on probation"
    );
    assert_eq!(entries(h, partition, Map::Landed).await.len(), 1);
}

/// One name is in all maps.
pub async fn a_mark_that_becomes_live_again_never_lowers_a_newer_one(h: &Harness) {
    let (ann, partition, lock, _) = on_probation(h, "ann").await;
    leave(h, partition, &lock).await;
    h.set(&ann, "gold", "2").await;
    land(h, partition, &lock).await;
    let third = h.set(&ann, "gold", "3").await;
    assert!(h.is_marked(&ann).await, "expiring, landed and unlanded");
    assert!(h.adopt(partition, 2, Version::ZERO).await);
    requeue(h, partition, &lock).await;
    assert_eq!(versions(h, partition, Map::Dirty).await, [third]);
    assert!(h.is_marked(&ann).await);
    assert!(
        !h.store()
            .partitions
            .peek(&[partition])
            .await
            .remove(0)
            .unwrap()
            .requeue
    );
    h.assert_lasting(&ann).await;
    h.snapshot(partition, &lock).await;
    let last = h.scan(partition).await;
    assert_eq!(
        h.settle(partition, Some(&lock), &last)
            .await
            .unwrap()
            .cleared,
        1
    );
    h.assert_ends(&ann).await;
}

/// A row that was rejected before may be lost, too.
pub async fn an_error_mark_whose_row_was_committed_goes_on_probation(h: &Harness) {
    let ann = owner("ann");
    let partition = h.partition(&ann);
    let version = h.set(&ann, "gold", "1").await;
    let lock = h.lock(partition).await;
    h.snapshot(partition, &lock).await;
    let source = h.scan(partition).await.pop();
    let faults = vec![fault("gold", version, "too long")];
    h.reject(
        partition,
        &lock,
        vec![Rejected {
            leaves: Vec::new(),
            source,
            owner: Some(ann.clone()),
            faults,
        }],
    )
    .await
    .unwrap();
    let rows = vec![(ann.clone(), field("gold"), above(version, 5))];
    let settle = Settle {
        landed: version,
        rows: landed_rows(rows),
        probation: true,
        ..h.settling(partition, None)
    };
    assert_eq!(
        h.store()
            .marks
            .settle(&settle)
            .await
            .unwrap()
            .errors_cleared,
        1
    );
    assert_eq!(versions(h, partition, Map::Landed).await, [version]);
    assert!(h.is_marked(&ann).await);
    assert!(h.adopt(partition, 2, Version::ZERO).await);
    assert_eq!(requeue(h, partition, &lock).await, 1);
    assert_eq!(versions(h, partition, Map::Dirty).await, [version]);
}

/// The landed fields of such a mark may be lost like all others.
pub async fn what_landed_of_a_refused_mark_goes_on_probation(h: &Harness) {
    let ann = owner("ann");
    let partition = h.partition(&ann);
    h.make_absent(&ann).await;
    h.apply(&ann, vec![("bag", set("x")), ("gold", set("1"))])
        .await;
    let lock = h.lock(partition).await;
    h.snapshot(partition, &lock).await;
    let source = h.scan(partition).await.pop().unwrap();
    let version = source.version;
    let rejected = |field: &str| Rejected {
        leaves: Vec::new(),
        source: Some(source.clone()),
        owner: Some(ann.clone()),
        faults: vec![fault(field, version, "bad")],
    };
    h.reject_and_keep(partition, &lock, vec![rejected("gold")], true)
        .await
        .unwrap();
    h.reject_and_keep(partition, &lock, vec![rejected("gold")], true)
        .await
        .unwrap();
    let peek = h
        .store()
        .partitions
        .peek(&[partition])
        .await
        .remove(0)
        .unwrap();
    assert_eq!(
        (peek.snapshot, peek.errors, peek.probation),
        (0, 1, 1),
        "a repeat is harmless"
    );
    assert!(h.is_marked(&ann).await);
    assert!(h.adopt(partition, 2, Version::ZERO).await);
    assert_eq!(requeue(h, partition, &lock).await, 1);
    assert_eq!(versions(h, partition, Map::Dirty).await, [version]);
    assert!(
        h.is_marked(&ann).await,
        "one mark must land again, one is rejected"
    );

    h.snapshot(partition, &lock).await;
    let both = Rejected {
        faults: vec![fault("bag", version, "bad"), fault("gold", version, "bad")],
        ..rejected("gold")
    };
    h.reject_and_keep(partition, &lock, vec![both], true)
        .await
        .unwrap();
    let peek = h
        .store()
        .partitions
        .peek(&[partition])
        .await
        .remove(0)
        .unwrap();
    assert_eq!(
        (peek.live, peek.snapshot, peek.errors, peek.probation),
        (0, 0, 1, 0),
        "nothing of it has landed"
    );
}

/// Eviction and purge wait, as for unlanded data.
pub async fn eviction_and_purge_wait_for_the_end_of_the_probation(h: &Harness) {
    let ann = owner("ann");
    h.make_absent(&ann).await;
    h.set(&ann, "gold", "1").await;
    h.apply(&ann, vec![("gold", Change::Remove)]).await;
    let partition = h.partition(&ann);
    let lock = h.lock(partition).await;
    land(h, partition, &lock).await;
    assert_eq!(
        h.change(&ann, vec![("gold", Change::Purge)]).await,
        Mutated::Refused(Refusal::NotLanded)
    );
    assert_eq!(
        h.store()
            .owners
            .evict(std::slice::from_ref(&ann))
            .await
            .remove(0)
            .unwrap(),
        Evicted::WhenLanded
    );
    let window = leave(h, partition, &lock).await;
    let expiring = entries(h, partition, Map::Expiring).await;
    expire(h, partition, &lock, window, expiring).await;
    assert_eq!(h.read(&ann).await.header, None);
}

/// A worker reads it with the values, for the fence.
pub async fn the_record_names_the_database_that_is_landed_to(h: &Harness) {
    let partition = Partition(0);
    let database = async || {
        let collected = h.store().marks.collect(partition, &[], None).await.unwrap();
        assert_eq!(h.record(partition).await.database, collected.database);
        collected.database
    };
    assert_eq!(database().await, None);
    for (epoch, named, kept) in [
        (2, Some(7), 7),
        (3, Some(u64::MAX), u64::MAX),
        (4, None, u64::MAX),
    ] {
        let seen = h
            .store()
            .partitions
            .partition_states(&[partition])
            .await
            .remove(0)
            .unwrap();
        let adopt = Adopt {
            partition,
            seen,
            epoch: Epoch(epoch),
            stamp: storage_model::Stamp::NONE,
            until: storage_model::Timestamp(u64::MAX),
            last_version: Version::ZERO,
            landed_here: false,
            compare_all: false,
            feed: storage_model::Position::ZERO,
            database: named.map(DatabaseId),
        };
        assert_eq!(h.store().partitions.adopt(&[adopt]).await, [Ok(true)]);
        assert_eq!(database().await, Some(DatabaseId(kept)));
    }
}

/// R6: they belong to the hash that was lost. Nothing joins them.
pub async fn marks_on_probation_of_a_hash_that_was_lost_are_put_aside(h: &Harness) {
    let (ann, partition, lock, first) = on_probation(h, "ann").await;
    let window = leave(h, partition, &lock).await;
    let second = h.set(&ann, "bag", "2").await;
    land(h, partition, &lock).await;
    h.rig().lose(&ann).await;
    let load = all_rows(
        &ann,
        h.observe(&ann).await,
        vec![("gold", live("1"), first)],
    );
    accepted(h.fill(&load).await);
    let third = h.set(&ann, "gold", "3").await;
    land(h, partition, &lock).await;
    let mut landed = versions(h, partition, Map::Landed).await;
    landed.sort();
    assert_eq!(
        (versions(h, partition, Map::Expiring).await, landed),
        (vec![first], vec![second, third])
    );
    let expiring = entries(h, partition, Map::Expiring).await;
    assert_eq!(expire(h, partition, &lock, window, expiring).await, 1);
    h.assert_lasting(&ann).await;
    assert!(h.adopt(partition, 2, Version::ZERO).await);
    assert_eq!(requeue(h, partition, &lock).await, 2);
    let mut live = entries(h, partition, Map::Dirty).await;
    live.sort_by_key(|entry| entry.version);
    let of = |entry: &Entry| (entry.version, entry.is_aside());
    assert_eq!(
        live.iter().map(of).collect::<Vec<_>>(),
        [(second, true), (third, false)]
    );
}

/// The keys of many owners go in calls of a bounded size.
pub async fn thousands_of_marks_go_on_and_off_probation(h: &Harness) {
    const MARKS: usize = 1_500;
    let owners = h.owners_of_one_partition(MARKS);
    let partition = h.partition(&owners[0]);
    for owner in &owners {
        h.set(owner, "gold", "1").await;
    }
    let lock = h.lock(partition).await;
    land(h, partition, &lock).await;
    let all = h
        .store()
        .marks
        .scan(partition, Map::Landed, 0, 10 * MARKS)
        .await
        .unwrap();
    assert_eq!((all.entries.len(), all.next), (MARKS, None));
    assert!(h.adopt(partition, 2, Version::ZERO).await);
    let lived = h
        .store()
        .probations
        .requeue(partition, &lock, &all.entries)
        .await
        .unwrap();
    assert_eq!(usize::try_from(lived).unwrap(), MARKS);
    land(h, partition, &lock).await;
    let window = leave(h, partition, &lock).await;
    let gone = expire(h, partition, &lock, window, all.entries).await;
    assert_eq!(usize::try_from(gone).unwrap(), MARKS);
    assert_eq!(
        h.store()
            .partitions
            .peek(&[partition])
            .await
            .remove(0)
            .unwrap()
            .probation,
        0
    );
}
