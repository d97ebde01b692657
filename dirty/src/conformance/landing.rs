//! Snapshots, collecting and settling (R2 to R6).

use std::time::Duration;

use storage_model::{Cell, Change, Epoch, Position, Version};

use super::field;
use super::harness::{
    Harness, accepted, all_rows, applied, fault, landed_rows, live, lock_of, owner, removed, set,
};
use crate::{Entry, HotKind, Rejected, Settle, Settled, Snapshot};

/// Nothing to do.
pub async fn nothing_marked_is_an_empty_snapshot(h: &Harness) {
    for partition in h.partitions() {
        let lock = h.lock(partition).await;
        assert_eq!(h.snapshot(partition, &lock).await, Snapshot::Empty);
        assert!(h.scan(partition).await.is_empty());
    }
}

/// Writes after the snapshot wait for the next.
pub async fn a_snapshot_holds_what_was_marked_and_excludes_later_writes(h: &Harness) {
    let ann = owner("ann");
    let partition = h.partition(&ann);
    let first = h.set(&ann, "gold", "1").await;
    let lock = h.lock(partition).await;
    assert_eq!(
        h.snapshot(partition, &lock).await,
        Snapshot::Taken(h.number(partition))
    );
    let second = h.set(&ann, "gold", "2").await;
    h.set(&ann, "bag", "x").await;
    let entries = h.scan(partition).await;
    assert_eq!(
        entries
            .iter()
            .map(|entry| entry.version)
            .collect::<Vec<_>>(),
        vec![first]
    );
    assert!(h.is_marked(&ann).await);
    h.settle(partition, Some(&lock), &entries).await.unwrap();
    assert!(h.is_marked(&ann).await);
    let before = h.number(partition);
    assert_eq!(
        h.snapshot(partition, &lock).await,
        Snapshot::Taken(h.number(partition))
    );
    assert!(
        h.number(partition) > before,
        "each snapshot has a number of its own"
    );
    let entries = h.scan(partition).await;
    let [entry] = entries.as_slice() else {
        panic!("one mark, not {entries:?}")
    };
    assert!(
        entry.version > second
            && entry.mark.as_ref().unwrap().fields == [field("bag"), field("gold")]
    );
}

/// R4.
pub async fn a_leftover_snapshot_is_never_overwritten(h: &Harness) {
    let owners = h.owners_of_one_partition(2);
    let partition = h.partition(&owners[0]);
    for owner in &owners {
        h.set(owner, "gold", "1").await;
    }
    let lock = h.lock(partition).await;
    h.snapshot(partition, &lock).await;
    let (left, number) = (h.scan(partition).await, h.number(partition));
    h.unlock(partition, &lock).await;
    h.set(&owners[0], "gold", "2").await;
    let lock = h.lock(partition).await;
    assert_eq!(
        h.snapshot(partition, &lock).await,
        Snapshot::Leftover(number)
    );
    assert_eq!(h.scan(partition).await, left);
    let peek = h
        .store()
        .partitions
        .peek(&[partition])
        .await
        .remove(0)
        .unwrap();
    assert_eq!((peek.live, peek.snapshot), (1, 2));
    h.settle(partition, Some(&lock), &left[..1]).await.unwrap();
    assert_eq!(
        h.snapshot(partition, &lock).await,
        Snapshot::Leftover(number),
        "until the last of its marks"
    );
    h.settle(partition, Some(&lock), &left).await.unwrap();
    assert!(matches!(h.snapshot(partition, &lock).await, Snapshot::Taken(next) if next > number));
}

/// R5: a late worker has marks of a snapshot that is gone.
pub async fn settle_clears_only_marks_of_the_same_snapshot(h: &Harness) {
    let ann = owner("ann");
    let partition = h.partition(&ann);
    h.set(&ann, "gold", "1").await;
    let lock = h.lock(partition).await;
    h.snapshot(partition, &lock).await;
    let (old, number) = (h.scan(partition).await, h.number(partition));
    h.set(&ann, "gold", "2").await;
    h.settle(partition, Some(&lock), &old).await.unwrap();
    h.assert_lasting(&ann).await;
    h.snapshot(partition, &lock).await;
    let late = Settle {
        snapshot: number,
        marks: old,
        ..h.settling(partition, Some(&lock))
    };
    assert_eq!(
        h.store().marks.settle(&late).await.unwrap(),
        Settled::default(),
        "a mark of the same name, in the next snapshot"
    );
    assert_eq!(h.scan(partition).await.len(), 1);
    assert!(h.is_marked(&ann).await);
    h.assert_lasting(&ann).await;
}

