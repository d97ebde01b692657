//! The effects of partition records.

use std::sync::Arc;

use storage_model::{
    DatabaseId, Epoch, HotId, LAYOUT, Paired, Partition, SeededIds, Stamp, Timestamp, Token,
    Version,
};

use super::gate::Gate;
use super::{Harness, fence, land_on, live, owner, version};
use crate::{Batch, Fence, LandError, Pair, PartitionRecord, Raise, Raised, open};

/// A record to which nothing has landed after epoch 1.
fn record(database: DatabaseId, partition: u32, epoch: u64, last: u64) -> PartitionRecord {
    let landed_epoch = Epoch(u64::from(last > 0));
    PartitionRecord {
        partition: Partition(partition),
        epoch: Epoch(epoch),
        last_version: version(last),
        landed_epoch,
        stamp: Stamp::NONE,
        hot: HotId::NONE,
        database,
    }
}

/// R14: the record follows the commits.
pub async fn a_matching_fence_raises_the_landed_version(h: &Harness) {
    h.init(&[3, 7]).await;
    let rows = vec![live(&owner("ann"), "gold", "1", 9)];
    h.store
        .landing
        .land(&Batch {
            whole: false,
            trial: false,
            events: Vec::new(),
            leads: Vec::new(),
            fences: vec![fence(7, 1, 0, 9), fence(3, 1, 0, 4)],
            rows,
        })
        .await
        .unwrap();
    let asked = [Partition(7), Partition(3), Partition(5)];
    assert_eq!(
        h.store.partitions.partitions(&asked).await.unwrap(),
        [
            record(h.database, 7, 1, 9),
            record(h.database, 3, 1, 4),
            record(h.database, 5, 0, 0)
        ]
    );
}

/// H32: a record that is matched but not changed counts as matched.
pub async fn a_fence_that_changes_nothing_matches_too(h: &Harness) {
    h.init(&[3]).await;
    let batch = |landed, reaches| Batch {
        whole: false,
        trial: false,
        events: Vec::new(),
        leads: Vec::new(),
        fences: vec![fence(3, 1, landed, reaches)],
        rows: vec![],
    };
    h.store.landing.land(&batch(0, 9)).await.unwrap();
    h.store.landing.land(&batch(9, 9)).await.unwrap();
    h.store.landing.land(&batch(9, 4)).await.unwrap();
    assert_eq!(
        h.store
            .partitions
            .partitions(&[Partition(3)])
            .await
            .unwrap(),
        [record(h.database, 3, 1, 9)]
    );
}

/// R14: one moved record keeps the whole batch out. Only the moved ones are named.
pub async fn a_moved_record_fences_the_whole_batch(h: &Harness) {
    h.init(&[1, 2, 3]).await;
    let ann = owner("ann");
    for wrong in [fence(2, 1, 5, 9), fence(2, 2, 0, 9), fence(2, 0, 0, 9)] {
        let batch = Batch {
            whole: false,
            trial: false,
            events: Vec::new(),
            leads: Vec::new(),
            fences: vec![fence(3, 1, 0, 9), wrong, fence(1, 1, 0, 9)],
            rows: vec![live(&ann, "gold", "1", 9)],
        };
        assert_eq!(
            h.store.landing.land(&batch).await,
            Err(LandError::Fenced(vec![Partition(2)]))
        );
    }
    assert!(h.rows(&ann).await.is_empty());
    let asked = [Partition(1), Partition(2), Partition(3)];
    assert_eq!(
        h.store.partitions.partitions(&asked).await.unwrap(),
        [
            record(h.database, 1, 1, 0),
            record(h.database, 2, 1, 0),
            record(h.database, 3, 1, 0)
        ]
    );
}

