//! Raising and adopting the epoch of a partition (R14). Time is simulated.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use futures::future::try_join_all;
use storage_config::{HotSettings, HotUrl, RedisSettings};
use storage_dirty::{Adopt, Hot, MemoryStore, PartitionRecord, PartitionState};
use storage_model::{
    Epoch, Field, HotId, ManualClock, Owner, Partition, Position, Stamp, Timestamp, Version,
};
use storage_sql::{Batch, Fence, PartitionRecord as ColdRecord, Raise};
use storage_tests::sim::chance::{Chance, Weather};
use storage_tests::sim::database::server::Lockable;
use storage_tests::sim::database::tables::Tables;
use storage_tests::sim::database::transaction::Way;
use storage_tests::sim::database::{Database, ModelStore};
use storage_tiers::Tiers;
use storage_tiers::landed_here;
use tokio::time::sleep;

const PARTITION: Partition = Partition(0);

/// Both tiers, empty, with one partition. Every statement takes a while.
fn tiers() -> (Arc<Database>, Tiers) {
    tiers_of(1)
}

fn tiers_of(partitions: u32) -> (Arc<Database>, Tiers) {
    let (database, chance) = (Database::new(None), Chance::new(0, false));
    chance.turn(Weather {
        delay_max: 8,
        ..Weather::default()
    });
    let way = Way {
        database: database.clone(),
        chance,
        process: Arc::default(),
    };
    let clock = Arc::new(ManualClock::new(Timestamp(1_800_000_000_000_000)));
    let settings = RedisSettings::new(HotUrl::Memory).with(|redis| redis.partitions = partitions);
    let hot = MemoryStore::new(&settings, &HotSettings::default(), clock);
    (
        database,
        Tiers::new(Hot::of(&Arc::new(hot)), ModelStore::cold(way), 100),
    )
}

async fn state(tiers: &Tiers) -> Result<PartitionState> {
    let partitions = &tiers.hot().partitions;
    Ok(partitions.partition_states(&[PARTITION]).await.remove(0)?)
}

async fn record(tiers: &Tiers) -> Result<PartitionRecord> {
    state(tiers).await?.record.context("a record")
}

#[tokio::test(start_paused = true)]
async fn several_who_prepare_a_partition_at_once_raise_its_epoch_once() -> Result<()> {
    let (_, tiers) = tiers();
    let process = |_| Tiers::new(tiers.hot().clone(), tiers.cold().clone(), 100);
    let processes: Vec<_> = (0..8).map(process).collect();
    let prepared = processes.iter().map(|tiers| tiers.prepare(&[PARTITION]));
    try_join_all(prepared).await?;
    assert_eq!(record(&tiers).await?.epoch, Epoch(1));
    Ok(())
}

/// Alone, each of them would wait for the others' connections to the database.
#[tokio::test(start_paused = true)]
async fn calls_that_meet_many_partitions_out_of_order_prepare_them_together() -> Result<()> {
    let (_, tiers) = tiers_of(64);
    let calls = (0..640).map(|call| tiers.prepare_for_call(Partition(call % 64)));
    try_join_all(calls).await?;
    let all: Vec<_> = (0..64).map(Partition).collect();
    let records = tiers.cold().partitions.partitions(&all).await?;
    assert!(records.iter().all(|record| record.epoch == Epoch(1)));
    let raises: BTreeSet<u64> = records.iter().map(|record| record.stamp.0).collect();
    assert!(raises.len() <= 8, "{} raises", raises.len());
    Ok(())
}

/// A program of an older version stores no hot tier. Calls to a partition in order would never do so.
#[tokio::test(start_paused = true)]
async fn a_partition_that_an_older_program_raised_is_named_by_the_next_comparison() -> Result<()> {
    let (database, tiers) = tiers();
    tiers.compare_tiers().await?;
    database.change(|tables| tables.raise(&[Raise::by_one(PARTITION, Epoch(0))]));
    let seen = tiers
        .hot()
        .partitions
        .partition_states(&[PARTITION])
        .await
        .remove(0)?;
    let here = HotId::of(&seen.incarnation);
    let adopt = Adopt {
        partition: PARTITION,
        seen,
        epoch: Epoch(1),
        stamp: Stamp::NONE,
        until: Timestamp(u64::MAX),
        last_version: Version::ZERO,
        landed_here: false,
        compare_all: false,
        feed: Position::ZERO,
        database: None,
    };
    assert_eq!(tiers.hot().partitions.adopt(&[adopt]).await, [Ok(true)]);
    let named = |tables: &Tables| tables.record(PARTITION).hot;
    assert_eq!(database.tables(named), HotId::NONE);
    tiers.compare_tiers().await?;
    assert_eq!(database.tables(named), here);
    Ok(())
}