/// H27, R15.
pub async fn settle_needs_the_lock_and_the_epoch(h: &Harness) {
    let ann = owner("ann");
    let partition = h.partition(&ann);
    let version = h.set(&ann, "gold", "1").await;
    let lock = h.lock(partition).await;
    h.snapshot(partition, &lock).await;
    let marks: Vec<_> = h.scan(partition).await.into_iter().collect();
    let good = Settle {
        landed: version,
        marks,
        ..h.settling(partition, Some(&lock))
    };
    let stranger = Settle {
        lock: Some(lock_of("worker")),
        ..good.clone()
    };
    assert_eq!(
        h.store().marks.settle(&stranger).await.unwrap_err().kind,
        HotKind::LockLost
    );
    for epoch in [Epoch(0), Epoch(2)] {
        let other = Settle {
            epoch,
            ..good.clone()
        };
        assert_eq!(
            h.store().marks.settle(&other).await.unwrap_err().kind,
            HotKind::EpochMoved
        );
    }
    assert_eq!(
        (h.is_marked(&ann).await, h.record(partition).await.landed),
        (true, Version::ZERO)
    );
    assert_eq!(h.store().marks.settle(&good).await.unwrap().cleared, 1);
}

/// A flush leaves marks to the worker.
pub async fn settle_without_a_lock_leaves_marks(h: &Harness) {
    let ann = owner("ann");
    let partition = h.partition(&ann);
    let version = h.set(&ann, "gold", "1").await;
    let lock = h.lock(partition).await;
    h.snapshot(partition, &lock).await;
    let marks: Vec<_> = h.scan(partition).await.into_iter().collect();
    let settle = Settle {
        landed: version,
        marks,
        ..h.settling(partition, None)
    };
    assert_eq!(
        h.store().marks.settle(&settle).await.unwrap(),
        Settled::default()
    );
    assert_eq!(
        (h.is_marked(&ann).await, h.record(partition).await.landed),
        (true, version)
    );
    h.assert_lasting(&ann).await;
}

/// R14: the fence compares `landed`.
pub async fn settle_raises_landed(h: &Harness) {
    let ann = owner("ann");
    let partition = h.partition(&ann);
    let version = h.set(&ann, "gold", "1").await;
    let settle = |landed| Settle {
        landed,
        ..h.settling(partition, None)
    };
    h.store().marks.settle(&settle(version)).await.unwrap();
    assert_eq!(
        h.store()
            .marks
            .collect(partition, &[], None)
            .await
            .unwrap()
            .landed,
        version
    );
    h.store()
        .marks
        .settle(&settle(Version::new(5).unwrap()))
        .await
        .unwrap();
    assert_eq!(
        h.record(partition).await.landed,
        version,
        "and never lowers it"
    );
}

/// R2.
pub async fn the_last_mark_settled_gives_a_time_to_live(h: &Harness) {
    let ann = owner("ann");
    let partition = h.partition(&ann);
    h.set(&ann, "gold", "1").await;
    h.set(&ann, "bag", "x").await;
    h.assert_lasting(&ann).await;
    let lock = h.lock(partition).await;
    h.snapshot(partition, &lock).await;
    let entries = h.scan(partition).await;
    h.settle(partition, Some(&lock), &entries).await.unwrap();
    assert!(!h.is_marked(&ann).await);
    h.assert_ends(&ann).await;
    h.set(&ann, "gold", "2").await;
    h.assert_lasting(&ann).await;
}