/// H33: data that was collected for another database commits nothing here. Only its partitions are
/// named.
pub async fn a_fence_of_another_database_keeps_the_whole_batch_out(h: &Harness) {
    h.init(&[1, 2]).await;
    let ann = owner("ann");
    let of = |partition, database| Fence {
        database: Some(database),
        ..fence(partition, 1, 0, 9)
    };
    let other = DatabaseId(h.database.0.wrapping_add(1));
    let batch = |database| Batch {
        whole: false,
        trial: false,
        events: Vec::new(),
        leads: Vec::new(),
        fences: vec![of(2, database), of(1, h.database)],
        rows: vec![live(&ann, "gold", "1", 9)],
    };
    assert_eq!(
        h.store.landing.land(&batch(other)).await,
        Err(LandError::Fenced(vec![Partition(2)]))
    );
    assert!(h.rows(&ann).await.is_empty());
    let untouched = [record(h.database, 1, 1, 0), record(h.database, 2, 1, 0)];
    assert_eq!(
        h.store
            .partitions
            .partitions(&[Partition(1), Partition(2)])
            .await
            .unwrap(),
        untouched
    );
    h.store.landing.land(&batch(h.database)).await.unwrap();
    assert_eq!(h.rows(&ann).await, [live(&ann, "gold", "1", 9)]);
}

/// H33: one process has one identity for all connections.
pub async fn a_database_that_goes_on_keeps_its_identity(h: &Harness) {
    h.shares();
    for _ in 0..3 {
        let another = open(&h.backend.settings()).await.unwrap();
        let records = another
            .partitions
            .partitions(&[Partition(0)])
            .await
            .unwrap();
        assert_eq!(records, [record(h.database, 0, 0, 0)]);
        assert_eq!(another.partitions.raise(&[]).await.unwrap(), []);
    }
}

/// Only [`PartitionStore::raise`](crate::PartitionStore::raise) makes records.
pub async fn a_partition_without_a_record_is_fenced(h: &Harness) {
    let batch = Batch {
        whole: false,
        trial: false,
        events: Vec::new(),
        leads: Vec::new(),
        fences: vec![fence(8, 0, 0, 1)],
        rows: vec![live(&owner("ann"), "gold", "1", 1)],
    };
    assert_eq!(
        h.store.landing.land(&batch).await,
        Err(LandError::Fenced(vec![Partition(8)]))
    );
    assert!(h.rows(&owner("ann")).await.is_empty());
}

/// R14: several programs notice the same failover, and one raises the epoch.
pub async fn the_epoch_is_raised_only_from_the_one_seen(h: &Harness) {
    h.init(&[4]).await;
    land_on(&h.store, 4, vec![live(&owner("ann"), "gold", "1", 50)])
        .await
        .unwrap();
    let seen = |epoch| [Raise::by_one(Partition(4), Epoch(epoch))];
    let raised = |epoch, moved| Raised {
        record: record(h.database, 4, epoch, 50),
        moved,
    };
    assert_eq!(
        h.store.partitions.raise(&seen(1)).await.unwrap(),
        [raised(2, true)]
    );
    assert_eq!(
        h.store.partitions.raise(&seen(1)).await.unwrap(),
        [raised(2, false)]
    );
    assert_eq!(
        h.store.partitions.raise(&seen(7)).await.unwrap(),
        [raised(2, false)]
    );
    let raises = futures::future::join_all(
        (0..6).map(|_| async { h.store.partitions.raise(&seen(2)).await }),
    )
    .await;
    let raises: Vec<Raised> = raises.into_iter().flat_map(Result::unwrap).collect();
    assert!(
        raises
            .iter()
            .all(|one| one.record == record(h.database, 4, 3, 50)),
        "{raises:?}"
    );
    assert_eq!(
        (raises.len(), raises.iter().filter(|one| one.moved).count()),
        (6, 1),
        "{raises:?}"
    );
}

/// An older copy of the database overtakes the hot tier's epoch at once.
pub async fn an_epoch_jumps_above_the_one_that_is_asked_for(h: &Harness) {
    h.init(&[4, 5]).await;
    let jump = |partition, above| Raise {
        above: Epoch(above),
        ..Raise::by_one(Partition(partition), Epoch(1))
    };
    let raised = h
        .store
        .partitions
        .raise(&[jump(4, 100), jump(5, 0)])
        .await
        .unwrap();
    let of = |partition, epoch, moved| Raised {
        record: record(h.database, partition, epoch, 0),
        moved,
    };
    assert_eq!(raised, [of(4, 101, true), of(5, 2, true)]);
    assert_eq!(
        h.store.partitions.raise(&[jump(4, 200)]).await.unwrap(),
        [of(4, 101, false)],
        "it moved meanwhile"
    );
}

