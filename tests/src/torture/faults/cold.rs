//! A database that is killed, slow, read-only, full, locked, or rejects rows.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use rand::RngExt as _;
use rand::rngs::StdRng;
use sqlx::Connection as _;
use sqlx::mysql::MySqlConnection;
use storage_model::Partition;
use tokio::time::{Instant, sleep};

use super::phase::{Phase, reach};
use super::{Fault, pause};
use crate::torture::arena::Arena;

/// The error number for a value that is rejected on purpose.
const REFUSED_ON_PURPOSE: u32 = 4025;

pub(super) async fn inject(
    fault: Fault,
    arena: &Arena,
    wanted: Phase,
    rng: &mut StdRng,
) -> Result<Option<Phase>> {
    let phase = reach(arena, wanted).await;
    let db = &arena.cold;
    match fault {
        Fault::DbKill => {
            db.kill()?;
            sleep(pause(rng, 0..1_500)).await;
            db.restart().await?;
        }
        Fault::DbPause => {
            db.pause()?;
            sleep(pause(rng, 200..2_500)).await;
            db.resume()?;
        }
        Fault::DbReadOnly => set_for_a_while(arena, "read_only", "1", "0", rng).await?,
        Fault::DbConnections => set_for_a_while(arena, "max_connections", "10", "151", rng).await?,
        // The smallest size that a worker accepts at its start.
        Fault::DbPacket => {
            set_for_a_while(arena, "max_allowed_packet", "1048576", "16777216", rng).await?
        }
        Fault::DbLock => hold_rows(arena, rng).await?,
        Fault::DbDeadlock => lock_backwards(arena, rng).await?,
        Fault::DbSessions => {
            for _ in 0..rng.random_range(3..10) {
                kill_sessions(arena).await?;
                sleep(pause(rng, 10..150)).await;
            }
        }
        _ => poison(arena, rng).await?,
    }
    Ok(phase)
}

/// Sets a variable of the server for a while. It kills all sessions, since a session keeps the
/// value from its beginning. It does everything in one session, since there may be no other one in
/// that time.
async fn set_for_a_while(
    arena: &Arena,
    name: &str,
    bad: &str,
    good: &str,
    rng: &mut StdRng,
) -> Result<()> {
    let seconds = pause(rng, 400..2_000).as_secs_f64();
    let [set, reset] =
        [bad, good].map(|value| format!("SET GLOBAL {name} = {value}; KILL USER storage;"));
    arena
        .cold
        .sql(&format!("{set} DO SLEEP({seconds}); {reset}"))
        .await
        .map(drop)
}

/// Kills all sessions of the storage's user, including those with an open transaction.
async fn kill_sessions(arena: &Arena) -> Result<()> {
    arena.cold.sql("KILL USER storage").await.map(drop)
}

/// A foreign transaction holds the record of a partition and some rows.
async fn hold_rows(arena: &Arena, rng: &mut StdRng) -> Result<()> {
    let mut foreign = MySqlConnection::connect(&arena.database).await?;
    let mut transaction = foreign.begin().await?;
    let (partition, owner) = (
        rng.random_range(0..arena.settings.redis.partitions),
        format!("p{}-", rng.random_range(0..2)),
    );
    let record =
        sqlx::query("SELECT epoch FROM landing_partition WHERE partition_id = ? FOR UPDATE")
            .bind(partition);
    record.execute(&mut *transaction).await?;
    let rows = "SELECT up_version FROM landing_rows WHERE owner_id LIKE CONCAT(?, '%') LIMIT 50 FOR UPDATE";
    // Another transaction may hold one of them for longer than this one waits, or be the other half
    // of a deadlock.
    let _ = sqlx::query(rows)
        .bind(owner)
        .execute(&mut *transaction)
        .await;
    sleep(pause(rng, 300..2_500)).await;
    let _ = transaction.rollback().await;
    Ok(())
}

/// Foreign transactions take the records of partitions in the opposite order of landing.
async fn lock_backwards(arena: &Arena, rng: &mut StdRng) -> Result<()> {
    let until = Instant::now() + pause(rng, 500..1_500);
    while Instant::now() < until {
        let mut foreign = MySqlConnection::connect(&arena.database).await?;
        let mut transaction = foreign.begin().await?;
        for partition in (0..arena.settings.redis.partitions).rev() {
            let record = sqlx::query(
                "SELECT epoch FROM landing_partition WHERE partition_id = ? FOR UPDATE",
            )
            .bind(partition);
            if record.execute(&mut *transaction).await.is_err() {
                break;
            }
            sleep(Duration::from_millis(2)).await;
        }
        let _ = transaction.rollback().await;
    }
    Ok(())
}

/// The database rejects some values for a while, and some writes have such values.
async fn poison(arena: &Arena, rng: &mut StdRng) -> Result<()> {
    let database = arena
        .database
        .rsplit('/')
        .next()
        .context("a database's name")?;
    arena
        .cold
        .sql(&format!(
            "INSERT INTO {database}.torture_switch VALUES ('poison')"
        ))
        .await?;
    let until = Instant::now() + pause(rng, 1_000..3_000);
    let at_the_latest = until + Duration::from_secs(10);
    let mut refused = 0;
    while Instant::now() < until || (refused == 0 && Instant::now() < at_the_latest) {
        refused = refused.max(rejected(arena).await.unwrap_or(0));
        sleep(Duration::from_millis(20)).await;
    }
    let lifted = arena
        .cold
        .sql(&format!("DELETE FROM {database}.torture_switch"))
        .await;
    ensure!(refused > 0, "the database refused nothing");
    lifted.map(drop)
}

/// The number of values that were rejected on purpose.
async fn rejected(arena: &Arena) -> Result<usize> {
    let mut rejected = 0;
    for partition in 0..arena.settings.redis.partitions {
        let page = arena
            .tiers
            .hot()
            .marks
            .errors(Partition(partition), 0, 100)
            .await?;
        rejected += page
            .entries
            .iter()
            .filter(|entry| entry.code == REFUSED_ON_PURPOSE)
            .count();
    }
    Ok(rejected)
}
