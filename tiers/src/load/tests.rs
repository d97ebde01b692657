//! The result of a load is valid as long as its hash is there.

use std::sync::Arc;

use storage_config::{HotSettings, HotUrl, RedisSettings};
use storage_dirty::{Adopt, Fields, MemoryStore, Mutated, Owners, Partitions, Read};
use storage_model::{
    Bytes, Cell, Change, Epoch, Field, ManualClock, Mutation, OpId, Owner, Partition, Row,
    Timestamp, Version,
};

use super::batch::back;
use super::load_of;

#[tokio::test]
async fn a_load_answered_by_the_hash_holds_as_long_as_the_hash_is_there() {
    let clock = Arc::new(ManualClock::new(Timestamp(1_800_000_000_000_000)));
    let settings = RedisSettings::new(HotUrl::Memory).with(|redis| redis.partitions = 1);
    let hot = MemoryStore::new(&settings, &HotSettings::default(), clock);
    let seen = hot
        .partition_states(&[Partition(0)])
        .await
        .remove(0)
        .unwrap();
    let adopt = Adopt {
        partition: Partition(0),
        seen,
        epoch: Epoch(1),
        stamp: storage_model::Stamp::NONE,
        until: storage_model::Timestamp(u64::MAX),
        last_version: Version::ZERO,
        landed_here: false,
        compare_all: false,
        feed: storage_model::Position::ZERO,
        database: None,
    };
    assert_eq!(hot.adopt(&[adopt]).await, [Ok(true)]);
    let owner = Owner::new("game", "eu", "player", "ann").unwrap();
    let (owners, gold) = ([owner.clone()], Field::new("gold").unwrap());
    let version = Version::new(1_700_000_000_000_000).unwrap();
    let row = Row {
        owner: owner.clone(),
        field: gold.clone(),
        cell: Cell::Live(Bytes::from_static(b"10")),
        version,
    };
    let observed = hot.observe(&owners).await.remove(0).unwrap();
    hot.fill(&[load_of(&owner, observed, vec![row], true)])
        .await
        .remove(0)
        .unwrap();

    let observed = hot.observe(&owners).await.remove(0).unwrap();
    let read = hot
        .read(&[Read {
            owner: owner.clone(),
            fields: Fields::All,
        }])
        .await
        .remove(0);
    let full = back(&owner, observed, read).unwrap().unwrap().unwrap();
    let deadline = Timestamp(1_800_000_001_000_000);
    let incr = |id| {
        Mutation::new(
            owner.clone(),
            vec![(gold.clone(), Change::Incr(5))],
            OpId::new([id; 16]),
            deadline,
        )
    };
    let there = hot
        .mutate(&[(incr(1), vec![full.load.clone()])])
        .await
        .remove(0)
        .unwrap();
    assert!(matches!(there, Mutated::Applied(applied) if applied.counters == [15]));

    let other = Owner::new("game", "eu", "player", "bob").unwrap();
    let owners = [other.clone()];
    let row = Row {
        owner: other.clone(),
        field: gold.clone(),
        cell: Cell::Live(Bytes::from_static(b"10")),
        version,
    };
    let observed = hot.observe(&owners).await.remove(0).unwrap();
    hot.fill(&[load_of(&other, observed, vec![row], true)])
        .await
        .remove(0)
        .unwrap();
    let observed = hot.observe(&owners).await.remove(0).unwrap();
    let read = hot
        .read(&[Read {
            owner: other.clone(),
            fields: Fields::All,
        }])
        .await
        .remove(0);
    let full = back(&other, observed, read).unwrap().unwrap().unwrap();
    hot.evict(&owners).await.remove(0).unwrap();
    let gone = hot.observe(&owners).await.remove(0).unwrap();
    let incr = Mutation::new(
        other,
        vec![(gold, Change::Incr(5))],
        OpId::new([2; 16]),
        deadline,
    );
    assert_eq!(
        hot.mutate(&[(incr, vec![full.load.clone()])]).await,
        [Ok(Mutated::Load(gone))]
    );
}