/// A first contact initialises all partitions at once. The answers have the order of the questions.
pub async fn many_partitions_are_raised_in_one_call(h: &Harness) {
    let all: Vec<u32> = (0..700).rev().collect();
    h.init(&all).await;
    let seen = [(9, 1), (2, 0), (900, 0), (9, 2)]
        .map(|(partition, epoch)| Raise::by_one(Partition(partition), Epoch(epoch)));
    let of = |partition, epoch, moved| Raised {
        record: record(h.database, partition, epoch, 0),
        moved,
    };
    let raised = [
        of(9, 2, true),
        of(2, 1, false),
        of(900, 1, true),
        of(9, 2, false),
    ];
    assert_eq!(h.store.partitions.raise(&seen).await.unwrap(), raised);
}

/// R14: after a raise, data that was read before it cannot land.
pub async fn no_landing_of_an_earlier_epoch_commits_after_a_raise(h: &Harness) {
    h.init(&[0]).await;
    h.store
        .partitions
        .raise(&[Raise::by_one(Partition(0), Epoch(1))])
        .await
        .unwrap();
    let batch = Batch {
        whole: false,
        trial: false,
        events: Vec::new(),
        leads: Vec::new(),
        fences: vec![fence(0, 1, 0, 5)],
        rows: vec![live(&owner("ann"), "gold", "1", 5)],
    };
    assert_eq!(
        h.store.landing.land(&batch).await,
        Err(LandError::Fenced(vec![Partition(0)]))
    );
    assert!(h.rows(&owner("ann")).await.is_empty());
}

/// R14: an epoch that was only raised differs from one with a landing.
pub async fn a_record_tells_in_which_epoch_something_landed_last(h: &Harness) {
    h.init(&[0]).await;
    let landed = async |epoch, landed, reaches| {
        let batch = Batch {
            whole: false,
            trial: false,
            events: Vec::new(),
            leads: Vec::new(),
            fences: vec![fence(0, epoch, landed, reaches)],
            rows: vec![],
        };
        h.store.landing.land(&batch).await.unwrap();
    };
    landed(1, 0, 5).await;
    let raised = h
        .store
        .partitions
        .raise(&[Raise::by_one(Partition(0), Epoch(1))])
        .await
        .unwrap();
    assert_eq!(
        raised,
        [Raised {
            record: record(h.database, 0, 2, 5),
            moved: true
        }]
    );
    landed(2, 5, 7).await;
    let in_the_second = PartitionRecord {
        landed_epoch: Epoch(2),
        ..record(h.database, 0, 2, 7)
    };
    assert_eq!(
        h.store
            .partitions
            .partitions(&[Partition(0)])
            .await
            .unwrap(),
        [in_the_second]
    );
}

/// R14: the landing under way commits, and the raise sees its result.
pub async fn raising_waits_for_a_landing_under_way(h: &Harness) {
    h.shares();
    h.init(&[0]).await;
    let gate = Arc::new(Gate::before("commit"));
    let landing = h.another(gate.clone()).await;
    let landed = tokio::spawn(async move {
        land_on(&landing, 0, vec![live(&owner("ann"), "gold", "1", 5)]).await
    });
    gate.reached().await;
    let store = h.store.clone();
    let raised = tokio::spawn(async move {
        store
            .partitions
            .raise(&[Raise::by_one(Partition(0), Epoch(1))])
            .await
    });
    tokio::task::yield_now().await;
    assert_eq!(
        h.store
            .partitions
            .partitions(&[Partition(0)])
            .await
            .unwrap(),
        [record(h.database, 0, 1, 0)],
        "nothing is visible before the commit"
    );
    assert!(!raised.is_finished());
    gate.open();
    landed.await.unwrap().unwrap();
    assert_eq!(
        raised.await.unwrap().unwrap(),
        [Raised {
            record: record(h.database, 0, 2, 5),
            moved: true
        }]
    );
}

