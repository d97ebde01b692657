//! The error map.

use std::time::Duration;

use storage_model::{Epoch, Owner, Partition, Version};

use super::field;
use super::harness::{Harness, above, fault, landed_rows, lock_of, owner, set};
use crate::{Entry, ErrorEntry, Fault, HotKind, Lock, Reject, Rejected, Settle, Snapshot};

/// An owner with one mark in the snapshot, and the lock.
async fn refused(h: &Harness) -> (Owner, Partition, Lock, Entry) {
    let ann = owner("ann");
    let partition = h.partition(&ann);
    h.apply(&ann, vec![("bag", set("x")), ("gold", set("1"))])
        .await;
    let lock = h.lock(partition).await;
    h.snapshot(partition, &lock).await;
    let entry = h.scan(partition).await.remove(0);
    (ann, partition, lock, entry)
}

async fn errors(h: &Harness, partition: Partition) -> Vec<ErrorEntry> {
    let page = h.store().marks.errors(partition, 0, 100).await.unwrap();
    assert_eq!(page.next, None);
    page.entries
}

/// Only the rejected fields move, each with its reason.
pub async fn reject_moves_a_mark_to_the_error_map_field_by_field(h: &Harness) {
    let (ann, partition, lock, entry) = refused(h).await;
    let before = h.store().tier.time().await.unwrap();
    let faults = vec![fault("gold", entry.version, "Data too long")];
    let rejected = Rejected {
        leaves: Vec::new(),
        source: Some(entry.clone()),
        owner: Some(ann.clone()),
        faults,
    };
    assert_eq!(
        h.reject(partition, &lock, vec![rejected.clone()]).await,
        Ok(vec![true])
    );
    assert_eq!(
        h.reject(partition, &lock, vec![rejected]).await,
        Ok(vec![false]),
        "it is not in the snapshot any more"
    );
    assert!(h.scan(partition).await.is_empty());
    let found = errors(h, partition).await;
    let [error] = found.as_slice() else {
        panic!("one error, not {found:?}")
    };
    assert_eq!(error.target, Some((ann.clone(), field("gold"))));
    assert_eq!(
        (error.version, error.attempts, error.code),
        (entry.version, 1, 1406)
    );
    assert_eq!(error.message, "Data too long");
    assert!(before <= error.first && error.first == error.last);
    assert_eq!(error.next.since(error.last), Duration::from_secs(1));
    assert!(h.is_marked(&ann).await);
    h.assert_lasting(&ann).await;
    let peek = h
        .store()
        .partitions
        .peek(&[partition])
        .await
        .remove(0)
        .unwrap();
    assert_eq!((peek.live, peek.snapshot, peek.errors), (0, 0, 1));
}

/// H46.
pub async fn attempts_are_counted_and_delays_double(h: &Harness) {
    let (ann, partition, lock, entry) = refused(h).await;
    let again = |source: Option<Entry>| Rejected {
        leaves: Vec::new(),
        source,
        owner: Some(ann.clone()),
        faults: vec![fault("gold", entry.version, "bad")],
    };
    h.reject(partition, &lock, vec![again(Some(entry.clone()))])
        .await
        .unwrap();
    let first = errors(h, partition).await.remove(0).first;
    for (attempts, seconds) in [(2, 2), (3, 3), (4, 3)] {
        h.rig().advance(Duration::from_millis(2)).await;
        assert_eq!(
            h.reject(partition, &lock, vec![again(None)]).await,
            Ok(vec![true])
        );
        let error = errors(h, partition).await.remove(0);
        assert_eq!((error.attempts, error.first), (attempts, first));
        assert!(error.last > first);
        assert_eq!(
            error.next.since(error.last),
            Duration::from_secs(seconds),
            "doubled, up to the longest"
        );
    }
    assert!(h.is_marked(&ann).await);
}