/// R2: in the dirty map, the snapshot and the error map.
pub async fn a_mark_in_any_map_keeps_the_hash(h: &Harness) {
    let ann = owner("ann");
    let partition = h.partition(&ann);
    h.set(&ann, "gold", "1").await;
    let lock = h.lock(partition).await;
    h.snapshot(partition, &lock).await;
    let rejected = h.scan(partition).await;
    let faults = vec![fault("gold", rejected[0].version, "too long")];
    let source = Some(rejected[0].clone());
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
    h.assert_lasting(&ann).await;
    h.set(&ann, "gold", "2").await;
    h.snapshot(partition, &lock).await;
    let snapshot = h.scan(partition).await;
    let version = h.set(&ann, "gold", "3").await;
    assert!(h.is_marked(&ann).await, "the same field in all three maps");
    h.settle(partition, Some(&lock), &snapshot).await.unwrap();
    assert!(h.is_marked(&ann).await);
    h.assert_lasting(&ann).await;
    h.snapshot(partition, &lock).await;
    let last = h.scan(partition).await;
    h.settle(partition, Some(&lock), &last).await.unwrap();
    assert!(h.is_marked(&ann).await);
    h.assert_lasting(&ann).await;
    let rows = vec![(ann.clone(), field("gold"), version)];
    let settle = Settle {
        landed: version,
        rows: landed_rows(rows),
        ..h.settling(partition, Some(&lock))
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
    assert!(!h.is_marked(&ann).await);
    h.assert_ends(&ann).await;
}

/// R3, H29.
pub async fn collect_returns_value_and_version_together(h: &Harness) {
    let owners = h.owners_of_one_partition(2);
    let (ann, bob) = (&owners[0], &owners[1]);
    h.apply(ann, vec![("gold", set("1")), ("bag", set("x"))])
        .await;
    let version = h.set(ann, "gold", "2").await;
    let bobs = h.set(bob, "gold", "9").await;
    let wanted = [
        (bob.clone(), vec![field("gold"), field("never")]),
        (ann.clone(), vec![field("gold")]),
        (ann.clone(), vec![]),
    ];
    let collected = h
        .store()
        .marks
        .collect(h.partition(ann), &wanted, None)
        .await
        .unwrap();
    assert_eq!(
        (collected.epoch, collected.landed),
        (Epoch(1), Version::ZERO)
    );
    let versions: Vec<_> = collected
        .reads
        .iter()
        .map(|read| read.header.unwrap().version)
        .collect();
    assert_eq!(versions, vec![bobs, version, version]);
    let cells: Vec<_> = collected.reads.into_iter().map(|read| read.cells).collect();
    let gold = |value: &str| vec![(field("gold"), live(value))];
    assert_eq!(
        cells,
        vec![
            gold("9"),
            gold("2"),
            vec![(field("bag"), live("x")), (field("gold"), live("2"))]
        ]
    );
}

/// R6: a hash that is made while a map names its owner tells its own marks from those of the lost
/// hash.
pub async fn a_hash_that_is_made_anew_says_when_it_was_born_and_the_old_mark_stays_apart(
    h: &Harness,
) {
    for by_fill in [false, true] {
        let ann = owner(if by_fill { "filled" } else { "written" });
        let partition = h.partition(&ann);
        let lost = h.set(&ann, "gold", "1").await;
        h.rig().lose(&ann).await;
        let load = all_rows(
            &ann,
            h.observe(&ann).await,
            vec![("gold", live("0"), Version::new(5).unwrap())],
        );
        if by_fill {
            accepted(h.fill(&load).await);
            h.assert_lasting(&ann).await;
        }
        let write = h.mutation(&ann, vec![("bag", set("x"))]).await;
        let load = (!by_fill).then_some(load);
        let version = applied(h.send(&write, load).await).version;
        let collected = h
            .store()
            .marks
            .collect(
                partition,
                &[(ann.clone(), vec![field("gold"), field("bag")])],
                None,
            )
            .await
            .unwrap();
        let header = collected.reads[0].header.unwrap();
        assert!(
            lost < header.born && header.born <= version && version == header.version,
            "{header:?}"
        );
        let lock = h.lock(partition).await;
        h.snapshot(partition, &lock).await;
        let mut marks: Vec<_> = h.scan(partition).await;
        marks.sort_by_key(|entry| entry.version);
        let of = |entry: &Entry| {
            let mut fields = entry.mark.clone().unwrap().fields;
            fields.sort();
            (entry.version, fields)
        };
        assert_eq!(
            marks.iter().map(of).collect::<Vec<_>>(),
            [
                (lost, vec![field("gold")]),
                (version, vec![field("bag"), field("gold")])
            ]
        );
        assert_eq!(
            marks.iter().map(Entry::is_aside).collect::<Vec<_>>(),
            [true, false]
        );
        let faults = vec![fault("gold", lost, "vanished")];
        let rejected = Rejected {
            leaves: Vec::new(),
            source: Some(marks[0].clone()),
            owner: Some(ann.clone()),
            faults,
        };
        h.settle(partition, Some(&lock), &marks[1..]).await.unwrap();
        h.assert_ends(&ann).await;
        assert_eq!(
            h.reject(partition, &lock, vec![rejected]).await,
            Ok(vec![true])
        );
        assert!(
            h.scan(partition).await.is_empty() && h.is_marked(&ann).await,
            "the error map names it"
        );
        h.assert_lasting(&ann).await;
        h.unlock(partition, &lock).await;
    }
}

/// R6: a load under way may bring rows from before the commit, and land them over it.
pub async fn marks_of_a_hash_that_is_gone_stay_until_they_are_told(h: &Harness) {
    let owners = h.owners_of_one_partition(2);
    let (ann, bob) = (owners[0].clone(), owners[1].clone());
    let partition = h.partition(&ann);
    h.set(&ann, "gold", "1").await;
    h.set(&bob, "gold", "1").await;
    let lock = h.lock(partition).await;
    h.snapshot(partition, &lock).await;
    let entries = h.scan(partition).await;
    h.rig().lose(&ann).await;
    let settled = h.settle(partition, Some(&lock), &entries).await.unwrap();
    assert_eq!(settled.cleared, 1, "that of the other owner");
    let left = h.scan(partition).await;
    assert_eq!(left.len(), 1);
    assert_eq!(left[0].mark.as_ref().map(|mark| &mark.owner), Some(&ann));

    let version = left[0].version;
    let rejected = Rejected {
        leaves: Vec::new(),
        source: Some(left[0].clone()),
        owner: Some(ann.clone()),
        faults: vec![fault("gold", version, "vanished")],
    };
    h.reject(partition, &lock, vec![rejected]).await.unwrap();
    let rows = vec![(ann.clone(), field("gold"), version)];
    let settle = Settle {
        landed: version,
        rows: landed_rows(rows),
        ..h.settling(partition, Some(&lock))
    };
    assert_eq!(
        h.store()
            .marks
            .settle(&settle)
            .await
            .unwrap()
            .errors_cleared,
        0
    );
    assert!(h.is_marked(&ann).await);
}

/// R6: a landing that read the former hash settles nothing of the new one.
pub async fn a_hash_that_is_made_anew_puts_the_mark_in_the_snapshot_aside(h: &Harness) {
    for by_fill in [true, false] {
        let ann = owner(if by_fill { "filled" } else { "written" });
        let partition = h.partition(&ann);
        let lost = h.set(&ann, "gold", "1").await;
        let lock = h.lock(partition).await;
        h.snapshot(partition, &lock).await;
        let entries = h.scan(partition).await;
        h.rig().lose(&ann).await;
        let old = vec![("gold", live("0"), Version::new(5).unwrap())];
        let load = all_rows(&ann, h.observe(&ann).await, old);
        if by_fill {
            accepted(h.fill(&load).await);
        } else {
            let write = h.mutation(&ann, vec![("bag", set("x"))]).await;
            applied(h.send(&write, Some(load)).await);
        }
        let left = h.scan(partition).await;
        assert_eq!(left.len(), 1);
        assert!(left[0].is_aside() && left[0].version == lost, "{left:?}");
        let settled = h.settle(partition, Some(&lock), &entries).await.unwrap();
        assert_eq!(settled.cleared, 0);
        assert_eq!(h.scan(partition).await, left);
        h.unlock(partition, &lock).await;
    }
}

/// R6: its rows can be those that a load brought.
pub async fn a_hash_that_is_made_anew_clears_no_error_mark_of_the_one_before(h: &Harness) {
    let ann = owner("ann");
    let partition = h.partition(&ann);
    let lost = h.set(&ann, "gold", "1").await;
    let lock = h.lock(partition).await;
    h.snapshot(partition, &lock).await;
    let rejected = Rejected {
        leaves: Vec::new(),
        source: h.scan(partition).await.pop(),
        owner: Some(ann.clone()),
        faults: vec![fault("gold", lost, "too long")],
    };
    h.reject(partition, &lock, vec![rejected]).await.unwrap();
    h.rig().lose(&ann).await;
    let old = vec![("gold", live("0"), Version::new(5).unwrap())];
    let load = all_rows(&ann, h.observe(&ann).await, old);
    let version = accepted(h.fill(&load).await).header.unwrap().version;
    let rows = vec![(ann.clone(), field("gold"), version)];
    let settle = Settle {
        landed: version,
        rows: landed_rows(rows),
        ..h.settling(partition, Some(&lock))
    };
    assert_eq!(
        h.store()
            .marks
            .settle(&settle)
            .await
            .unwrap()
            .errors_cleared,
        0
    );
    assert!(h.is_marked(&ann).await);
}

/// R6: any other hash has none.
pub async fn a_hash_that_is_made_while_no_map_names_its_owner_has_no_birth(h: &Harness) {
    let (ann, _) = h.cold("ann").await;
    h.set(&ann, "gold", "2").await;
    let collected = h
        .store()
        .marks
        .collect(
            h.partition(&ann),
            &[(ann.clone(), vec![field("gold")])],
            None,
        )
        .await
        .unwrap();
    assert_eq!(collected.reads[0].header.unwrap().born, Version::ZERO);
}

/// Only a tombstone lands as deleted (R6).
pub async fn collect_returns_tombstones_and_purged_fields(h: &Harness) {
    let ann = owner("ann");
    h.apply(&ann, vec![("a", set("1")), ("b", set("2"))]).await;
    h.apply(&ann, vec![("a", Change::Remove), ("b", Change::Remove)])
        .await;
    h.land(&ann).await;
    h.apply(&ann, vec![("b", Change::Purge)]).await;
    let wanted = [(ann.clone(), vec![field("b"), field("a")])];
    let collected = h
        .store()
        .marks
        .collect(h.partition(&ann), &wanted, None)
        .await
        .unwrap();
    assert_eq!(
        collected.reads[0].cells,
        vec![(field("b"), Cell::Purged), (field("a"), removed("1"))]
    );
}

/// R6: missing is not null.
pub async fn collect_of_an_evicted_owner_has_no_header(h: &Harness) {
    let (ann, _) = h.cold("ann").await;
    let collected = h
        .store()
        .marks
        .collect(
            h.partition(&ann),
            &[(ann.clone(), vec![field("gold")])],
            None,
        )
        .await
        .unwrap();
    assert_eq!(collected.reads, vec![crate::HotRead::default()]);
}

/// A reply may be lost.
pub async fn a_settle_twice_is_harmless(h: &Harness) {
    let ann = owner("ann");
    let partition = h.partition(&ann);
    h.set(&ann, "gold", "1").await;
    let lock = h.lock(partition).await;
    h.snapshot(partition, &lock).await;
    let entries = h.scan(partition).await;
    h.set(&ann, "bag", "x").await;
    assert_eq!(
        h.settle(partition, Some(&lock), &entries)
            .await
            .unwrap()
            .cleared,
        1
    );
    assert_eq!(
        h.settle(partition, Some(&lock), &entries)
            .await
            .unwrap()
            .cleared,
        0
    );
    assert!(h.is_marked(&ann).await);
    h.assert_lasting(&ann).await;
}

/// The lock is checked in the same step.
pub async fn a_snapshot_needs_the_lock(h: &Harness) {
    let ann = owner("ann");
    let partition = h.partition(&ann);
    h.set(&ann, "gold", "1").await;
    let stranger = lock_of("stranger");
    assert_eq!(
        h.store()
            .marks
            .snapshot(partition, &stranger)
            .await
            .unwrap_err()
            .kind,
        HotKind::LockLost
    );
    let lock = h.lock(partition).await;
    assert_eq!(
        h.store()
            .marks
            .snapshot(partition, &stranger)
            .await
            .unwrap_err()
            .kind,
        HotKind::LockLost
    );
    h.unlock(partition, &lock).await;
    assert_eq!(
        h.store()
            .marks
            .snapshot(partition, &lock)
            .await
            .unwrap_err()
            .kind,
        HotKind::LockLost
    );
    let peek = h
        .store()
        .partitions
        .peek(&[partition])
        .await
        .remove(0)
        .unwrap();
    assert_eq!((peek.live, peek.snapshot), (1, 0));
}

/// The figures that an operator watches.
pub async fn peek_tells_sizes_age_and_holder(h: &Harness) {
    let ann = owner("ann");
    let partition = h.partition(&ann);
    let peek = async || {
        h.store()
            .partitions
            .peek(&[partition])
            .await
            .remove(0)
            .unwrap()
    };
    let empty = crate::PartitionPeek {
        last_note: Position::new(1, 0),
        has_record: true,
        ..crate::PartitionPeek::default()
    };
    assert_eq!(peek().await, empty.clone());
    let before = h.store().tier.time().await.unwrap();
    h.set(&ann, "gold", "1").await;
    let after = h.store().tier.time().await.unwrap();
    h.rig().advance(Duration::from_millis(5)).await;
    h.set(&ann, "bag", "1").await;
    let seen = peek().await;
    assert_eq!(
        (seen.live, seen.snapshot, seen.errors, seen.holder),
        (1, 0, 0, None)
    );
    let first = seen.live_since;
    assert!(
        first.is_some_and(|first| before <= first && first <= after),
        "{first:?}"
    );
    let lock = h.lock(partition).await;
    h.snapshot(partition, &lock).await;
    h.set(&ann, "gold", "2").await;
    let seen = peek().await;
    assert_eq!(
        (seen.live, seen.snapshot, seen.holder.as_deref()),
        (1, 1, Some("worker"))
    );
    assert_eq!(
        (seen.snapshot_since, seen.oldest()),
        (first, first),
        "the snapshot's are the oldest"
    );
    assert!(
        seen.live_since > first,
        "the dirty map that follows began later"
    );
    h.unlock(partition, &lock).await;
    h.land(&ann).await;
    assert_eq!(peek().await, empty);
}