/// H35: batches of different partitions over the same rows, in opposite orders, wait for each
/// other.
pub async fn batches_of_the_same_rows_do_not_deadlock(h: &Harness) {
    h.init(&[0, 1, 2, 3]).await;
    let task = |id: u32| {
        let store = h.store.clone();
        async move {
            for round in 0..30_u64 {
                let number = 1 + round * 10 + u64::from(id);
                let mut rows: Vec<_> = (0..150)
                    .map(|i| live(&owner(&i.to_string()), "gold", number.to_string(), number))
                    .collect();
                if id % 2 == 1 {
                    rows.reverse();
                }
                land_on(&store, id, rows).await.unwrap();
            }
        }
    };
    let tasks: Vec<_> = (0..4).map(|id| tokio::spawn(task(id))).collect();
    for task in tasks {
        task.await.unwrap();
    }
    for i in 0..150 {
        assert_eq!(
            h.rows(&owner(&i.to_string())).await,
            [live(&owner(&i.to_string()), "gold", "294", 294)]
        );
    }
}

/// R14: of batches that claim the same records, in opposite orders, one lands and the others are
/// fenced.
pub async fn batches_of_the_same_partitions_follow_each_other(h: &Harness) {
    h.init(&[0, 1, 2, 3]).await;
    let task = |id: u64| {
        let store = h.store.clone();
        async move {
            let mut landed = 0;
            for round in 0..20_u64 {
                let number = 1 + round * 10 + id;
                let mut rows: Vec<_> = (0..40)
                    .map(|i| live(&owner(&i.to_string()), "gold", number.to_string(), number))
                    .collect();
                let records = store
                    .partitions
                    .partitions(&[0, 1, 2, 3].map(Partition))
                    .await
                    .unwrap();
                let mut fences: Vec<_> = records
                    .iter()
                    .map(|r| fence(r.partition.0, r.epoch.0, r.last_version.get(), number))
                    .collect();
                if id % 2 == 1 {
                    rows.reverse();
                    fences.reverse();
                }
                match store
                    .landing
                    .land(&Batch {
                        whole: false,
                        trial: false,
                        events: Vec::new(),
                        leads: Vec::new(),
                        fences,
                        rows,
                    })
                    .await
                {
                    Ok(()) => landed += 1,
                    Err(LandError::Fenced(_)) => {}
                    Err(other) => panic!("{other}"),
                }
            }
            landed
        }
    };
    let tasks: Vec<_> = (0..4).map(|id| tokio::spawn(task(id))).collect();
    let mut landed = 0;
    for task in tasks {
        landed += task.await.unwrap();
    }
    assert!(landed >= 20, "{landed} landed");
    let highest = h
        .store
        .partitions
        .partitions(&[Partition(0)])
        .await
        .unwrap()[0]
        .last_version;
    for i in 0..40 {
        assert_eq!(h.rows(&owner(&i.to_string())).await[0].version, highest);
    }
    assert!(highest > Version::ZERO);
}

/// A hot tier for a database.
pub(super) fn pair(ids: &SeededIds, identity: Token, partitions: u32) -> Pair {
    let hot = Paired {
        token: Token::draw(ids),
        since: Timestamp(7),
        prefix: "slug".into(),
        address: "localhost".into(),
    };
    Pair {
        identity,
        partitions,
        layout: LAYOUT,
        hot,
        by: HotId::of("first"),
        stamp: Stamp(1),
        if_silent: None,
    }
}

/// H76: two hot tiers saw the same predecessor, and one takes over.
pub async fn a_hot_tier_takes_over_only_from_the_one_it_saw(h: &Harness) {
    let ids = SeededIds::new(5);
    let identity = Token::draw(&ids);
    let blank = h.store.database.pairing().await.unwrap();
    assert_eq!(
        (blank.identity, blank.partitions, blank.layout, &blank.hot),
        (None, None, None, &None)
    );
    let first = pair(&ids, identity, 256);
    assert!(h.store.database.pair(&blank, &first).await.unwrap());
    let seen = h.store.database.pairing().await.unwrap();
    assert_eq!(
        (seen.identity, seen.partitions, seen.layout),
        (Some(identity), Some(256), Some(LAYOUT))
    );
    assert_eq!(seen.hot.as_ref(), Some(&first.hot));
    assert!(
        !h.store
            .database
            .pair(&blank, &pair(&ids, identity, 256))
            .await
            .unwrap(),
        "it is not blank any more"
    );
    let second = pair(&ids, identity, 256);
    assert!(h.store.database.pair(&seen, &second).await.unwrap());
    assert!(
        !h.store
            .database
            .pair(&seen, &pair(&ids, identity, 256))
            .await
            .unwrap(),
        "another one took over"
    );
    assert_eq!(
        h.store.database.pairing().await.unwrap().hot,
        Some(second.hot)
    );
}