/// A newer error mark stays when a mark moves.
pub async fn the_greater_version_stays_in_the_error_map(h: &Harness) {
    let (ann, partition, lock, entry) = refused(h).await;
    let newer = above(entry.version, 5);
    let versions = [
        (entry.version, entry.version),
        (newer, newer),
        (entry.version, newer),
    ];
    for ((version, stays), source) in versions.into_iter().zip([Some(entry), None, None]) {
        let faults = vec![fault("gold", version, "bad")];
        let rejected = h
            .reject(
                partition,
                &lock,
                vec![Rejected {
                    leaves: Vec::new(),
                    source,
                    owner: Some(ann.clone()),
                    faults,
                }],
            )
            .await;
        assert_eq!(
            rejected,
            Ok(vec![version == stays]),
            "a newer error mark has replaced the retried one"
        );
        assert_eq!(errors(h, partition).await.remove(0).version, stays);
    }
    assert!(h.is_marked(&ann).await);
}

/// H27: one worker retries a field that another worker has landed. A mark that came back would keep
/// the next write from taking away the hash's time to live.
pub async fn a_field_that_was_landed_meanwhile_is_not_rejected_again(h: &Harness) {
    let (ann, partition, lock, entry) = refused(h).await;
    let faults = vec![fault("gold", entry.version, "bad")];
    let again = Rejected {
        leaves: Vec::new(),
        source: None,
        owner: Some(ann.clone()),
        faults: faults.clone(),
    };
    h.reject(
        partition,
        &lock,
        vec![Rejected {
            leaves: Vec::new(),
            source: Some(entry.clone()),
            owner: Some(ann.clone()),
            faults,
        }],
    )
    .await
    .unwrap();
    let rows = vec![(ann.clone(), field("gold"), entry.version)];
    let settle = Settle {
        landed: entry.version,
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
    h.reject(partition, &lock, vec![again]).await.unwrap();
    assert_eq!(
        (errors(h, partition).await.len(), h.is_marked(&ann).await),
        (0, false)
    );
    h.assert_ends(&ann).await;
    h.apply(&ann, vec![("bag", set("y"))]).await;
    h.assert_lasting(&ann).await;
}

/// H27: two workers on one snapshot.
pub async fn an_entry_that_another_worker_settled_is_not_rejected(h: &Harness) {
    let (ann, partition, lock, entry) = refused(h).await;
    h.settle(partition, Some(&lock), std::slice::from_ref(&entry))
        .await
        .unwrap();
    let faults = vec![fault("gold", entry.version, "bad")];
    h.reject(
        partition,
        &lock,
        vec![Rejected {
            leaves: Vec::new(),
            source: Some(entry),
            owner: Some(ann.clone()),
            faults,
        }],
    )
    .await
    .unwrap();
    assert_eq!(
        (errors(h, partition).await.len(), h.is_marked(&ann).await),
        (0, false)
    );
    h.assert_ends(&ann).await;
}

/// R5: a late worker with entries of a snapshot that is gone moves no entry of the next snapshot.
pub async fn entries_of_a_snapshot_that_is_gone_are_not_rejected(h: &Harness) {
    let (ann, partition, lock, entry) = refused(h).await;
    let late = h.number(partition);
    h.settle(partition, Some(&lock), std::slice::from_ref(&entry))
        .await
        .unwrap();
    let version = h
        .apply(&ann, vec![("bag", set("x")), ("gold", set("1"))])
        .await
        .version;
    h.snapshot(partition, &lock).await;
    let rejected = vec![Rejected {
        leaves: Vec::new(),
        source: Some(entry),
        owner: Some(ann.clone()),
        faults: vec![fault("gold", version, "bad")],
    }];
    let (retry_min, retry_max) = (Duration::from_secs(1), Duration::from_secs(3));
    let reject = Reject {
        partition,
        lock,
        epoch: Epoch(1),
        snapshot: late,
        retry_min,
        retry_max,
        probation: false,
        rejected,
    };
    assert_eq!(h.store().marks.reject(&reject).await, Ok(vec![false]));
    assert_eq!(
        (
            errors(h, partition).await.len(),
            h.scan(partition).await.len()
        ),
        (0, 1)
    );
}

/// Landing a field removes its error mark, if the error is not newer.
pub async fn a_newer_landing_clears_an_error_mark_and_an_older_does_not(h: &Harness) {
    let (ann, partition, lock, entry) = refused(h).await;
    let faults = vec![
        fault("gold", entry.version, "bad"),
        fault("bag", entry.version, "bad"),
    ];
    let rejected = Rejected {
        leaves: Vec::new(),
        source: Some(entry.clone()),
        owner: Some(ann.clone()),
        faults,
    };
    h.reject(partition, &lock, vec![rejected]).await.unwrap();
    assert_eq!(
        errors(h, partition).await.len(),
        2,
        "each field has an error mark of its own"
    );
    let shared: std::collections::BTreeSet<_> = errors(h, partition)
        .await
        .into_iter()
        .map(|error| error.raw)
        .collect();
    let peek = h
        .store()
        .partitions
        .peek(&[partition])
        .await
        .remove(0)
        .unwrap();
    assert_eq!(
        (peek.errors, shared.len()),
        (1, 1),
        "in one entry of their owner"
    );
    let refused = h
        .store()
        .marks
        .scan(partition, crate::Map::Error, 0, 10)
        .await
        .unwrap()
        .entries
        .remove(0);
    assert_eq!(refused.mark.unwrap().fields, [field("bag"), field("gold")]);
    let has_errors = async || {
        h.store()
            .marks
            .collect(partition, &[], None)
            .await
            .unwrap()
            .has_errors
    };
    assert!(
        has_errors().await,
        "the collector learns that it must name landed rows"
    );
    let settle = async |name: &str, version: Version| {
        let rows = vec![(ann.clone(), field(name), version)];
        let settle = Settle {
            rows: landed_rows(rows),
            ..h.settling(partition, Some(&lock))
        };
        h.store()
            .marks
            .settle(&settle)
            .await
            .unwrap()
            .errors_cleared
    };
    assert_eq!(
        settle("gold", Version::new(entry.version.get() - 1).unwrap()).await,
        0
    );
    assert_eq!(settle("other", above(entry.version, 1)).await, 0);
    assert_eq!(settle("gold", entry.version).await, 1);
    assert!(h.is_marked(&ann).await);
    h.assert_lasting(&ann).await;
    assert_eq!(settle("bag", above(entry.version, 1)).await, 1);
    assert_eq!(
        (errors(h, partition).await.len(), h.is_marked(&ann).await),
        (0, false)
    );
    assert!(!has_errors().await);
    h.assert_ends(&ann).await;
}

/// A flush lands a rejected field.
pub async fn a_flush_clears_error_marks_without_the_lock(h: &Harness) {
    let (ann, partition, lock, entry) = refused(h).await;
    let faults = vec![fault("gold", entry.version, "bad")];
    let rejected = Rejected {
        leaves: Vec::new(),
        source: Some(entry.clone()),
        owner: Some(ann.clone()),
        faults,
    };
    h.reject(partition, &lock, vec![rejected]).await.unwrap();
    h.unlock(partition, &lock).await;
    let rows = vec![(ann.clone(), field("gold"), entry.version)];
    let settle = Settle {
        landed: entry.version,
        rows: landed_rows(rows),
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
    assert!(!h.is_marked(&ann).await);
    h.assert_ends(&ann).await;
}

/// R15, H27.
pub async fn reject_needs_the_lock_and_the_epoch(h: &Harness) {
    let (ann, partition, lock, entry) = refused(h).await;
    let faults: Vec<Fault> = vec![fault("gold", entry.version, "bad")];
    let rejected = vec![Rejected {
        leaves: Vec::new(),
        source: Some(entry.clone()),
        owner: Some(ann.clone()),
        faults,
    }];
    let (retry_min, retry_max) = (Duration::from_secs(1), Duration::from_secs(3));
    let good = Reject {
        partition,
        lock: lock.clone(),
        epoch: Epoch(1),
        snapshot: h.number(partition),
        retry_min,
        retry_max,
        probation: false,
        rejected,
    };
    let stranger = Reject {
        lock: lock_of("worker"),
        ..good.clone()
    };
    assert_eq!(
        h.store().marks.reject(&stranger).await.unwrap_err().kind,
        HotKind::LockLost
    );
    let other = Reject {
        epoch: Epoch(2),
        ..good.clone()
    };
    assert_eq!(
        h.store().marks.reject(&other).await.unwrap_err().kind,
        HotKind::EpochMoved
    );
    assert_eq!(h.scan(partition).await, vec![entry]);
    assert!(errors(h, partition).await.is_empty());
    h.store().marks.reject(&good).await.unwrap();
    assert_eq!(errors(h, partition).await.len(), 1);
}

/// Many errors.
pub async fn a_page_of_errors_goes_on_where_it_ended(h: &Harness) {
    let (ann, partition, lock, entry) = refused(h).await;
    let faults: Vec<Fault> = (0..700)
        .map(|n| fault(&format!("f{n}"), entry.version, "bad"))
        .collect();
    let rejected = Rejected {
        leaves: Vec::new(),
        source: Some(entry.clone()),
        owner: Some(ann.clone()),
        faults,
    };
    h.reject(partition, &lock, vec![rejected]).await.unwrap();
    let (mut names, mut cursor) = (std::collections::BTreeSet::new(), 0);
    loop {
        let page = h.store().marks.errors(partition, cursor, 50).await.unwrap();
        names.extend(
            page.entries
                .into_iter()
                .map(|error| error.target.unwrap().1),
        );
        match page.next {
            Some(next) => cursor = next,
            None => break,
        }
    }
    assert_eq!(names.len(), 700);
    let owners = h.owners_of_one_partition(120);
    h.unlock(partition, &lock).await;
    let partition = h.partition(&owners[0]);
    let lock = h.lock(partition).await;
    for owner in &owners {
        h.set(owner, "gold", "1").await;
    }
    h.snapshot(partition, &lock).await;
    let refused = |entry: Entry| Rejected {
        leaves: Vec::new(),
        owner: entry.mark.as_ref().map(|mark| mark.owner.clone()),
        faults: vec![fault("gold", entry.version, "bad")],
        source: Some(entry),
    };
    h.reject(
        partition,
        &lock,
        h.scan(partition).await.into_iter().map(refused).collect(),
    )
    .await
    .unwrap();
    let (mut found, mut cursor) = (std::collections::BTreeSet::new(), Some(0));
    while let Some(from) = cursor {
        let page = h.store().marks.errors(partition, from, 50).await.unwrap();
        found.extend(
            page.entries
                .into_iter()
                .map(|error| error.target.unwrap().0),
        );
        cursor = page.next;
    }
    assert!(owners.iter().all(|owner| found.contains(owner)));
    assert!(h.is_marked(&ann).await);
}

/// Somebody else wrote into the dirty map. The mark moves to the error map, and the rest lands.
pub async fn an_unreadable_mark_is_rejected_under_its_own_name(h: &Harness) {
    let partition = Partition(0);
    h.rig().foreign_mark(partition, b"\xff not a mark").await;
    let lock = h.lock(partition).await;
    assert_eq!(
        h.snapshot(partition, &lock).await,
        Snapshot::Taken(h.number(partition))
    );
    let entry = h.scan(partition).await.remove(0);
    assert_eq!(
        (&entry.raw[..], &entry.mark),
        (&b"\xff not a mark"[..], &None)
    );
    let faults = vec![fault("any", entry.version, "unreadable")];
    h.reject(
        partition,
        &lock,
        vec![Rejected {
            leaves: Vec::new(),
            source: Some(entry.clone()),
            owner: None,
            faults,
        }],
    )
    .await
    .unwrap();
    assert!(h.scan(partition).await.is_empty());
    let error = errors(h, partition).await.remove(0);
    assert_eq!(
        (error.raw, error.target, error.message),
        (entry.raw, None, "unreadable".to_owned())
    );
}