/// The epoch may have been raised for another hot tier, which lands in that epoch.
#[tokio::test(start_paused = true)]
async fn an_epoch_that_somebody_else_raised_is_not_adopted() -> Result<()> {
    let (database, tiers) = tiers();
    tiers.belong().await?;
    let held = database.lock(Lockable::Partition(PARTITION)).await;
    let preparing = tokio::spawn({
        let tiers = tiers.clone();
        async move { tiers.prepare(&[PARTITION]).await }
    });
    sleep(Duration::from_secs(1)).await;
    assert!(
        !preparing.is_finished(),
        "it waits to raise the epoch that it has seen"
    );
    // For this very hot tier. An adoption of that epoch would look whole to the next comparison.
    let here = state(&tiers).await?;
    let by_other_process = Raise {
        by: HotId::of(&here.incarnation),
        ..Raise::by_one(PARTITION, Epoch(0))
    };
    database.change(|tables| tables.raise(&[by_other_process]));
    drop(held);
    preparing.await??;
    let seen = state(&tiers).await?;
    assert_eq!(record(&tiers).await?.epoch, Epoch(2));
    let landed_in = |epoch| ColdRecord {
        landed_epoch: Epoch(epoch),
        ..database.tables(|tables| tables.record(PARTITION))
    };
    let stamp = record(&tiers).await?.stamp;
    let from = |seen| Raise {
        above: Epoch(2),
        seen_stamp: stamp,
        ..Raise::by_one(PARTITION, Epoch(seen))
    };
    assert!(landed_here(&seen, from(2), landed_in(2)) && landed_here(&seen, from(3), landed_in(1)));
    assert!(
        !landed_here(&seen, from(3), landed_in(3)),
        "in epoch 3 another one has landed"
    );
    assert!(
        !landed_here(&seen, from(1), landed_in(1)),
        "the database has forgotten epoch 2, and may have given it to another one"
    );
    Ok(())
}

/// The process that raised the epoch was lost, or its server was replaced once more. A slow server
/// that just came back causes this.
#[tokio::test(start_paused = true)]
async fn an_epoch_that_was_raised_and_never_adopted_makes_nothing_suspect_unless_something_landed_in_it()
-> Result<()> {
    for (landed_in, is_suspect) in [(Epoch(1), false), (Epoch(2), true)] {
        let (database, tiers) = tiers();
        tiers.prepare(&[PARTITION]).await?;
        let owner = Owner::new("game", "eu", "player", "ann")?;
        tiers
            .hot()
            .marks
            .collect(PARTITION, &[(owner, vec![Field::new("gold")?])], None)
            .await?;
        let before = record(&tiers).await?;
        let reaches = before.collected;
        let fence = Fence {
            partition: PARTITION,
            epoch: landed_in,
            stamp: before.stamp,
            landed: Version::ZERO,
            reaches,
            database: None,
        };
        // A commit that was not settled, beside an epoch that was not adopted.
        database.change(|tables| {
            let raise = Raise {
                seen_stamp: before.stamp,
                ..Raise::by_one(PARTITION, Epoch(1))
            };
            tables.raise(&[raise]);
            tables.take(&Batch {
                whole: false,
                trial: false,
                events: Vec::new(),
                leads: Vec::new(),
                fences: vec![fence],
                rows: vec![],
            });
            // A landing in epoch 1 looks as if it had come before the raise.
            let stamp = tables.record(PARTITION).stamp;
            tables.raise(&[Raise {
                seen_stamp: stamp,
                ..raise
            }]);
        });
        tiers.prepare(&[PARTITION]).await?;
        let after = record(&tiers).await?;
        assert_eq!((after.epoch, after.landed), (Epoch(3), reaches));
        assert_eq!(
            after.generation != before.generation,
            is_suspect,
            "landed in {landed_in:?}"
        );
    }
    Ok(())
}
