//! Seeded play over many players, and the oracle with the final state of each field.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use serde::{Deserialize, Serialize};
use storage_config::Settings;
use storage_sdk::{Ack, ByteOwner, Retry, Storage, Write};

/// The writes of a game server, and the data that must be stored after them.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Oracle {
    /// Writes that were acknowledged.
    pub acknowledged: u64,
    /// `logic_type/owner_id/field` to the value. None if the field was removed.
    pub fields: BTreeMap<String, Option<String>>,
}

/// The number of players of one game server.
const PLAYERS: u32 = 300;
/// The number of concurrent tasks. Each plays its own players.
const TASKS: u32 = 12;
/// The number of repeats of a write with an unknown outcome, under its id.
const REPEATS: u32 = 10;

/// Plays for this time, and on until this number of writes was acknowledged, for at most ten times
/// as long. Only one task writes each player, so the last acknowledged write of a field is exact.
///
/// # Errors
/// The storage does not open, or a write stays unknown or fails for good.
pub async fn play(
    settings: Settings,
    server: u32,
    time: Duration,
    writes: u64,
    seed: u64,
) -> Result<Oracle> {
    let storage = Storage::open(settings).await?;
    let begun = Instant::now();
    let acknowledged = Arc::new(AtomicU64::new(0));
    let mut tasks = tokio::task::JoinSet::new();
    for task in 0..TASKS {
        let storage = storage.clone();
        let rng = StdRng::seed_from_u64(seed ^ (u64::from(server) << 32 | u64::from(task)));
        let acknowledged = Arc::clone(&acknowledged);
        // Called before each write. It counts the writes before it.
        let goes_on = move || {
            let before = acknowledged.fetch_add(1, Ordering::Relaxed);
            begun.elapsed() < time || (before < writes && begun.elapsed() < time * 10)
        };
        tasks.spawn(async move { play_task(&storage, server, task, goes_on, rng).await });
    }
    let mut oracle = Oracle::default();
    while let Some(played) = tasks.join_next().await {
        let played = played??;
        oracle.acknowledged += played.acknowledged;
        oracle.fields.extend(played.fields);
    }
    let report = storage.close(Duration::from_secs(10)).await;
    ensure!(
        report.under_way == 0,
        "{} writes are still under way",
        report.under_way
    );
    Ok(oracle)
}

async fn play_task(
    storage: &Storage,
    server: u32,
    task: u32,
    goes_on: impl Fn() -> bool,
    mut rng: StdRng,
) -> Result<Oracle> {
    let bytes = storage.world("game", "eu")?.bytes();
    let mut oracle = Oracle::default();
    while goes_on() {
        let id = format!(
            "s{server}-{}",
            rng.random_range(0..PLAYERS / TASKS) * TASKS + task
        );
        let owner = bytes.owner("player", &id)?;
        let field = format!("f{}", rng.random_range(0..6));
        let key = |field: &str| format!("player/{id}/{field}");
        match rng.random_range(0..10) {
            0..6 => {
                let value = format!(
                    "{}-{}",
                    oracle.acknowledged,
                    "x".repeat(rng.random_range(0..100))
                );
                let other = format!("g{}", rng.random_range(0..3));
                applied(storage, || {
                    owner.update([(&field, value.clone()), (&other, value.clone())])
                })
                .await?;
                oracle.fields.insert(key(&field), Some(value.clone()));
                oracle.fields.insert(key(&other), Some(value));
            }
            6..9 => {
                let by = rng.random_range(-5..50);
                let counted = incr(storage, &owner, by).await?;
                let before: i64 = oracle
                    .fields
                    .get(&key("gold"))
                    .cloned()
                    .flatten()
                    .unwrap_or_default()
                    .parse()
                    .unwrap_or(0);
                ensure!(
                    counted == before + by,
                    "{id}: gold is {counted}, not {before} + {by}"
                );
                oracle.fields.insert(key("gold"), Some(counted.to_string()));
            }
            _ => {
                applied(storage, || owner.remove([field.as_str()])).await?;
                if let Some(value) = oracle.fields.get_mut(&key(&field)) {
                    *value = None;
                }
            }
        }
        oracle.acknowledged += 1;
    }
    Ok(oracle)
}

/// Sends a write until its outcome is known. The README has this recipe.
async fn applied(storage: &Storage, write: impl Fn() -> Write) -> Result<Ack> {
    let id = storage.next_id();
    let mut result = write().id(id).await;
    for _ in 0..REPEATS {
        match result {
            Err(error) if error.retry() == Retry::SameId => result = write().id(id).await,
            done => return Ok(done?),
        }
    }
    Ok(result?)
}

async fn incr(storage: &Storage, owner: &ByteOwner, by: i64) -> Result<i64> {
    let id = storage.next_id();
    let mut result = owner.incr("gold", by).id(id).await;
    for _ in 0..REPEATS {
        match result {
            Err(error) if error.retry() == Retry::SameId => {
                result = owner.incr("gold", by).id(id).await
            }
            done => return Ok(done?.value()),
        }
    }
    Ok(result?.value())
}