/// The meta table keeps 255 bytes. The cut part is only for people.
pub async fn a_hot_tier_with_a_long_address_takes_over(h: &Harness) {
    let ids = SeededIds::new(8);
    let mut long = pair(&ids, Token::draw(&ids), 256);
    long.hot.address = "redis-0.eu.example.com:6379, ".repeat(40);
    for _ in 0..2 {
        let seen = h.store.database.pairing().await.unwrap();
        assert!(h.store.database.pair(&seen, &long).await.unwrap());
        let now = h.store.database.pairing().await.unwrap().hot.unwrap();
        assert!(now.token == long.hot.token && now.address.starts_with("redis-0."));
        long.hot.token = Token::draw(&ids);
    }
}

/// H50: one database never meets two partition counts, nor two identities.
pub async fn partition_count_and_identity_are_fixed_once(h: &Harness) {
    let ids = SeededIds::new(6);
    let identity = Token::draw(&ids);
    let blank = h.store.database.pairing().await.unwrap();
    assert!(
        h.store
            .database
            .pair(&blank, &pair(&ids, identity, 256))
            .await
            .unwrap()
    );
    let seen = h.store.database.pairing().await.unwrap();
    assert!(
        !h.store
            .database
            .pair(&seen, &pair(&ids, identity, 128))
            .await
            .unwrap()
    );
    assert!(
        !h.store
            .database
            .pair(&seen, &pair(&ids, Token::draw(&ids), 256))
            .await
            .unwrap()
    );
    assert_eq!(
        h.store.database.pairing().await.unwrap(),
        seen,
        "nothing changed"
    );
}

/// H76: after a takeover no landing of an earlier epoch commits, and no first raise that read an
/// earlier epoch.
pub async fn a_take_over_ends_the_landings_of_the_hot_tier_before_it(h: &Harness) {
    h.init(&[0]).await;
    let ids = SeededIds::new(7);
    let identity = Token::draw(&ids);
    let blank = h.store.database.pairing().await.unwrap();
    assert!(
        h.store
            .database
            .pair(&blank, &pair(&ids, identity, 4))
            .await
            .unwrap()
    );
    let partitions = [Partition(0), Partition(3)];
    let before = h.store.partitions.partitions(&partitions).await.unwrap();
    let seen = h.store.database.pairing().await.unwrap();
    assert!(
        h.store
            .database
            .pair(&seen, &pair(&ids, identity, 4))
            .await
            .unwrap()
    );
    let fence = Fence {
        partition: Partition(0),
        epoch: before[0].epoch,
        stamp: before[0].stamp,
        landed: before[0].last_version,
        reaches: version(9),
        database: None,
    };
    let landed = h
        .store
        .landing
        .land(&Batch {
            whole: false,
            trial: false,
            events: Vec::new(),
            leads: Vec::new(),
            fences: vec![fence],
            rows: vec![live(&owner("ann"), "gold", "1", 9)],
        })
        .await;
    assert_eq!(landed, Err(LandError::Fenced(vec![Partition(0)])));
    for (record, before) in h
        .store
        .partitions
        .partitions(&partitions)
        .await
        .unwrap()
        .into_iter()
        .zip(before)
    {
        assert!(record.epoch > before.epoch, "{record:?}");
        let raised = h
            .store
            .partitions
            .raise(&[Raise::by_one(record.partition, before.epoch)])
            .await
            .unwrap();
        assert!(
            !raised[0].moved,
            "an epoch of before the take-over was raised"
        );
    }
}
