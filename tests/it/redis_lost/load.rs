//! Counters that count all the time, and a watcher of the database. A landed value is never lost,
//! never read older, and never overwritten from an older base.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use storage_coalesce::locked;
use storage_sdk::ByteOwner;
use storage_tests::{Stack, rows, until};
use tokio::task::JoinSet;

const PLAYERS: usize = 12;

/// A lower bound for a player's landed counter, as seen in the database.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Landed {
    version: u64,
    gold: i64,
}

/// Players that play through all faults, and a watcher of their rows.
pub(super) struct Load {
    database: String,
    players: Vec<ByteOwner>,
    landed: Arc<Mutex<Vec<Landed>>>,
    stop: Arc<AtomicBool>,
    tasks: JoinSet<Result<()>>,
}

impl Load {
    pub(super) async fn start(stack: &Stack) -> Result<Self> {
        let players: Vec<_> = (0..PLAYERS)
            .map(|id| stack.player(&id.to_string()))
            .collect();
        let mut load = Self {
            database: stack.database.clone(),
            players,
            landed: Arc::new(Mutex::new(vec![Landed::default(); PLAYERS])),
            stop: Arc::default(),
            tasks: JoinSet::new(),
        };
        for (id, player) in load.players.iter().enumerate() {
            let (player, landed, stop) = (player.clone(), load.landed.clone(), load.stop.clone());
            load.tasks
                .spawn(async move { play(id, &player, &landed, &stop).await });
        }
        let (database, landed, stop) = (
            load.database.clone(),
            load.landed.clone(),
            load.stop.clone(),
        );
        load.tasks
            .spawn(async move { watch(&database, &landed, &stop).await });
        load.advance().await?;
        Ok(load)
    }

    /// Waits until each player has landed a write that was made after this call began.
    pub(super) async fn advance(&mut self) -> Result<()> {
        let mut written = Vec::new();
        until("every player writes", async || {
            while let Some(player) = self.players.get(written.len()) {
                // The call fails while servers are replaced.
                let Ok(counted) = player.incr("gold", 1).await else {
                    return Ok(false);
                };
                written.push(counted.version().get());
            }
            Ok(true)
        })
        .await?;
        until("a write of every player lands", async || {
            if let Some(ended) = self.tasks.try_join_next() {
                ended??;
                anyhow::bail!("a player stopped");
            }
            Ok(locked(&self.landed)
                .iter()
                .zip(&written)
                .all(|(landed, written)| landed.version >= *written))
        })
        .await
    }

    /// Stops, lands the rest, and compares both tiers.
    pub(super) async fn finish(mut self, stack: &Stack) -> Result<()> {
        self.stop.store(true, Ordering::SeqCst);
        while let Some(ended) = self.tasks.join_next().await {
            ended??;
        }
        stack.landed().await?;
        see(&self.database, &self.landed).await?;
        let landed = locked(&self.landed).clone();
        for (player, landed) in self.players.iter().zip(landed) {
            let last = player.incr("gold", 1).await?;
            ensure!(
                last.value() == landed.gold + 1,
                "{player:?} counts {} after {landed:?}",
                last.value()
            );
            ensure!(
                last.version().get() > landed.version,
                "{player:?} is at {} after {landed:?}",
                last.version()
            );
        }
        let owners: Vec<_> = self
            .players
            .iter()
            .map(|player| player.owner().clone())
            .collect();
        stack.landed().await?;
        let compared = stack.storage.tiers().compare(&owners).await?;
        ensure!(compared.conflicts.is_empty(), "{compared:?}");
        Ok(())
    }
}

async fn play(
    id: usize,
    player: &ByteOwner,
    landed: &Mutex<Vec<Landed>>,
    stop: &AtomicBool,
) -> Result<()> {
    let least = || locked(landed).get(id).copied().unwrap_or_default();
    while !stop.load(Ordering::SeqCst) {
        let before = least();
        // A call may fail while servers are replaced. If it succeeds, its answer must be right.
        if let Ok(done) = player.incr("gold", 1).await {
            ensure!(
                done.value() > before.gold,
                "{player:?} counts {} after {before:?} had landed",
                done.value()
            );
            ensure!(
                done.version().get() > before.version,
                "{player:?} is at {} after {before:?} had landed",
                done.version()
            );
        }
        let before = least();
        if let Ok(read) = player.get(["gold"]).await {
            let gold = read["gold"]
                .as_ref()
                .with_context(|| format!("{player:?} has no gold after {before:?}"))?;
            let gold: i64 = std::str::from_utf8(gold)?.parse()?;
            ensure!(
                gold >= before.gold,
                "{player:?} reads {gold} after {before:?} had landed"
            );
        }
        // Other tasks need the processor, too.
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Ok(())
}

async fn watch(database: &str, landed: &Mutex<Vec<Landed>>, stop: &AtomicBool) -> Result<()> {
    while !stop.load(Ordering::SeqCst) {
        see(database, landed).await?;
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Ok(())
}

/// Checks that no row has gone back.
async fn see(database: &str, landed: &Mutex<Vec<Landed>>) -> Result<()> {
    for row in rows(database).await? {
        let id: usize = row.name.split('/').nth(1).unwrap_or_default().parse()?;
        let now = Landed {
            version: row.version,
            gold: std::str::from_utf8(&row.value)?.parse()?,
        };
        let mut landed = locked(landed);
        let before = landed
            .get_mut(id)
            .with_context(|| format!("{} is nobody's", row.name))?;
        ensure!(
            now.gold >= before.gold && now.version >= before.version,
            "{} went from {before:?} to {now:?}",
            row.name
        );
        *before = now;
    }
    Ok(())
}
