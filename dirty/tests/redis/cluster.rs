//! A cluster of three masters.

use std::sync::Arc;
use std::time::Duration;

use storage_dirty::*;
use storage_model::*;
use storage_servers::{RedisCluster, SlotMove};

use crate::support::*;

fn partitions_of(url: &str) -> RedisSettings {
    settings(url).with(|redis| redis.partitions = 16)
}

/// The slot of a partition, by the answer of a node.
async fn slot_of(cluster: &RedisCluster, partition: Partition) -> u16 {
    let key = format!("slug-part:{{{partition}}}");
    match cluster
        .node(0)
        .unwrap()
        .call(&["CLUSTER", "KEYSLOT", &key])
        .await
        .unwrap()
    {
        storage_servers::Reply::Integer(slot) => u16::try_from(slot).unwrap(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn owners_of_all_nodes_are_written_read_and_landed_in_one_call() {
    let cluster = RedisCluster::start(3, 0).await.unwrap();
    let store = prepared(partitions_of(&cluster.url())).await;
    store.pairing().await.unwrap();
    assert_eq!(
        store.announce("w1", Duration::from_secs(9)).await.unwrap(),
        ["w1"]
    );
    store.check().await.unwrap();
    let mut batch = Vec::new();
    for number in 0..200 {
        batch.push((
            mutation(
                &store,
                &owner(&number.to_string()),
                &[("gold", set(&number.to_string()))],
            )
            .await,
            Vec::new(),
        ));
    }
    assert!(
        store
            .mutate(&batch)
            .await
            .iter()
            .all(|mutated| matches!(mutated, Ok(Mutated::Applied(_))))
    );
    let reads: Vec<_> = (0..200)
        .map(|number| Read {
            owner: owner(&number.to_string()),
            fields: Fields::All,
        })
        .collect();
    for (number, read) in store.read(&reads).await.into_iter().enumerate() {
        assert_eq!(
            read.unwrap().cells,
            [(field("gold"), Cell::Live(number.to_string().into()))]
        );
    }
    assert_eq!(drain(&store).await, 200);
}

#[tokio::test]
async fn writes_wait_while_a_slot_moves_and_each_is_applied_once() {
    let cluster = Arc::new(RedisCluster::start(3, 0).await.unwrap());
    let store = prepared(partitions_of(&cluster.url())).await;
    let ann = owner("ann");
    let partition = ann.partition(16);
    apply_new(&store, &ann, &[("gold", set("0"))]).await;
    let slot = slot_of(&cluster, partition).await;
    let to = (cluster.owner_of(slot).await.unwrap() + 1) % 3;
    let moving = SlotMove::begin(&cluster, slot, to).await.unwrap();
    // From here on the server can't run a script unless all its keys exist. Its error says that it
    // did not run the script.
    let incr = named(&store, &ann, &[("gold", Change::Incr(1))]).await;
    for moved in 0..3 {
        let error = send(&store, incr.clone()).await.unwrap_err();
        assert_eq!(
            (error.kind, error.outcome),
            (HotKind::Unavailable, Outcome::NotApplied),
            "after {moved} keys"
        );
        moving.migrate(1).await.unwrap();
    }
    while moving.migrate(100).await.unwrap() > 0 {}
    // Reads of one key are redirected, each with ASKING before it.
    assert_eq!(value(&store, &ann, "gold").await.as_deref(), Some("0"));
    moving.finish().await.unwrap();
    // The partition is on another server now and must be adopted there.
    let error = send(&store, incr.clone()).await.unwrap_err();
    assert_eq!(error.kind, HotKind::Unprepared(partition));
    let seen = store
        .partition_states(&[partition])
        .await
        .pop()
        .unwrap()
        .unwrap();
    let adopt = Adopt {
        partition,
        seen,
        epoch: Epoch(2),
        stamp: storage_model::Stamp::NONE,
        until: storage_model::Timestamp(u64::MAX),
        last_version: Version::ZERO,
        landed_here: false,
        compare_all: false,
        feed: storage_model::Position::ZERO,
        database: None,
    };
    assert_eq!(store.adopt(&[adopt]).await, [Ok(true)]);
    for _ in 0..2 {
        assert!(matches!(
            send(&store, incr.clone()).await,
            Ok(Mutated::Applied(_))
        ));
    }
    assert_eq!(value(&store, &ann, "gold").await.as_deref(), Some("1"));
}

#[tokio::test]
async fn a_master_that_hangs_or_dies_is_left_for_its_replica() {
    let cluster = RedisCluster::start(3, 1).await.unwrap();
    let limit = Duration::from_millis(300);
    let options = partitions_of(&cluster.url()).with(|redis| {
        redis.response_timeout = limit;
        redis.connect_timeout = limit;
    });
    let store = prepared(options).await;
    let ann = owner("ann");
    let partition = ann.partition(16);
    apply(&store, &ann, &[("gold", set("1"))]).await;
    let slot = slot_of(&cluster, partition).await;
    let master = cluster.owner_of(slot).await.unwrap();
    let next = mutation(&store, &ann, &[("gold", set("2"))]).await;
    cluster.node(master).unwrap().pause().unwrap();
    let unprepared = async {
        loop {
            match send(&store, next.clone()).await {
                Err(HotError {
                    kind: HotKind::Unprepared(_),
                    ..
                }) => break,
                Err(HotError {
                    kind: HotKind::Interrupted | HotKind::Unavailable,
                    ..
                }) => {}
                other => panic!("{other:?}"),
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(60), unprepared)
        .await
        .unwrap();
    let seen = store
        .partition_states(&[partition])
        .await
        .pop()
        .unwrap()
        .unwrap();
    let adopt = Adopt {
        partition,
        seen,
        epoch: Epoch(2),
        stamp: storage_model::Stamp::NONE,
        until: storage_model::Timestamp(u64::MAX),
        last_version: Version::ZERO,
        landed_here: false,
        compare_all: false,
        feed: storage_model::Position::ZERO,
        database: None,
    };
    assert_eq!(store.adopt(&[adopt]).await, [Ok(true)]);
    apply(&store, &ann, &[("gold", set("3"))]).await;
    assert_eq!(value(&store, &ann, "gold").await.as_deref(), Some("3"));
    cluster.node(master).unwrap().resume().unwrap();
}
