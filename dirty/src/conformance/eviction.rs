//! Eviction, time to live and the memory limit (R2, R13).

use std::time::Duration;

use storage_model::{Change, Epoch, Evicted, Version};

use super::harness::{Harness, above, all_rows, fault, landed_rows, live, owner, set};
use super::{Life, field};
use crate::{Expire, Filled, HotKind, Marker, Probation, Rejected, Settle};

/// Landed data may go at any time.
pub async fn a_clean_hash_is_evicted_at_once_and_its_marker_stays(h: &Harness) {
    let ann = owner("ann");
    let version = h.set(&ann, "gold", "1").await;
    h.land(&ann).await;
    let evict = h
        .store()
        .owners
        .evict(&[ann.clone(), owner("nobody")])
        .await;
    assert_eq!(evict, vec![Ok(Evicted::Gone), Ok(Evicted::Gone)]);
    assert_eq!(h.read(&ann).await.header, None);
    assert_eq!(h.observe(&ann).await.marker, Marker::At(version));
}

/// Unlanded data stays until it has landed.
pub async fn a_dirty_hash_is_evicted_when_it_has_landed(h: &Harness) {
    let ann = owner("ann");
    let version = h.set(&ann, "gold", "1").await;
    h.set(&ann, "bag", "x").await;
    assert_eq!(
        h.store().owners.evict(std::slice::from_ref(&ann)).await,
        vec![Ok(Evicted::WhenLanded)]
    );
    assert_eq!(h.cell(&ann, "gold").await, Some(live("1")));
    h.assert_lasting(&ann).await;
    h.land(&ann).await;
    assert_eq!(h.read(&ann).await.header, None);
    assert!(matches!(h.observe(&ann).await.marker, Marker::At(at) if at >= version));
}

/// R2: dirty map, snapshot, error map and both maps of marks on probation.
pub async fn every_map_names_its_owners(h: &Harness) {
    let ann = owner("ann");
    let partition = h.partition(&ann);
    assert!(!h.is_marked(&ann).await);
    let version = h.set(&ann, "gold", "1").await;
    assert!(h.is_marked(&ann).await, "the dirty map");
    assert_eq!(
        h.store()
            .owners
            .marked(std::slice::from_ref(&ann), Some(Epoch(1)))
            .await,
        [Ok(true)]
    );
    let moved = h
        .store()
        .owners
        .marked(std::slice::from_ref(&ann), Some(Epoch(2)))
        .await
        .remove(0)
        .unwrap_err();
    assert_eq!(
        moved.kind,
        HotKind::EpochMoved,
        "the answer counts in one epoch"
    );
    let lock = h.lock(partition).await;
    h.snapshot(partition, &lock).await;
    assert!(h.is_marked(&ann).await, "the snapshot");
    let source = h.scan(partition).await.pop();
    let faults = vec![fault("gold", version, "bad")];
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
    assert!(h.is_marked(&ann).await, "the error map");
    let rows = vec![(ann.clone(), field("gold"), version)];
    let settle = Settle {
        landed: version,
        rows: landed_rows(rows),
        probation: true,
        ..h.settling(partition, Some(&lock))
    };
    h.store().marks.settle(&settle).await.unwrap();
    assert!(h.is_marked(&ann).await, "on probation");
    let Probation::Leaves(window) = h
        .store()
        .probations
        .probation(partition, &lock)
        .await
        .unwrap()
    else {
        panic!("it leaves")
    };
    assert!(h.is_marked(&ann).await, "its probation ends");
    h.assert_lasting(&ann).await;
    let entries = h
        .store()
        .marks
        .scan(partition, crate::Map::Expiring, 0, 10)
        .await
        .unwrap()
        .entries;
    h.store()
        .probations
        .expire(&Expire {
            partition,
            lock,
            window,
            entries,
        })
        .await
        .unwrap();
    assert!(!h.is_marked(&ann).await);
    h.assert_ends(&ann).await;
}

