//! Calls without a pause, and their failures.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Result, ensure};
use storage_sdk::Owner;
use storage_shard_read::owners::Owners;
use storage_shard_read::{Client, Kind};
use storage_tests::until;
use tokio::task::JoinHandle;

/// Callers that ask for the players 0 to 15, and check each value.
#[derive(Debug)]
pub(crate) struct Load {
    ends: Arc<AtomicBool>,
    calls: Arc<AtomicU64>,
    callers: Vec<JoinHandle<Result<()>>>,
}

const CALLERS: usize = 4;
pub(crate) const PLAYERS: u32 = 16;
/// A call that is under way while a server is killed takes its time on a busy machine.
const DEADLINE: Duration = Duration::from_secs(20);

impl Load {
    /// No call may fail.
    pub(crate) fn start(client: &Client<Owners>) -> Self {
        Self::with(client, false)
    }

    /// A call may have no answer, and the next one follows.
    pub(crate) fn through_outages(client: &Client<Owners>) -> Self {
        Self::with(client, true)
    }

    fn with(client: &Client<Owners>, may_fail: bool) -> Self {
        let (ends, calls) = (
            Arc::new(AtomicBool::new(false)),
            Arc::new(AtomicU64::new(0)),
        );
        let caller = |_| {
            let caller = Caller {
                client: client.clone(),
                may_fail,
                ends: Arc::clone(&ends),
                calls: Arc::clone(&calls),
            };
            tokio::spawn(caller.run())
        };
        let callers = (0..CALLERS).map(caller).collect();
        Self {
            ends,
            calls,
            callers,
        }
    }

    /// Waits for some further calls.
    pub(crate) async fn goes_on(&self) -> Result<()> {
        let before = self.calls.load(Ordering::Relaxed);
        let wanted = before + 4 * CALLERS as u64;
        until("calls go on", async || {
            let has_failed = self.callers.iter().any(JoinHandle::is_finished);
            Ok(has_failed || self.calls.load(Ordering::Relaxed) >= wanted)
        })
        .await
    }

    /// Ends the calls. Fails with the first failure of a call.
    pub(crate) async fn end(self) -> Result<()> {
        self.goes_on().await?;
        self.ends.store(true, Ordering::Relaxed);
        for caller in self.callers {
            caller.await??;
        }
        Ok(())
    }
}

struct Caller {
    client: Client<Owners>,
    may_fail: bool,
    ends: Arc<AtomicBool>,
    /// Calls with all values.
    calls: Arc<AtomicU64>,
}

impl Caller {
    async fn run(self) -> Result<()> {
        while !self.ends.load(Ordering::Relaxed) {
            let players = (0..PLAYERS).map(|id| player(&id.to_string()));
            let players = players.collect::<Result<Vec<_>>>()?;
            let found = match self.client.get(players).deadline(DEADLINE).await {
                Err(error) if self.may_fail && error.kind() == Kind::Unanswered => continue,
                found => found?,
            };
            ensure!(found.values.len() == PLAYERS as usize, "{found:?}");
            for (owner, landed) in &found.values {
                let gold = landed
                    .as_ref()
                    .and_then(|landed| landed.fields().remove("gold"));
                ensure!(
                    gold.as_deref() == Some(owner.id().as_bytes()),
                    "{owner}: {gold:?}"
                );
            }
            self.calls.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }
}

/// A player.
pub(crate) fn player(id: &str) -> Result<Owner> {
    Ok(Owner::new("game", "eu", "player", id)?)
}