/// R2: any map can still name the owner.
pub async fn an_eviction_waits_until_no_map_names_the_owner(h: &Harness) {
    let ann = owner("ann");
    let partition = h.partition(&ann);
    let version = h.set(&ann, "gold", "1").await;
    assert_eq!(
        h.store().owners.evict(std::slice::from_ref(&ann)).await,
        vec![Ok(Evicted::WhenLanded)]
    );
    let lock = h.lock(partition).await;
    h.snapshot(partition, &lock).await;
    let source = h.scan(partition).await.pop();
    let faults = vec![fault("gold", version, "bad")];
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
    assert!(
        h.read(&ann).await.header.is_some(),
        "the error map names it"
    );
    let later = h.set(&ann, "bag", "x").await;
    let rows = vec![(ann.clone(), field("gold"), later)];
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
    assert!(
        h.read(&ann).await.header.is_some(),
        "the dirty map names it"
    );
    h.snapshot(partition, &lock).await;
    let settle = Settle {
        snapshot: h.number(partition),
        marks: h.scan(partition).await,
        rows: vec![],
        probation: true,
        ..settle
    };
    h.store().marks.settle(&settle).await.unwrap();
    assert!(h.read(&ann).await.header.is_some(), "it is on probation");
    let Probation::Leaves(window) = h
        .store()
        .probations
        .probation(partition, &lock)
        .await
        .unwrap()
    else {
        panic!("it leaves")
    };
    assert!(h.read(&ann).await.header.is_some(), "its probation ends");
    let entries = h
        .store()
        .marks
        .scan(partition, crate::Map::Expiring, 0, 10)
        .await
        .unwrap()
        .entries;
    h.store()
        .probations
        .expire(&Expire {
            partition,
            lock: lock.clone(),
            window,
            entries,
        })
        .await
        .unwrap();
    h.unlock(partition, &lock).await;
    assert_eq!(h.read(&ann).await.header, None);
    h.set(&ann, "gold", "2").await;
    h.land(&ann).await;
    h.assert_ends(&ann).await;
}

/// R2.
pub async fn refresh_ttl_never_gives_a_dirty_hash_a_time_to_live(h: &Harness) {
    let ann = owner("ann");
    h.set(&ann, "gold", "1").await;
    h.store()
        .owners
        .refresh_ttl(&[ann.clone(), owner("nobody")])
        .await
        .unwrap();
    h.assert_lasting(&ann).await;
    assert_eq!(h.cell(&ann, "gold").await, Some(live("1")));
}

/// Data in use stays.
pub async fn refresh_ttl_gives_a_clean_hash_the_full_time_again(h: &Harness) {
    let ann = owner("ann");
    h.set(&ann, "gold", "1").await;
    h.land(&ann).await;
    h.rig().advance(Duration::from_millis(50)).await;
    let Life::Ends(before) = h.rig().life(&ann).await else {
        panic!("landed data ends")
    };
    h.store()
        .owners
        .refresh_ttl(std::slice::from_ref(&ann))
        .await
        .unwrap();
    let Life::Ends(after) = h.rig().life(&ann).await else {
        panic!("landed data ends")
    };
    assert!(after > before, "{after:?} is more than {before:?}");
}

/// H11.
pub async fn a_clean_hash_ends_and_a_dirty_one_stays(h: &Harness) {
    let (clean, dirty) = (owner("clean"), owner("dirty"));
    h.set(&clean, "gold", "1").await;
    h.land(&clean).await;
    h.set(&dirty, "gold", "1").await;
    h.rig().advance(Duration::from_secs(366 * 24 * 3_600)).await;
    assert_eq!(h.read(&clean).await.header, None);
    assert!(h.observe(&clean).await.marker.is_unknown());
    assert_eq!(h.cell(&dirty, "gold").await, Some(live("1")));
}

/// H2, H3, R13.
pub async fn at_the_memory_limit_writes_are_refused_and_landing_goes_on(h: &Harness) {
    let ann = owner("ann");
    h.make_absent(&ann).await;
    h.apply(&ann, vec![("gold", set("1")), ("bag", set("x"))])
        .await;
    h.rig().exhaust().await;
    let before = h.read(&ann).await;
    for change in [set("2"), Change::Incr(1), Change::Remove] {
        let mutation = h.mutation(&ann, vec![("gold", change)]).await;
        assert_eq!(
            h.try_send(&mutation, None).await.unwrap_err().kind,
            HotKind::OutOfMemory
        );
        assert_eq!(h.read(&ann).await, before);
    }
    let cold = owner("cold");
    let rows = vec![("gold", live("9"), above(Version::ZERO, 5))];
    let Filled::Accepted(read) = h.fill(&all_rows(&cold, h.observe(&cold).await, rows)).await
    else {
        panic!("the proof is made")
    };
    assert_eq!(read.cells.len(), 1);
    h.land(&ann).await;
    assert!(
        !h.is_marked(&ann).await,
        "the owner is landed, so that it can be evicted"
    );
}
